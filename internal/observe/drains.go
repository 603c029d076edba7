package observe

import (
	"cmp"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/internal/node"
	"github.com/node-drainer/node-drainer/pkg/drain"
)

// drains knows what was recorded about running drains, by the UID of the node.
type drains struct {
	mu    sync.Mutex
	byUID map[string]*recordedDrain
}

type recordedDrain struct {
	waiting   []drain.WaitCount
	obstacles map[drain.WaitCount]bool // what pods of the node have waited for; the number of pods is zero
	forced    []*forcedPods

	deadline, forcedAt time.Time // of its last progress
}

// find must be called with mu locked.
func (d *drains) find(uid string) *recordedDrain {
	if d.byUID[uid] == nil {
		d.byUID[uid] = &recordedDrain{obstacles: map[drain.WaitCount]bool{}}
	}
	return d.byUID[uid]
}

// remove forgets the drain of a node.
func (d *drains) remove(uid string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.byUID, uid)
}

// addObstacle adds what a pod of the node waits for, and reports whether no pod has waited for it before.
func (d *drains) addObstacle(uid string, w drain.Waiting) (isNew bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	obstacles, one := d.find(uid).obstacles, drain.WaitCount{Reason: w.Reason, Budget: w.Budget}
	isNew = !obstacles[one]
	obstacles[one] = true
	return isNew
}

// nearest returns the earliest instant of all drains, in Unix time; 0 if there is none.
func (d *drains) nearest(of func(*recordedDrain) time.Time) float64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	var first time.Time
	for _, one := range d.byUID {
		if t := of(one); !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	if first.IsZero() {
		return 0
	}
	return float64(first.Unix())
}

// setDeadline sets when the drain of a node must end, and when the first of its pods is forced.
func (d *drains) setDeadline(p drain.Progress) {
	d.mu.Lock()
	defer d.mu.Unlock()
	one := d.find(p.UID)
	one.deadline, one.forcedAt = p.Deadline, p.ForcedAt
}

// updateWaiting sets what the pods of a node wait for, here and in the metric.
func (o *Observer) updateWaiting(uid string, waiting []drain.WaitCount) {
	o.drains.mu.Lock()
	defer o.drains.mu.Unlock()
	one := o.drains.find(uid)
	change := map[drain.WaitReason]int{}
	for _, w := range one.waiting {
		change[w.Reason] -= w.Pods
	}
	for _, w := range waiting {
		change[w.Reason] += w.Pods
	}
	one.waiting = waiting
	for reason, n := range change {
		o.metrics.waiting.WithLabelValues(string(reason)).Add(float64(n))
	}
}

// NodeCordoned records that a node was cordoned, or that its drain got an earlier deadline.
func (o *Observer) NodeCordoned(e event.Event, n node.Node, mark node.Mark) {
	l := o.withEvent(o.log.Info(), e).Str("node", n.Name)
	if mark.Deadline.IsZero() {
		l.Msg("node cordoned")
		o.events.OnNode(n.Name, n.UID, reasonCordoned, causeOf(e)+": cordoned; its pods stay on the node", false)
		return
	}
	l.Time("deadline", mark.Deadline).Msg("node cordoned")
	o.events.OnNode(n.Name, n.UID, reasonDraining, fmt.Sprintf("%s: draining until %s",
		causeOf(e), mark.Deadline.Format(time.RFC3339)), false)
}

// causeOf returns a sentence that says why a node is cordoned.
func causeOf(e event.Event) string {
	if e.Hook.Name != "" {
		doing := "is terminating"
		switch {
		case e.Kind == event.LifecycleLaunching:
			doing = "was not ready in time and terminates"
		case e.Action == event.ReplaceRootVolume:
			doing = "gets a new root volume and reboots"
		}
		return fmt.Sprintf("Instance %s %s (hook %s of group %s)", e.InstanceID, doing, e.Hook.Name, e.Hook.Group)
	}
	if e.Alarm != "" {
		return fmt.Sprintf("The CloudWatch alarm %s of instance %s is on", e.Alarm, e.InstanceID)
	}
	format := cmp.Or(e.Kind.Says(), string(e.Kind)+" of instance %s")
	return fmt.Sprintf(format, e.InstanceID)
}

// NodeUncordoned records that a node was uncordoned because its instance does not terminate.
func (o *Observer) NodeUncordoned(n node.Node, why string) {
	o.log.Warn().Str("instance", n.InstanceID).Str("node", n.Name).Str("reason", why).
		Msg("node uncordoned")
	o.events.OnNode(n.Name, n.UID, reasonUncordoned, "Uncordoned: "+why, true)
}

// DrainPostponed records that a node is drained later, when, and why.
func (o *Observer) DrainPostponed(n node.Node, p node.Postponement) {
	message := whyPostponed(n, p)
	entry := o.log.Info().Str("instance", n.InstanceID).Str("node", n.Name)
	if !p.Maintenance.IsZero() {
		entry = entry.Time("maintenance", p.Maintenance).Time("until", p.Until)
	}
	entry.Bool("busy", p.Busy).Bool("noRoom", p.NoRoom).Msg("drain postponed")
	o.events.OnNode(n.Name, n.UID, reasonDrainPostponed, message, false)
	o.conditions.Report(n.Name, n.UID, node.Condition{Reason: reasonDrainPostponed, Message: message})
}

func whyPostponed(n node.Node, p node.Postponement) string {
	subject, until := "The drain", ""
	if !p.Maintenance.IsZero() {
		subject = fmt.Sprintf("Maintenance of instance %s starts at %s; the drain",
			n.InstanceID, p.Maintenance.Format(time.RFC3339))
		until = ", until " + p.Until.Format(time.RFC3339) + " at the latest"
	}
	switch {
	case p.Busy:
		return subject + " waits for those of other nodes (DRAIN_MAX_CONCURRENT)" + until
	case p.NoRoom:
		return subject + " waits until pods of drained nodes, which are Pending, have found room" + until
	}
	return subject + " starts at " + p.Until.Format(time.RFC3339) + " (EVENT_SCHEDULED_CHANGE_LEAD)"
}

// DrainCanceled records that a drain that was postponed is not needed any more.
func (o *Observer) DrainCanceled(n node.Node, why string) {
	o.log.Info().Str("instance", n.InstanceID).Str("node", n.Name).Str("reason", why).Msg("postponed drain canceled")
	o.events.OnNode(n.Name, n.UID, reasonDrainCanceled, "The node is not drained: "+why, false)
}

// DrainProgressed records the progress of a drain. Its last progress writes no condition: NodeDrained
// follows.
func (o *Observer) DrainProgressed(p drain.Progress) {
	o.updateWaiting(p.UID, p.Waiting)
	o.drains.setDeadline(p)
	o.recordForced(p.Target, false)
	blocked, waiting := 0, joinReasons(p.Waiting)
	for _, w := range p.Waiting {
		if w.Reason == drain.BlockedByBudget || w.Reason == drain.Misconfigured {
			blocked += w.Pods
		}
	}
	l := o.log.Info().Str("node", p.Name).Int("pods", p.Total).Int("left", p.Left).Int("blocked", blocked)
	if !p.Expected.IsZero() {
		l = l.Time("expected", p.Expected)
	}
	l.Str("waiting", waiting).Msg("draining")
	if p.Left == 0 && len(p.Waiting) == 0 {
		return
	}
	c := node.Condition{Reason: reasonDraining, Message: fmt.Sprintf("%d of %d pods left", p.Left, p.Total)}
	if blocked > 0 {
		c.Reason = reasonBlocked
	}
	if waiting != "" {
		c.Message += "; " + waiting
	}
	if p.Responders > 0 {
		c.Message += fmt.Sprintf("; %d have eviction responders, which are not asked", p.Responders)
	}
	if p.Grouped > 0 {
		c.Message += fmt.Sprintf("; %d are members of a PodGroup, and are evicted one by one", p.Grouped)
	}
	if !p.Expected.IsZero() {
		c.Message += "; expected end: " + stamp(p.Expected)
	}
	o.conditions.Report(p.Name, p.UID, c)
}

// joinReasons returns the first reasons, which most pods wait for.
func joinReasons(waiting []drain.WaitCount) string {
	const most = 5
	var all []string
	for _, w := range waiting {
		all = append(all, w.String())
	}
	if more := len(all) - most; more > 0 {
		all = append(all[:most], fmt.Sprintf("and %d more reasons", more))
	}
	return strings.Join(all, "; ")
}

// DrainEnded records the result of a drain.
func (o *Observer) DrainEnded(t drain.Target, result drain.Result) {
	o.updateWaiting(t.UID, nil)
	o.recordForced(t, true)
	o.drains.remove(t.UID)
	o.metrics.results.WithLabelValues(string(result)).Inc()
	o.log.Debug().Str("node", t.Name).Str("result", string(result)).Msg("drain ended")
}

// NodeDrained records the report of a drain.
func (o *Observer) NodeDrained(e event.Event, n node.Node, r drain.Report) {
	o.metrics.drains.Observe(r.Took.Seconds())
	if r.Expected > 0 && r.Total > 0 {
		o.metrics.forecasts.Observe(r.Took.Seconds() / r.Expected.Seconds())
	}
	for _, w := range r.Why {
		o.metrics.left.WithLabelValues(string(w.Reason)).Add(float64(w.Pods))
	}
	l := o.log.Info()
	if isLeftBehind(r) {
		l = o.log.Warn().Strs("left", r.Left).Bool("node_lost", r.Lost).Str("waiting", joinReasons(r.Why))
	}
	record := recordOf(e, n, r, string(r.Result()), time.Now())
	o.withEvent(l, e).Str("node", n.Name).Int("pods", r.Total).Int("forced", r.Forced).Dur("took", r.Took).
		Interface("record", record)
	if isLeftBehind(r) {
		l.Msg("drain ended with pods left on the node")
	} else {
		l.Msg("node drained")
	}
	o.history.Add(record)
	o.podsReturned(n, r.Returned)
	c := conditionAfter(r)
	o.notifyDrained(e, n, r, c.Message)
	o.events.OnNode(n.Name, n.UID, c.Reason, c.Message, !c.Drained)
	o.conditions.Report(n.Name, n.UID, c)
}

// isLeftBehind reports whether pods are left on the node, or may be.
func isLeftBehind(r drain.Report) bool { return len(r.Left) > 0 || r.Unverified }

// podsReturned records the pods that stay because their controllers have put them back.
func (o *Observer) podsReturned(n node.Node, pods []string) {
	if len(pods) == 0 {
		return
	}
	o.metrics.left.WithLabelValues(string(drain.PutBack)).Add(float64(len(pods)))
	o.log.Warn().Str("node", n.Name).Strs("pods", pods).Msg("controllers have put pods back on the node")
	o.events.OnNode(n.Name, n.UID, reasonReturned, withNames(
		fmt.Sprintf("Controllers have put %d pods back on the node, which stay: ", len(pods)), pods, ""), true)
}

// conditionAfter returns the condition of a node whose drain has ended.
func conditionAfter(r drain.Report) node.Condition {
	if !isLeftBehind(r) {
		return node.Condition{Drained: true, Reason: reasonDrained, Message: drainedMessage(r), Final: true}
	}
	reason, end := reasonLeftBehind, "The drain ended with "
	if r.Lost {
		reason = reasonLost
		end = "The machine or its kubelet has failed, so nothing reports the end of pods; the drain ended with "
	}
	left := fmt.Sprintf("%d of %d pods left on the node: ", len(r.Left), r.Total)
	why := ""
	if len(r.Why) > 0 {
		why = "; " + joinReasons(r.Why)
	}
	if r.Unverified {
		why += "; the API server did not answer, so nothing verifies this"
	}
	return node.Condition{Reason: reason, Message: withNames(end+left, r.Left, why), Final: true}
}

func drainedMessage(r drain.Report) string {
	switch {
	case r.Total == 0:
		return "No pod had to leave the node"
	case r.Total == 1 && r.Forced > 0:
		return "The only pod has left the node, by deletion"
	case r.Total == 1:
		return "The only pod has left the node"
	case r.Forced > 0:
		return fmt.Sprintf("All %d pods have left the node, %d of them by deletion", r.Total, r.Forced)
	}
	return fmt.Sprintf("All %d pods have left the node", r.Total)
}

// DrainControlled records that a person has changed the drain of a node, or that what was asked for is wrong.
func (o *Observer) DrainControlled(t drain.Target, c drain.Controls) {
	var now []string
	if c.HoldUntil.After(time.Now()) {
		now = append(now, "no pod is evicted before "+c.HoldUntil.UTC().Format(time.RFC3339)+
			" unless the deadline requires it")
	}
	if !c.Deadline.IsZero() {
		now = append(now, "the deadline is "+t.Deadline.UTC().Format(time.RFC3339))
	}
	if c.EndNow {
		now = append(now, "it ends at once, and leaves the pods that are left")
	}
	if len(now) == 0 {
		now = append(now, "it continues as configured until "+t.Deadline.UTC().Format(time.RFC3339))
	}
	message := "The drain was changed by an annotation of the Node: " + strings.Join(now, "; ")
	event := o.log.Info()
	if c.Wrong != "" {
		event, message = o.log.Warn(), message+". Ignored: "+c.Wrong
	}
	event.Str("node", t.Name).Time("hold_until", c.HoldUntil).Time("deadline", t.Deadline).Bool("ends_now", c.EndNow).
		Str("ignored", c.Wrong).Msg("drain changed by an annotation")
	o.events.OnNode(t.Name, t.UID, reasonControlled, message, c.Wrong != "")
}

// VolumesStillAttached records that the drain does not wait any longer for volumes to be detached.
func (o *Observer) VolumesStillAttached(t drain.Target, volumes []string) {
	o.log.Warn().Str("node", t.Name).Strs("volumes", volumes).Msg("volumes are still attached")
	o.events.OnNode(t.Name, t.UID, reasonVolumesLeft, withNames(fmt.Sprintf(
		"No longer waiting for %d volumes that are still attached; pods that need them elsewhere start late: ",
		len(volumes)), volumes, ""), true)
}

// ConditionFailed records that the condition of a Node could not be written.
func (o *Observer) ConditionFailed(name string, err error) {
	o.metrics.apiErrors.WithLabelValues("kubernetes").Inc()
	o.log.Warn().Str("api", "kubernetes").Str("node", name).Err(err).Msg("failed to write the node condition")
}
