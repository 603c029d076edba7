package agent

import (
	"fmt"
	"time"

	"github.com/node-drainer/node-drainer/internal/autoscaling"
	"github.com/node-drainer/node-drainer/internal/ec2"
	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/internal/node"
)

// This file holds what the answers of AWS say of an event: the tables "Confirmation" of docs/architecture.md. Its
// functions are pure.

// verdict is what an answer says of an event. An answer may be old: what contradicts an event is asked for again.
type verdict string

const (
	undecided    verdict = ""
	confirmed    verdict = "confirmed"    // what the event announces is true
	ended        verdict = "ended"        // it was, and is over, or others end the instance
	contradicted verdict = "contradicted" // it is not true
	inNoGroup    verdict = "in no group"  // contradicted, because Auto Scaling does not know the instance
)

// finding is a verdict, and why an event is contradicted.
type finding struct {
	verdict verdict
	why     string
}

func contradicts(format string, args ...any) finding {
	return finding{contradicted, fmt.Sprintf(format, args...)}
}

// contradicts reports whether the event is not true, as far as the answer knows.
func (f finding) contradicts() bool { return f.verdict == contradicted || f.verdict == inNoGroup }

// judgeMember compares a lifecycle action with what Auto Scaling says of its instance.
func judgeMember(e event.Event, m autoscaling.Member) finding {
	switch {
	case m.Group != "" && e.Hook.Group != "" && m.Group != e.Hook.Group:
		return contradicts("the instance is in the group %s", m.Group)
	case m.State.Unknown():
		return finding{inNoGroup, "the instance is in no Auto Scaling group"}
	case e.Kind == event.LifecycleLaunching:
		return judgeLaunch(e, m.State)
	}
	return judgeTermination(e, m.State)
}

func judgeTermination(e event.Event, state autoscaling.State) finding {
	switch {
	case state.Terminating():
		return finding{verdict: confirmed}
	case state.Gone() && !isOld(e, state),
		e.Action == event.ReplaceRootVolume && state.Launching(): // which follows the replacement
		return finding{verdict: ended}
	}
	return contradicts("the instance is %s", state)
}

// isOld reports whether the state is one that the instance had before the lifecycle action began: at rest in the
// warm pool, to which it does not return, or past the replacement of its root volume.
func isOld(e event.Event, state autoscaling.State) bool {
	replaced := state.ReplacingRootVolume() && e.Action != "" && e.Action != event.ReplaceRootVolume
	return replaced || e.Destination == event.PlaceEC2 && state.InPool()
}

// judgeLaunch compares the lifecycle state of an instance with the destination in the message of its launch,
// which may be empty in messages from before warm pools. An instance is held by a launch hook twice, into the warm pool
// and out of it, so a late copy of the first message must not pass for the second.
func judgeLaunch(e event.Event, s autoscaling.State) finding {
	toPool := e.Destination == event.PlaceWarmPool
	switch {
	case s.Launching() && (e.Destination == "" || s.Warmed() == toPool):
		return finding{verdict: confirmed}
	case s.Launching(), s.ReplacingRootVolume(), s.Warmed() && !toPool:
		return contradicts("the instance is %s", s)
	}
	return finding{verdict: ended}
}

// judgeInstance compares an event of EC2 with EC2's description of the instance.
func judgeInstance(e event.Event, i ec2.Instance, now time.Time) finding {
	switch {
	case i.State.Stopped() && e.Kind != event.StateChange:
		return finding{verdict: ended}
	case i.State.Stopped(), i.State.ShuttingDown():
		return finding{verdict: confirmed}
	case e.Kind == event.StateChange:
		return contradicts("the instance is %s", i.State)
	case !isReclaimable(e.Kind, i):
		return contradicts("EC2 sends no %s for an instance of this type", e.Kind)
	case !e.Deadline.IsZero() && now.After(e.Deadline.Add(overdueAfter)):
		return contradicts("the instance is still running, long after %s, when EC2 was to terminate it",
			e.Deadline.Format(time.RFC3339))
	}
	return finding{verdict: confirmed}
}

// isForeign reports whether the instance of the node is one of another account or Region: EC2 does not know
// it, and its node is Ready. EC2 forgets a terminated instance after about an hour; its node is not Ready.
func isForeign(n node.Node, i ec2.Instance) bool { return i.State.Unknown() && n.Ready }

// isReclaimable reports whether EC2 sends events of the kind for instances like this one. An alarm may concern any.
func isReclaimable(k event.Kind, i ec2.Instance) bool {
	switch k { //nolint:exhaustive // The others are those of reservations.
	case event.SpotInterruption, event.RebalanceRecommendation:
		return i.Spot
	case event.Alarm:
		return true
	}
	return i.Reserved
}

// judgeRequest compares the annotation that asked for a drain with the Node of today.
func judgeRequest(n node.Node, exists bool) finding {
	switch {
	case !exists:
		return finding{verdict: ended}
	case !n.DrainRequested:
		return contradicts("the annotation %s was removed", node.DrainRequestAnnotation)
	}
	return finding{verdict: confirmed}
}

// judgeReturned judges the event that a node was cordoned for whose instance is in service again after a hook, as after
// the replacement of its root volume.
func judgeReturned(n node.Node) finding {
	if isAnnounced(n) {
		return finding{verdict: ended}
	}
	return contradicts("the instance is in service")
}

// isAnnounced reports whether the mark says that EC2 is about to terminate the instance, which it may do some time
// after it said. Maintenance is judged by EC2's schedule.
func isAnnounced(n node.Node) bool {
	ofMaintenance := !n.Maintenance.IsZero() && !event.Kind(n.Mark.Reason).IsIrrevocable()
	return n.Mark.TerminatesAt.Add(overdueAfter).After(time.Now()) && !ofMaintenance
}

// judgeMarked judges the event that a node was cordoned for by what AWS says of it. A node whose instance is in Standby
// stays cordoned until that is in service again.
func judgeMarked(n node.Node, f finding, rebalanceTimeout time.Duration, inStandby bool) finding {
	if f.verdict == confirmed && isRecommendationOver(n, rebalanceTimeout) {
		f = contradicts("no interruption has followed")
	}
	if inStandby && f.contradicts() {
		return finding{verdict: ended}
	}
	return f
}

// judgeLeaver judges the event that a node was cordoned for whose instance is in no group any more: it is terminated,
// or was detached.
func judgeLeaver(n node.Node, i ec2.Instance) finding {
	if i.State == "running" || isForeign(n, i) {
		return contradicts("the instance is running")
	}
	return finding{verdict: ended}
}
