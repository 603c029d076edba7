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
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/util/retry"
)

// Annotation holds, on a Node that is going away, why it goes and what the agent put on it: a Mark as JSON.
const Annotation = "node-drainer.io/termination"

// ErrGone is returned when there is no Node of that name, or it belongs to another instance by now.
var ErrGone = errors.New("the node is gone")

// Mark is what the agent notes on a Node that it takes out of service.
type Mark struct {
	InstanceID   string    `json:"instance"`
	Reason       string    `json:"reason"`          // the kind of event
	Hook         string    `json:"hook,omitempty"`  // GROUP/HOOK
	Token        string    `json:"token,omitempty"` // of the lifecycle action
	Since        time.Time `json:"since"`           // when it was marked; of a Node that is drained, with a deadline
	Deadline     time.Time `json:"deadline,omitzero"`
	TerminatesAt time.Time `json:"goes,omitzero"` // when the instance goes whatever we do, as the event says
	Added        []string  `json:"put"`           // what was not there before: taint, cordon, label
}

// The things that a Mark can say the agent put on a Node.
const (
	putTaint  = "taint"
	putCordon = "cordon"
	putLabel  = "label"
)

// Reason is why, and until when at the latest, a node is taken out of service.
type Reason struct {
	Kind         string
	Hook         string    // GROUP/HOOK; empty if no hook waits
	Token        string    // of the lifecycle action; may be empty
	Deadline     time.Time // zero if it is not known yet
	TerminatesAt time.Time // when the instance goes whatever we do; zero if the event does not say
}

// Cordon takes the Node out of service in one patch, as configured: taint, unschedulable, load-balancer
// label, and an annotation with the reason and the deadline. It returns the mark that the Node has
// afterwards, and whether that is news: the Node had no mark, or one with a later deadline. Of two deadlines
// the earlier stays, and a Node that has all of it already is not patched. The patch is guarded by the Node's
// resource version. The error is ErrGone if the Node no longer exists.
func (n *Nodes) Cordon(ctx context.Context, node Node, reason Reason) (mark Mark, news bool, err error) {
	err = n.change(ctx, node, func(current *corev1.Node) patch {
		var p patch
		before, _ := readMark(current)
		p, mark = retire(current, n.cfg, reason, time.Now())
		news = !mark.Since.Equal(before.Since) || !mark.Deadline.Equal(before.Deadline)
		return p
	})
	return mark, news, err
}

// Uncordon takes off the Node what Retire put on it, and nothing else. It tells whether there was anything.
// The condition of a drain goes as well, in its own time.
func (n *Nodes) Uncordon(ctx context.Context, node Node) (restored bool, err error) {
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
// taken as our own last patch has left it, or as the watch shows it, and read from the API after a conflict,
// or before it is said on the word of the watch that there is nothing to change, or no such Node: the watch
// may not show yet what was just done. The changes of one Node come one after the other.
func (n *Nodes) change(ctx context.Context, node Node, alter func(*corev1.Node) patch) error {
	n.changing.LockKey(node.Name)
	defer func() { _ = n.changing.UnlockKey(node.Name) }() // which fails for locks that are not held
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	current, own := n.latest(node.Name)
	if current == nil || string(current.UID) != node.UID || !own && alter(current) == nil {
		current = nil
	}
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		known := current
		current = nil
		return n.changeOnce(ctx, node, known, alter)
	})
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("%w: %w", ErrGone, err)
	}
	if err != nil {
		return fmt.Errorf("change node %s: %w", node.Name, err)
	}
	return nil
}

// changeOnce patches the Node as it is known, or as the API has it if it is not known.
func (n *Nodes) changeOnce(
	ctx context.Context, node Node, current *corev1.Node, alter func(*corev1.Node) patch,
) (err error) {
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
	return n.apply(ctx, node.Name, p)
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
	after, err := n.client.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{})
	if err == nil {
		kept, _ := strip(after)
		n.written.Store(name, kept)
	}
	return err
}

// shown forgets our own last patch of a Node if the watch shows it.
func (n *Nodes) shown(node *corev1.Node) {
	written, ok := n.written.Load(node.Name)
	if ok && !isNewer(written.(*corev1.Node), node) { //nolint:forcetypeassert // apply stores Nodes
		n.written.CompareAndDelete(node.Name, written)
	}
}

// latest returns the Node as our own last patch has left it, if the watch does not show that yet, else as the
// watch shows it; nil if it does not.
func (n *Nodes) latest(name string) (latest *corev1.Node, own bool) {
	shown, err := n.cached(name)
	if err != nil {
		return nil, false
	}
	written, ok := n.written.Load(name)
	if !ok {
		return shown, false
	}
	ours := written.(*corev1.Node) //nolint:forcetypeassert // apply stores Nodes
	if isNewer(ours, shown) {
		return ours, true
	}
	return shown, false
}

// isNewer tells whether a is a later state of the Node that b is one of.
func isNewer(a, b *corev1.Node) bool {
	order, err := resourceversion.CompareResourceVersion(a.ResourceVersion, b.ResourceVersion)
	return err == nil && order > 0 && a.UID == b.UID
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
	if slices.Contains(mark.Added, putTaint) {
		p["spec"]["taints"] = slices.DeleteFunc(slices.Clone(current.Spec.Taints), cfg.isTaint)
	}
	if slices.Contains(mark.Added, putCordon) {
		p["spec"]["unschedulable"] = nil
	}
	if slices.Contains(mark.Added, putLabel) {
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
	if !slices.Contains(m.Added, what) {
		m.Added = append(m.Added, what)
	}
}

// merge is the mark for reason on a Node that has the mark m. Of two deadlines of one termination the earlier
// stays. The first one begins the mark anew: the time of a drain is counted from there, and the Node may have
// been cordoned long before.
func (m Mark) merge(reason Reason, now time.Time) Mark {
	first := m.Deadline.IsZero() && !reason.Deadline.IsZero()
	if m.Since.IsZero() || first || m.outlived(reason, now) {
		m.Since, m.Deadline, m.TerminatesAt = now.UTC().Truncate(time.Second), time.Time{}, time.Time{}
		m.Reason, m.Hook, m.Token = reason.Kind, reason.Hook, reason.Token
	}
	if m.Hook == "" || (m.Hook == reason.Hook && m.Token == "") {
		m.Hook, m.Token = reason.Hook, reason.Token
	}
	m.TerminatesAt = earlier(m.TerminatesAt, reason.TerminatesAt.UTC().Truncate(time.Second))
	m.Deadline = earlier(m.Deadline, reason.Deadline.UTC().Truncate(time.Second))
	m.Added = slices.Clone(m.Added)
	return m
}

// outlived tells whether the instance lived on after what it was marked for, so that reason is a new
// termination: it has another action of the same hook, or a hook has come after the time to be drained for
// something that is yet to be.
func (m Mark) outlived(reason Reason, now time.Time) bool {
	if m.Hook == "" && reason.Hook != "" {
		return !m.Deadline.IsZero() && m.Deadline.Before(now) && m.TerminatesAt.After(now)
	}
	return m.Hook == reason.Hook && m.Token != reason.Token && m.Token != "" && reason.Token != ""
}

func (m Mark) same(o Mark) bool {
	return m.Hook == o.Hook && m.Token == o.Token && m.Since.Equal(o.Since) && m.Deadline.Equal(o.Deadline) &&
		m.TerminatesAt.Equal(o.TerminatesAt)
}

// earlier returns the earlier of two instants; a zero one is not set.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}
