package agent

import (
	"time"

	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/internal/node"
)

// firstLatePause and lastLatePause bound the pauses between two drains of a node for pods that came late: whatever
// binds pods to the node may do it again at once.
const firstLatePause, lastLatePause = time.Second, 5 * time.Minute

// withdrawnInterval is how often the agent looks whether the instance of a node is in service again whose request was
// withdrawn. An instance can be in Standby for days.
const withdrawnInterval = 10 * time.Second

// cordonUnconfirmedAfter is how long AWS may take to confirm an event before its node is cordoned all the
// same, so that no new pods are scheduled onto it. Pods are evicted only after the confirmation.
const cordonUnconfirmedAfter = 2 * time.Second

// holdUnconfirmedAfter is how long Auto Scaling may take to answer before an action is held unconfirmed. The shortest
// hook ends 30 s after it began.
const holdUnconfirmedAfter = 5 * time.Second

func reasonOf(e event.Event, deadline time.Time) node.Reason {
	r := node.Reason{
		Kind: string(e.Kind), Deadline: deadline, TerminatesAt: e.Deadline, Reboots: e.Action == event.ReplaceRootVolume,
	}
	if e.Hook.Name != "" {
		r.Hook, r.Token = hookOf(e), e.Hook.Token
	}
	return r
}

// hookOf returns the hook of an event that has one, as marks name it.
func hookOf(e event.Event) string { return e.Hook.Group + "/" + e.Hook.Name }

// requestOf returns the event of an annotation.
func requestOf(n node.Node, now time.Time) event.Event {
	return event.Event{Kind: event.DrainRequested, InstanceID: n.InstanceID, At: now}
}

// eventOfMark returns the event that a node was cordoned for.
func eventOfMark(n node.Node) event.Event {
	return event.Event{
		Kind: event.Kind(n.Mark.Reason), InstanceID: n.InstanceID, At: n.Mark.Since, Deadline: n.Mark.TerminatesAt,
	}
}

// isRecommendationOver reports whether the node was cordoned for a rebalance recommendation that no
// interruption has followed for the timeout, if that is not 0. EC2 does not withdraw a recommendation.
func isRecommendationOver(n node.Node, timeout time.Duration) bool {
	return n.Mark.Reason == string(event.RebalanceRecommendation) && n.Mark.TerminatesAt.IsZero() &&
		timeout > 0 && time.Since(n.Mark.Since) >= timeout
}

// isWarningDecided reports whether the node was cordoned for a Spot interruption that EC2 has not confirmed, which a
// mark without a time shows, and the warning was handled: the drain has ended, or the instance has returned from a
// hook. Nothing else would take the mark away that another event has kept.
func isWarningDecided(n node.Node, inService, isDrained bool) bool {
	unconfirmed := n.Mark.Reason == string(event.SpotInterruption) && n.Mark.TerminatesAt.IsZero()
	return unconfirmed && (inService && n.Mark.Hook != "" || isDrained)
}

// eventOf returns the event that a marked node is drained for. An annotation is reason enough, even if what the node
// was cordoned for is over.
func eventOf(n node.Node) event.Event {
	if n.DrainRequested {
		return requestOf(n, time.Now())
	}
	return eventOfMark(n)
}

// isMarkedForNotice reports whether the node is, or was, drained for an event that no hook waits for.
func isMarkedForNotice(n node.Node) bool {
	return !n.Mark.Deadline.IsZero() && n.Mark.Reason != string(event.LifecycleTerminating)
}
