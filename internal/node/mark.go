package node

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/node-drainer/node-drainer/internal/event"
)

// Annotation is the annotation of a cordoned Node that holds its Mark, as JSON.
const Annotation = "node-drainer.io/termination"

// Mark is what the agent records on a Node that it cordons: why, until when, and what it has added to the
// Node.
type Mark struct {
	InstanceID   string    `json:"instance"`
	Reason       string    `json:"reason"`          // the kind of event
	Hook         string    `json:"hook,omitempty"`  // GROUP/HOOK
	Token        string    `json:"token,omitempty"` // of the lifecycle action
	Since        time.Time `json:"since"`           // when it was cordoned, or later got its first deadline; milliseconds
	Deadline     time.Time `json:"deadline,omitzero"`
	TerminatesAt time.Time `json:"terminatesAt,omitzero"` // of the instance, if the event says so
	BootID       string    `json:"bootID,omitempty"`      // of the Node, if its instance is to reboot and stay
	Added        []string  `json:"added"`                 // what the agent added: taint, taint=KEY:EFFECT, cordon, label
}

// The values of Mark.Added. The taint has two: addedTaint, which all versions understand, and one with its key and
// effect, since NODE_TAINT_KEY and NODE_TAINT_EFFECT may be others when it is removed.
const (
	addedTaint  = "taint"
	addedCordon = "cordon"
	addedLabel  = "label"
)

// Reason is why a node is cordoned, and by when it must be drained.
type Reason struct {
	Kind         string    // of the event
	Hook         string    // GROUP/HOOK; empty without a lifecycle hook
	Token        string    // of the lifecycle action; may be empty
	Deadline     time.Time // zero if it is not known yet
	TerminatesAt time.Time // when AWS terminates the instance; zero if the event does not say
	Reboots      bool      // the instance is to reboot instead of being terminated
}

// Cordon cordons the Node in one patch, as configured: taint, unschedulable, load-balancer label, and an
// annotation with the reason and the deadline. It returns the mark that the Node has afterwards, and whether
// the mark has changed: the Node had none, or one with a later deadline. Of two deadlines the earlier is
// kept, and a Node that has all of it already is not patched. The error is ErrGone if the Node no longer
// exists.
func (n *Nodes) Cordon(ctx context.Context, node Node, reason Reason) (mark Mark, changed bool, err error) {
	_, err = n.patcher.patch(ctx, node, func(current *corev1.Node) patch {
		var p patch
		before, _ := MarkOf(current)
		p, mark = cordonPatch(current, n.cfg, reason, time.Now())
		changed = !mark.Since.Equal(before.Since) || !mark.Deadline.Equal(before.Deadline)
		return p
	})
	return mark, changed, err
}

// Uncordon removes from the Node what Cordon added, and nothing else, and then the drain condition. It
// reports whether it has removed a mark. It calls keep while no other change of the Node is in progress: a Cordon has
// ended then, or begins after Uncordon. If keep returns true, Uncordon removes nothing.
func (n *Nodes) Uncordon(ctx context.Context, node Node, keep func() bool) (uncordoned bool, err error) {
	kept := false
	uncordoned, err = n.patcher.patch(ctx, node, func(current *corev1.Node) patch {
		if kept = keep(); kept {
			return nil
		}
		return uncordonPatch(current, n.cfg)
	})
	if err == nil && !kept {
		n.Conditions.remove(node.Name, node.UID)
	}
	return uncordoned, err
}

// Exclude adds the load-balancer label to the Node, if the configuration says late.
func (n *Nodes) Exclude(ctx context.Context, node Node) error {
	if n.cfg.ExcludeFromLB != Late {
		return nil
	}
	_, err := n.patcher.patch(ctx, node, excludePatch)
	return err
}

// cordonPatch returns the patch that cordons current, nil if it is cordoned already, and the mark that it has
// afterwards.
func cordonPatch(current *corev1.Node, cfg Config, reason Reason, now time.Time) (patch, Mark) {
	before, marked := MarkOf(current)
	mark := before.Merge(reason, now)
	mark.InstanceID = InstanceOf(current)
	mark.recordBoot(current, reason)

	p := newPatch()
	if !slices.ContainsFunc(current.Spec.Taints, cfg.isTaint) {
		taint := corev1.Taint{Key: cfg.TaintKey, Value: reason.Kind, Effect: corev1.TaintEffect(cfg.TaintEffect)}
		p["spec"]["taints"] = append(slices.Clone(current.Spec.Taints), taint)
		mark.add(addedTaint)
		mark.add(addedTaint + "=" + taint.Key + ":" + string(taint.Effect))
	}
	if cfg.Cordon && !current.Spec.Unschedulable {
		p["spec"]["unschedulable"] = true
		mark.add(addedCordon)
	}
	if _, has := current.Labels[corev1.LabelNodeExcludeBalancers]; cfg.ExcludeFromLB == Early && !has {
		p.label("true")
		mark.add(addedLabel)
	}
	if len(p["spec"]) == 0 && len(p["metadata"]) == 0 && marked && mark.equal(before) {
		return nil, mark
	}
	p.annotate(mark.encode())
	return p, mark
}

// isUncordoned reports whether the Node has a mark, and not the taint, or is not unschedulable although the
// configuration says so. It parses no mark of a Node that is cordoned.
func (c Config) isUncordoned(node *corev1.Node) bool {
	if slices.ContainsFunc(node.Spec.Taints, c.isTaint) && (node.Spec.Unschedulable || !c.Cordon) {
		return false
	}
	_, marked := MarkOf(node)
	return marked
}

// uncordonPatch returns the patch that removes our mark, and what it lists as added, from current; nil if
// current has no mark.
func uncordonPatch(current *corev1.Node, cfg Config) patch {
	mark, marked := MarkOf(current)
	if !marked {
		return nil
	}
	p := newPatch()
	p.annotate(nil)
	if slices.Contains(mark.Added, addedTaint) {
		p["spec"]["taints"] = slices.DeleteFunc(slices.Clone(current.Spec.Taints), mark.ownTaint(cfg))
	}
	if slices.Contains(mark.Added, addedCordon) {
		p["spec"]["unschedulable"] = nil
	}
	if slices.Contains(mark.Added, addedLabel) {
		p.label(nil)
	}
	return p
}

// ownTaint returns what reports whether the agent added a taint. A mark of an earlier version does not name any: then
// it is the one of the configuration.
func (m Mark) ownTaint(cfg Config) func(corev1.Taint) bool {
	named := func(t corev1.Taint) bool {
		return slices.Contains(m.Added, addedTaint+"="+t.Key+":"+string(t.Effect))
	}
	if !slices.ContainsFunc(m.Added, func(a string) bool { return strings.HasPrefix(a, addedTaint+"=") }) {
		return cfg.isTaint
	}
	return named
}

// excludePatch returns the patch that adds the load-balancer label to current; nil if it has the label, or no
// mark.
func excludePatch(current *corev1.Node) patch {
	mark, marked := MarkOf(current)
	if _, has := current.Labels[corev1.LabelNodeExcludeBalancers]; has || !marked {
		return nil
	}
	mark.add(addedLabel)
	p := newPatch()
	p.label("true")
	p.annotate(mark.encode())
	return p
}

func (c Config) isTaint(t corev1.Taint) bool {
	return t.Key == c.TaintKey && string(t.Effect) == c.TaintEffect
}

// MarkOf returns the mark on a Node. A mark that cannot be parsed is ignored, and so is the mark of another
// instance, whose Node had the same name.
func MarkOf(node *corev1.Node) (Mark, bool) {
	text := Annotations(node, Annotation)[Annotation]
	if text == "" {
		return Mark{}, false
	}
	var mark Mark
	err := json.Unmarshal([]byte(text), &mark)
	if err != nil || mark.InstanceID != InstanceOf(node) {
		return Mark{}, false
	}
	return mark, true
}

// recordBoot records the boot of the Node, once, if its instance is to reboot and stay.
func (m *Mark) recordBoot(current *corev1.Node, reason Reason) {
	if reason.Reboots && m.BootID == "" {
		m.BootID = current.Status.NodeInfo.BootID
	}
}

func (m Mark) encode() string {
	text, err := json.Marshal(m)
	if err != nil {
		return "{}" // a Mark of strings and times always encodes
	}
	return string(text)
}

func (m *Mark) add(what string) {
	if !slices.Contains(m.Added, what) {
		m.Added = append(m.Added, what)
	}
}

// Merge returns the mark for reason on a Node that has the mark m. Of two deadlines of one termination the
// earlier is kept. The first deadline restarts Since: the time of a drain counts from there, and the Node may
// have been cordoned long before.
func (m Mark) Merge(reason Reason, now time.Time) Mark {
	firstDeadline := m.Deadline.IsZero() && !reason.Deadline.IsZero()
	if m.Since.IsZero() || firstDeadline || m.supersededBy(reason, now) {
		m.Since, m.Deadline, m.TerminatesAt = now.UTC().Truncate(time.Millisecond), time.Time{}, time.Time{}
		m.BootID = ""
		m.Reason, m.Hook, m.Token = reason.Kind, reason.Hook, reason.Token
	}
	if m.yieldsTo(reason) {
		m.Reason, m.TerminatesAt = reason.Kind, time.Time{}
	}
	if m.Hook == "" || (m.Hook == reason.Hook && m.Token == "") {
		m.Hook, m.Token = reason.Hook, reason.Token
	}
	m.TerminatesAt = m.terminatesAt(reason)
	m.Deadline = earliest(m.Deadline, reason.Deadline.UTC().Truncate(time.Second))
	m.Added = slices.Clone(m.Added)
	return m
}

// terminatesAt returns the earlier of the times at which the instance is terminated. Maintenance can be canceled: it
// does not bring forward that of an event that cannot be.
func (m Mark) terminatesAt(reason Reason) time.Time {
	isFinal := event.Kind(m.Reason).IsIrrevocable() && !m.TerminatesAt.IsZero()
	if isFinal && reason.Kind == string(event.ScheduledChange) {
		return m.TerminatesAt
	}
	return earliest(m.TerminatesAt, reason.TerminatesAt.UTC().Truncate(time.Second))
}

// yieldsTo reports whether reason takes the place of the mark's: any event takes that of an annotation that asks for
// the drain, which can be removed, and one that EC2 does not withdraw takes that of maintenance, which can be canceled.
func (m Mark) yieldsTo(reason Reason) bool {
	switch event.Kind(m.Reason) { //nolint:exhaustive // The others stay.
	case event.DrainRequested:
		return reason.Kind != ""
	case event.ScheduledChange:
		return event.Kind(reason.Kind).IsIrrevocable() && !reason.Deadline.IsZero()
	}
	return false
}

// supersededBy reports whether reason is a new termination, so that the instance survived the one that it was
// marked for. Then reason has another action of the same hook, or a hook although the deadline of an event
// that announced a later termination has passed. An annotation asks for another drain when the deadline of the one that
// it asked for before has passed.
func (m Mark) supersededBy(reason Reason, now time.Time) bool {
	isOver := !m.Deadline.IsZero() && m.Deadline.Before(now)
	switch {
	case m.Reason == string(event.DrainRequested) && m.Reason == reason.Kind:
		return isOver
	case m.Hook == "" && reason.Hook != "":
		return isOver && m.TerminatesAt.After(now)
	}
	return m.Hook == reason.Hook && m.Token != reason.Token && m.Token != "" && reason.Token != ""
}

// equal compares what Merge may change.
func (m Mark) equal(o Mark) bool {
	return m.Reason == o.Reason && m.Hook == o.Hook && m.Token == o.Token &&
		m.Since.Equal(o.Since) && m.Deadline.Equal(o.Deadline) &&
		m.TerminatesAt.Equal(o.TerminatesAt) && m.BootID == o.BootID
}

// earliest returns the earlier of two instants; a zero one is not set.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}
