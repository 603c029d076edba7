package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
)

// Annotation holds, on a Node that is going away, why it goes and what the agent put on it: a Mark as JSON.
const Annotation = "node-drainer.io/termination"

// ErrGone is returned when there is no Node of that name, or it belongs to another instance by now.
var ErrGone = errors.New("the node is gone")

// Mark is what the agent notes on a Node that it takes out of service.
type Mark struct {
	InstanceID string    `json:"instance"`
	Reason     string    `json:"reason"`          // the kind of event
	Hook       string    `json:"hook,omitempty"`  // GROUP/HOOK
	Token      string    `json:"token,omitempty"` // of the lifecycle action
	Since      time.Time `json:"since"`
	Deadline   time.Time `json:"deadline,omitzero"`
	Put        []string  `json:"put"` // what was not there before: taint, cordon, label
}

// The things that a Mark can say the agent put on a Node.
const (
	putTaint  = "taint"
	putCordon = "cordon"
	putLabel  = "label"
)

// Reason is why, and until when at the latest, a node is taken out of service.
type Reason struct {
	Kind     string
	Hook     string    // GROUP/HOOK; empty if no hook waits
	Token    string    // of the lifecycle action; may be empty
	Deadline time.Time // zero if it is not known yet
}

// Retire takes the Node out of service in one patch, as configured: taint, unschedulable, load-balancer
// label, and an annotation with the reason and the deadline. It returns the mark that the Node has
// afterwards. Of two deadlines the earlier stays, and a Node that has all of it already is not patched. The
// patch is guarded by the Node's resource version. The error is ErrGone if the Node no longer exists.
func (n *Nodes) Retire(ctx context.Context, node Node, reason Reason) (Mark, error) {
	var mark Mark
	err := n.change(ctx, node, func(current *corev1.Node) patch {
		var p patch
		p, mark = retire(current, n.cfg, reason, time.Now())
		return p
	})
	return mark, err
}

// Restore takes off the Node what Retire put on it, and nothing else. It tells whether there was anything.
// The condition of a drain goes as well, in its own time.
func (n *Nodes) Restore(ctx context.Context, node Node) (restored bool, err error) {
	err = n.change(ctx, node, func(current *corev1.Node) patch {
		p := restore(current, n.cfg)
		restored = p != nil
		return p
	})
	if err == nil {
		n.withdraw(node.Name, node.UID)
	}
	return restored, err
}

// Exclude puts the load-balancer label on the Node, if it is configured to be put late.
func (n *Nodes) Exclude(ctx context.Context, node Node) error {
	if n.cfg.ExcludeFromLB != Late {
		return nil
	}
	return n.change(ctx, node, exclude)
}

// changeTimeout bounds a change: an API server that hangs must not hold up the verdict on a message.
const changeTimeout = 15 * time.Second

// change patches the Node with what alter returns for its current state; nil changes nothing. The Node is
// read from the watch first, and from the API after a conflict, or before it is said that there is nothing to
// change, or no such Node: the watch may not show yet what was just done.
func (n *Nodes) change(ctx context.Context, node Node, alter func(*corev1.Node) patch) error {
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	current, err := n.cached(node.Name)
	if err != nil || string(current.UID) != node.UID || alter(current) == nil {
		current = nil
	}
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if current == nil {
			if current, err = n.client.CoreV1().Nodes().Get(ctx, node.Name, metav1.GetOptions{}); err != nil {
				return err
			}
		}
		if string(current.UID) != node.UID {
			return ErrGone
		}
		p := alter(current)
		if p == nil {
			return nil
		}
		p.guard(current.ResourceVersion)
		current = nil
		return n.apply(ctx, node.Name, p)
	})
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("%w: %w", ErrGone, err)
	}
	if err != nil {
		return fmt.Errorf("change node %s: %w", node.Name, err)
	}
	return nil
}

func (n *Nodes) cached(name string) (*corev1.Node, error) {
	obj, ok, err := n.informer.GetIndexer().GetByKey(name)
	if err != nil {
		return nil, fmt.Errorf("find node %s: %w", name, err)
	}
	if !ok {
		return nil, fmt.Errorf("node %s: %w", name, ErrGone)
	}
	return obj.(*corev1.Node), nil //nolint:forcetypeassert // the informer holds Nodes
}

func (n *Nodes) apply(ctx context.Context, name string, p patch) error {
	body, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("encode the patch: %w", err)
	}
	_, err = n.client.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{})
	return err
}

// patch is a JSON merge patch (RFC 7386) of a Node.
type patch map[string]map[string]any

func newPatch() patch { return patch{"metadata": {}, "spec": {}} }

// guard makes the API server refuse the patch if the Node has changed since it was read.
func (p patch) guard(resourceVersion string) { p["metadata"]["resourceVersion"] = resourceVersion }

func (p patch) annotate(value any) { p["metadata"]["annotations"] = map[string]any{Annotation: value} }

func (p patch) label(value any) {
	p["metadata"]["labels"] = map[string]any{corev1.LabelNodeExcludeBalancers: value}
}

// retire returns the patch that takes current out of service, nil if that has been done, and the mark that it
// has afterwards.
func retire(current *corev1.Node, cfg Config, reason Reason, now time.Time) (patch, Mark) {
	before, marked := readMark(current)
	mark := before.merge(reason, now)
	mark.InstanceID = instanceOf(current)

	p := newPatch()
	if !hasTaint(current, cfg) {
		taint := corev1.Taint{Key: cfg.TaintKey, Value: reason.Kind, Effect: corev1.TaintEffect(cfg.TaintEffect)}
		p["spec"]["taints"] = append(slices.Clone(current.Spec.Taints), taint)
		mark.put(putTaint)
	}
	if cfg.Cordon && !current.Spec.Unschedulable {
		p["spec"]["unschedulable"] = true
		mark.put(putCordon)
	}
	if _, has := current.Labels[corev1.LabelNodeExcludeBalancers]; cfg.ExcludeFromLB == Early && !has {
		p.label("true")
		mark.put(putLabel)
	}
	if len(p["spec"]) == 0 && len(p["metadata"]) == 0 && marked && mark.same(before) {
		return nil, mark
	}
	p.annotate(mark.encode())
	return p, mark
}

// restore returns the patch that takes our mark, and what it says we put, off current; nil if it has no mark.
func restore(current *corev1.Node, cfg Config) patch {
	mark, marked := readMark(current)
	if !marked {
		return nil
	}
	p := newPatch()
	p.annotate(nil)
	if slices.Contains(mark.Put, putTaint) {
		p["spec"]["taints"] = slices.DeleteFunc(slices.Clone(current.Spec.Taints), cfg.isTaint)
	}
	if slices.Contains(mark.Put, putCordon) {
		p["spec"]["unschedulable"] = nil
	}
	if slices.Contains(mark.Put, putLabel) {
		p.label(nil)
	}
	return p
}

// exclude returns the patch that puts the load-balancer label on current; nil if it is there.
func exclude(current *corev1.Node) patch {
	mark, marked := readMark(current)
	if _, has := current.Labels[corev1.LabelNodeExcludeBalancers]; has || !marked {
		return nil
	}
	mark.put(putLabel)
	p := newPatch()
	p.label("true")
	p.annotate(mark.encode())
	return p
}

func hasTaint(node *corev1.Node, cfg Config) bool {
	return slices.ContainsFunc(node.Spec.Taints, cfg.isTaint)
}

func (c Config) isTaint(t corev1.Taint) bool {
	return t.Key == c.TaintKey && string(t.Effect) == c.TaintEffect
}

// readMark returns the mark on a Node. A mark of another instance, left by a Node that had the name before,
// or one that cannot be read, is none.
func readMark(node *corev1.Node) (Mark, bool) {
	text, ok := node.Annotations[Annotation]
	if !ok {
		return Mark{}, false
	}
	var mark Mark
	if err := json.Unmarshal([]byte(text), &mark); err != nil || mark.InstanceID != instanceOf(node) {
		return Mark{}, false
	}
	return mark, true
}

func (m Mark) encode() string {
	text, err := json.Marshal(m)
	if err != nil {
		return "{}" // a Mark of strings and times always encodes
	}
	return string(text)
}

func (m *Mark) put(what string) {
	if !slices.Contains(m.Put, what) {
		m.Put = append(m.Put, what)
	}
}

// merge is the mark for reason on a Node that has the mark m. Of two deadlines of one termination the earlier
// stays; another action of the same hook is a new termination, of an instance that lived on after the first.
func (m Mark) merge(reason Reason, now time.Time) Mark {
	renewed := m.Hook == reason.Hook && m.Token != reason.Token && m.Token != "" && reason.Token != ""
	if m.Since.IsZero() || renewed {
		m.Since, m.Deadline = now.UTC().Truncate(time.Second), time.Time{}
		m.Reason, m.Hook, m.Token = reason.Kind, reason.Hook, reason.Token
	}
	if m.Hook == "" || (m.Hook == reason.Hook && m.Token == "") {
		m.Hook, m.Token = reason.Hook, reason.Token
	}
	m.Deadline = earlier(m.Deadline, reason.Deadline.UTC().Truncate(time.Second))
	m.Put = slices.Clone(m.Put)
	return m
}

func (m Mark) same(o Mark) bool {
	return m.Hook == o.Hook && m.Token == o.Token && m.Since.Equal(o.Since) && m.Deadline.Equal(o.Deadline)
}

// earlier returns the earlier of two instants; a zero one is not set.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}
