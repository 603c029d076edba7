package drain

import (
	"time"

	"github.com/node-drainer/node-drainer/pkg/handover"
)

// A pod with an annotation for it is asked before it is evicted, so that it hands over its leadership. This file
// holds when.

const (
	// lastAskLead is how long before a pod is removed for the last time it is asked for the last time, and
	// lastAskTimeout how long that may take.
	lastAskLead, lastAskTimeout = 10 * time.Second, 9 * time.Second
	// handOverPause is the pause before a pod is asked again if the answer names none, and longestHandOverPause
	// the shortest and longest that an answer can name.
	handOverPause, shortestHandOverPause, longestHandOverPause = 5 * time.Second, time.Second / 10, time.Minute
)

// HandOver is how far the hand-over of a pod is; zero if the pod has no annotation for one.
type HandOver struct {
	Kind         string           // of the workload
	Unknown      string           // the value of the annotation if it is no kind; then Kind is empty
	Starting     bool             // the pod may be evicted in its turn, since it does not run yet; then Kind is empty
	Pod          *handover.Pod    // for the call
	Last         handover.Outcome // of the last call; if it was cut off, of the one before; empty if there was none
	Message      string           // of the last answer, or the error
	Next         time.Time        // the earliest time of the next call
	FailingSince time.Time        // since when each answer was neither that the pod may go, nor GroupBehind or Restarting
	Asking       bool             // a call is in flight
	Reserved     bool             // a disruption of the pod's budget is reserved for the eviction after that call
	Closed       bool             // the last call was made
}

// noAnswer is the outcome of calls that fail.
const noAnswer handover.Outcome = "no-answer"

// HandOverOutcomes lists how a hand-over can end. Those after Invalid are the last answers of pods that were evicted
// when their time was up.
func HandOverOutcomes() []handover.Outcome {
	return []handover.Outcome{
		handover.NotLeading, handover.HandedOver, handover.NoReplica, handover.Replaced, handover.Unfit, handover.Invalid,
		handover.HandingOver, handover.GroupBehind, handover.Restarting, handover.Refused, noAnswer,
	}
}

// Release is a pod to ask whether it may be evicted.
type Release struct {
	Removal  Removal   // the eviction
	Evict    bool      // evict the pod if it may go; else the next decision is about that
	Last     bool      // no call follows; with Evict the pod is evicted whatever the answer is
	TakeTurn bool      // no other pod of its namespace may be asked or evicted meanwhile
	Until    time.Time // the call ends by then; zero if the pod is evicted without one
}

// mayAsk reports whether the pod is one that is asked, and was not asked for the last time.
func (h HandOver) mayAsk() bool { return h.Kind != "" && h.Kind != handover.Restart && !h.Closed }

// handOverEnd is when a pod that is not released is evicted as others are; zero if no call has failed.
func (t *schedule) handOverEnd(h HandOver) time.Time {
	if h.FailingSince.IsZero() {
		return time.Time{}
	}
	return h.FailingSince.Add(t.policy.HandOverTimeout)
}

// latestRemoval is when the pod is removed, or left, whatever its hand-over has come to.
func (t *schedule) latestRemoval(pod Pod) time.Time {
	return earliest(t.latestDeletion(pod), t.deadline)
}

// pendingHandOver is a pod in a decision that may have to be asked.
type pendingHandOver struct {
	*decision
	pod Pod
}

// isNext reports whether the pod is asked, or waits for its turn, before it is evicted.
func (p pendingHandOver) isNext() bool {
	h := p.pod.HandOver
	if !h.mayAsk() && !h.Starting || !p.schedule.now.Before(p.lastEnd()) {
		return false
	}
	return p.schedule.now.Before(p.askEnd())
}

// askEnd is when a pod that is not released is evicted as others are.
func (p pendingHandOver) askEnd() time.Time {
	return earliest(p.schedule.handOverEnd(p.pod.HandOver), p.schedule.annotationEnd())
}

// isAsked reports whether the answer to a call is waited for. No call delays the latest removal of its pod.
func (p pendingHandOver) isAsked() bool {
	return p.pod.HandOver.Asking && p.pod.GraceEndsAt.IsZero() &&
		p.schedule.now.Before(p.schedule.latestRemoval(p.pod))
}

// lastStart is when the pod is asked for the last time, although it may still have to wait for something else; zero
// if it is not asked again.
func (p pendingHandOver) lastStart() time.Time {
	if !p.pod.HandOver.mayAsk() || !p.pod.GraceEndsAt.IsZero() {
		return time.Time{}
	}
	return earliest(p.earliestDeletion(p.pod), p.schedule.deadline).Add(-lastAskLead)
}

// lastEnd is when the last call for the pod must have ended, so that it does not delay its latest removal.
func (p pendingHandOver) lastEnd() time.Time {
	return p.schedule.latestRemoval(p.pod).Add(lastAskTimeout - lastAskLead)
}

// isLastDue reports whether the pod must be asked for the last time now.
func (p pendingHandOver) isLastDue() bool {
	start := p.lastStart()
	return !start.IsZero() && !p.schedule.now.Before(start) && p.schedule.now.Before(p.lastEnd())
}

// askAtLast asks the pod for the last time. It waits for nobody's turn: there is no time.
func (p pendingHandOver) askAtLast() {
	p.step.Release = append(p.step.Release, Release{
		Removal: Removal{Pod: p.pod}, Last: true,
		Until: earliest(p.schedule.now.Add(lastAskTimeout), p.lastEnd()),
	})
	p.decideAgain(p.schedule.latestRemoval(p.pod))
}

// ask asks the pod before the eviction, unless its turn or the time for that has not come.
func (p pendingHandOver) ask(eviction Removal) {
	t, h := &p.schedule, p.pod.HandOver
	switch {
	case p.isTurnTaken():
		p.wait(p.pod, GroupBehind, p.askEnd(), t.latestDeletion(p.pod))
	case p.isPaused():
		p.wait(p.pod, h.reason(), h.Next, p.groupEnd(), p.askEnd(), t.latestDeletion(p.pod))
	default:
		eviction.Budget, p.turnTaken[p.pod.Namespace] = p.budgets.reserve(p.pod), true
		call := p.call(eviction)
		call.Until = earliest(call.Until, t.now.Add(t.policy.HandOverTimeout))
		p.step.Release = append(p.step.Release, call)
		p.decideAgain(t.latestRemoval(p.pod))
	}
}

// afterBudget returns what follows when the pod's budget allows its eviction; nil if it may not be asked yet.
func (p pendingHandOver) afterBudget(eviction Removal) *Release {
	if !p.isNext() {
		return &Release{Removal: eviction, Evict: true}
	}
	p.decideAgain(p.askEnd())
	switch {
	case p.isPaused():
		p.decideAgain(p.pod.HandOver.Next, p.groupEnd())
		return nil
	case p.isTurnTaken():
		return nil
	}
	call := p.call(eviction)
	return &call
}

// call returns the call that the eviction follows. It ends DRAIN_HAND_OVER_TIMEOUT after it was started at the latest.
func (p pendingHandOver) call(eviction Removal) Release {
	end := earliest(p.askEnd(), p.lastStart())
	return Release{
		Removal: eviction, Evict: true, Last: p.isLastTry(), TakeTurn: true,
		Until: earliest(end, p.schedule.latestRemoval(p.pod)),
	}
}

// groupEnd is until when a group that is behind is waited for: until half of the drain, and until there is only time
// for a last call.
func (p pendingHandOver) groupEnd() time.Time {
	return earliest(p.schedule.since.Add(p.schedule.half()), p.schedule.annotationEnd().Add(-lastAskLead))
}

// isLastTry reports whether a group that is behind is not waited for any more.
func (p pendingHandOver) isLastTry() bool {
	return p.pod.HandOver.Last == handover.GroupBehind && !p.schedule.now.Before(p.groupEnd())
}

// isTurnTaken reports whether another pod of the namespace is asked, or evicted after that.
func (p pendingHandOver) isTurnTaken() bool {
	return p.TurnsTaken[p.pod.Namespace] || p.turnTaken[p.pod.Namespace]
}

// isPaused reports whether the pod has answered that it may not go yet, and is not to be asked again yet.
func (p pendingHandOver) isPaused() bool {
	return !p.isLastTry() && p.schedule.now.Before(p.pod.HandOver.Next)
}

// reason is why a pod waits that has been asked.
func (h HandOver) reason() WaitReason {
	switch {
	case h.Kind == handover.Restart:
		return Restarting
	case h.Last == handover.GroupBehind:
		return GroupBehind
	}
	return HandingOver
}
