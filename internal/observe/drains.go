package observe

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/node-drainer/node-drainer/internal/text"
	"github.com/node-drainer/node-drainer/pkg/drain"
	"github.com/node-drainer/node-drainer/pkg/event"
	"github.com/node-drainer/node-drainer/pkg/node"
)

// drains are those under way, by the UID of their node.
type drains struct {
	mu sync.Mutex
	by map[string]*telling
}

// telling is what has been told of one drain.
type telling struct {
	waiting []drain.WaitCount
	held    map[drain.WaitCount]struct{} // what pods of the node wait for, without their number
}

// of returns what has been told of the drain of a node. The caller holds the lock.
func (d *drains) of(uid string) *telling {
	if d.by[uid] == nil {
		d.by[uid] = &telling{held: map[drain.WaitCount]struct{}{}}
	}
	return d.by[uid]
}

// waits notes what the pods of a node wait for, and returns how much that has changed what all wait for.
func (d *drains) waits(uid string, holds []drain.WaitCount) map[drain.WaitReason]int {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.of(uid)
	change := difference(t.waiting, holds)
	t.waiting = holds
	return change
}

// ended forgets the drain of a node.
func (d *drains) ended(uid string) map[drain.WaitReason]int {
	d.mu.Lock()
	defer d.mu.Unlock()
	change := difference(d.of(uid).waiting, nil)
	delete(d.by, uid)
	return change
}

// isNews tells whether no pod of the node has been told to wait for this before.
func (d *drains) isNews(uid string, w drain.Waiting) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	held, what := d.of(uid).held, drain.WaitCount{Reason: w.Reason, Budget: w.Budget}
	_, known := held[what]
	held[what] = struct{}{}
	return !known
}

func difference(before, after []drain.WaitCount) map[drain.WaitReason]int {
	change := map[drain.WaitReason]int{}
	for _, h := range before {
		change[h.Reason] -= h.Pods
	}
	for _, h := range after {
		change[h.Reason] += h.Pods
	}
	return change
}

func (o *Observer) gauge(change map[drain.WaitReason]int) {
	for reason, n := range change {
		o.metrics.waiting.WithLabelValues(string(reason)).Add(float64(n))
	}
}

// NodeCordoned tells that a node has been taken out of service, or has less time to be drained than before.
func (o *Observer) NodeCordoned(e event.Event, n node.Node, mark node.Mark) {
	l := o.about(o.log.Info(), e).Str("node", n.Name)
	if mark.Deadline.IsZero() {
		l.Msg("node cordoned")
		o.events.OnNode(n.Name, n.UID, reasonCordoned, cause(e)+": cordoned, its pods stay", false)
		return
	}
	l.Time("deadline", mark.Deadline).Msg("node cordoned")
	o.events.OnNode(n.Name, n.UID, reasonDraining, fmt.Sprintf("%s: draining until %s",
		cause(e), mark.Deadline.Format(time.RFC3339)), false)
}

// cause says in words why a node goes.
func cause(e event.Event) string {
	if e.Hook.Name != "" {
		return fmt.Sprintf("Instance %s is terminating (hook %s of group %s)",
			e.InstanceID, e.Hook.Name, e.Hook.Group)
	}
	words := map[event.Kind]string{
		event.SpotInterruption:                "EC2 takes Spot Instance %s back",
		event.RebalanceRecommendation:         "Spot Instance %s is at elevated risk of interruption",
		event.ScheduledChange:                 "AWS has scheduled maintenance of instance %s",
		event.StateChange:                     "Instance %s is being stopped or terminated",
		event.CapacityReservationInterruption: "EC2 takes the reserved capacity of instance %s back",
		event.CapacityBlockExpiration:         "The Capacity Block of instance %s ends",
	}[e.Kind]
	if words == "" {
		words = string(e.Kind) + " of instance %s"
	}
	return fmt.Sprintf(words, e.InstanceID)
}

// NodeUncordoned tells that a node is back in service.
func (o *Observer) NodeUncordoned(n node.Node, why string) {
	o.log.Warn().Str("instance", n.InstanceID).Str("node", n.Name).Str("reason", why).
		Msg("node uncordoned")
	o.events.OnNode(n.Name, n.UID, reasonRestored, "The node is back in service: "+why, true)
}

// DrainProgressed tells how far a drain is. When nothing is left to wait for, its end is about to be told.
func (o *Observer) DrainProgressed(p drain.Progress) {
	o.gauge(o.drains.waits(p.UID, p.Waiting))
	blocked, waiting := 0, reasons(p.Waiting)
	for _, h := range p.Waiting {
		if h.Reason == drain.BlockedByBudget || h.Reason == drain.Misconfigured {
			blocked += h.Pods
		}
	}
	o.log.Info().Str("node", p.Name).Int("pods", p.Total).Int("left", p.Left).Int("blocked", blocked).
		Str("waiting", waiting).Msg("draining")
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
	o.conditions.Report(p.Name, p.UID, c)
}

// reasons says in a few words what pods wait for: of many budgets, the ones that hold most.
func reasons(holds []drain.WaitCount) string {
	const most = 5
	var all []string
	for _, h := range holds {
		all = append(all, h.String())
	}
	if more := len(all) - most; more > 0 {
		all = append(all[:most], fmt.Sprintf("and %d reasons more", more))
	}
	return strings.Join(all, "; ")
}

// DrainEnded tells that nothing is done about the pods of a node any more.
func (o *Observer) DrainEnded(t drain.Target, result drain.Result) {
	o.gauge(o.drains.ended(t.UID))
	o.metrics.results.WithLabelValues(string(result)).Inc()
	o.log.Debug().Str("node", t.Name).Str("result", string(result)).Msg("drain ended")
}

// NodeDrained tells what a drain came to.
func (o *Observer) NodeDrained(cause event.Event, n node.Node, r drain.Report) {
	o.metrics.drains.Observe(r.Took.Seconds())
	e := o.log.Info()
	if len(r.Left) > 0 {
		e = o.log.Warn().Strs("left", r.Left)
	}
	o.about(e, cause).Str("node", n.Name).Int("pods", r.Total).Int("forced", r.Forced).Dur("took", r.Took)
	c := node.Condition{Drained: true, Reason: reasonDrained, Message: allLeft(r), Final: true}
	if len(r.Left) == 0 {
		e.Msg("node drained")
	} else {
		e.Msg("drain ended with pods left on the node")
		c.Drained, c.Reason = false, reasonLeftBehind
		c.Message = fmt.Sprintf("The drain ended with %d of %d pods left on the node: %s",
			len(r.Left), r.Total, text.First(r.Left, mostNames))
	}
	o.events.OnNode(n.Name, n.UID, c.Reason, c.Message, !c.Drained)
	o.conditions.Report(n.Name, n.UID, c)
}

func allLeft(r drain.Report) string {
	switch {
	case r.Total == 0:
		return "No pod had to leave the node"
	case r.Forced > 0:
		return fmt.Sprintf("All %d pods have left the node, %d of them by deletion", r.Total, r.Forced)
	}
	return fmt.Sprintf("All %d pods have left the node", r.Total)
}

// mostNames is how many names the message of an Event lists: its length is bounded.
const mostNames = 10

// VolumesStillAttached tells that volumes of a node were not waited for any longer.
func (o *Observer) VolumesStillAttached(t drain.Target, volumes []string) {
	o.log.Warn().Str("node", t.Name).Strs("volumes", volumes).Msg("volumes are still attached")
	o.events.OnNode(t.Name, t.UID, reasonVolumesLeft, fmt.Sprintf(
		"No longer waiting for %d volumes that are still attached; pods that need them elsewhere start late: %s",
		len(volumes), text.First(volumes, mostNames)), true)
}

// ConditionFailed tells that a Node could not be made to show its condition.
func (o *Observer) ConditionFailed(name string, err error) {
	o.metrics.apiErrors.WithLabelValues("kubernetes").Inc()
	o.log.Warn().Str("api", "kubernetes").Str("node", name).Err(err).Msg("failed to write the node condition")
}
