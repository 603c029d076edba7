package agent

import (
	"slices"
	"time"

	"github.com/node-drainer/node-drainer/internal/autoscaling"
	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/internal/launch"
	"github.com/node-drainer/node-drainer/pkg/drain"
)

// This file decides about the drain of a node. Its functions are pure.

// decideDrain cordons and drains the node, and then completes the action.
func (s *state) decideDrain(r *reason, p policy, out *plan) {
	if report := s.reportFor(r); report != nil {
		s.decideDrained(r, *report, p, out)
		return
	}
	if s.now.Before(r.holdEnds) {
		out.at(r.holdEnds)
	}
	switch {
	case s.isPastHold(r):
		s.finish(r, Outcome(r.launched), out)
		return
	case !s.registered && s.isDraining():
		s.keepDraining(r, out)
		return
	case !s.registered:
		s.awaitNode(r, out)
		return
	case r.limit.known.IsZero():
		out.do(readLimit, r)
		if s.isFailing(readLimit, r.key) && r.markedUID != s.node.UID {
			out.cordon(r, s.node.UID, time.Time{})
		}
		return
	}
	if r.limit.stale {
		out.do(readLimit, r)
	}
	if r.mustAsk {
		s.askAWS(r, out)
	}
	if !s.asksFirst(r, p, out) {
		s.cordonAndDrain(r, p, out)
	}
}

func (s *state) awaitNode(r *reason, out *plan) {
	switch {
	case r.unregistered && r.launched != "":
		s.finish(r, Outcome(r.launched), out)
	case r.unregistered:
		s.finish(r, Unregistered, out)
	default: // until the time that the instance has for it: a late message may say that it began earlier
		out.steps = append(out.steps, step{do: register, key: r.key, deadline: r.At.UnixMilli()})
	}
}

func (s *state) cordonAndDrain(r *reason, p policy, out *plan) {
	deadline := r.drainBy(p)
	isMarked := s.isMarked(r, p)
	expected, begins := s.node.Mark, laterOf(r.limit.known, s.nodeSince) // the instance may have registered again
	if isMarked && (expected.Deadline.IsZero() || expected.Deadline.After(r.deadline)) {
		expected = expected.Merge(reasonOf(r.Event, r.deadline), begins) // the watch has not shown the mark for long
	}
	if !isMarked {
		tried := s.triedSince(out.cordon(r, s.node.UID, deadline))
		current := expected
		expected = expected.Merge(reasonOf(r.Event, deadline), begins)
		if urgent := urgentAt(expected.Deadline, tried); s.now.Before(urgent) {
			if out.at(urgent); r.draining && s.isBeingDrained() {
				out.drain(s.node.UID, current, false) // by the deadline that the Node has until then
			}
			return
		}
	}
	if s.isUncordoned() && s.now.Before(s.cordonAgainAt) {
		out.at(s.cordonAgainAt)
	}
	if s.isOld(r) {
		s.askAWS(r, out)
		return
	}
	if s.now.Before(s.notBefore) {
		out.at(s.notBefore)
		return
	}
	out.drains = append(out.drains, r)
	out.drain(s.node.UID, expected, !isMarked)
}

// isOld reports whether AWS must confirm the event again before any pod is evicted: the API server has not answered for
// long, or an alarm has waited for the replacement of its instance, which may have returned to service.
func (s *state) isOld(r *reason) bool {
	return !s.now.Before(r.confirmed.Add(confirmationAge)) && !r.draining && r.Kind != event.DrainRequested
}

// asksFirst asks AWS again about an event that isOld, before its node is cordoned. It reports whether AWS contradicts
// the event, or has had no time to answer.
func (s *state) asksFirst(r *reason, p policy, out *plan) bool {
	if !s.isOld(r) || s.isMarked(r, p) || s.isRunning(cordon, r.key) || s.isFailing(cordon, r.key) {
		return false
	}
	asking := step{do: ask, key: r.key}
	s.askAWS(r, out)
	latest := s.triedSince(asking).Add(cordonUnconfirmedAfter)
	switch {
	case !r.doubtEnds.IsZero():
		return true
	case !slices.Contains(out.steps, asking) || !s.now.Before(latest):
		return false
	}
	out.at(latest)
	return true
}

// keepDraining continues the drain of a Node that was deleted meanwhile.
func (s *state) keepDraining(r *reason, out *plan) {
	for st := range s.running {
		if st.do == drainNode && r.draining && !slices.Contains(out.steps, st) {
			out.steps = append(out.steps, st)
		}
	}
}

func (s *state) decideDrained(r *reason, report drain.Report, p policy, out *plan) {
	if isTighter := r.drainBy(p).Before(r.deadline); r.spot.asked && r.spot.decided && isTighter && s.registered {
		out.cordon(r, s.node.UID, r.drainBy(p)) // else the node would count as one whose warning was not confirmed
		return
	}
	if !s.isExcluded(r) {
		out.steps = append(out.steps, step{do: exclude, key: r.key, deadline: s.node.Mark.Deadline.UnixMilli()})
		return
	}
	outcome := outcomeOf(report)
	if s.left {
		outcome = NodeLost
	}
	if r.launched != "" {
		outcome = Outcome(r.launched)
	}
	s.finish(r, outcome, out)
}

// finish completes the action of the reason, if it has one, and ends it.
func (s *state) finish(r *reason, outcome Outcome, out *plan) {
	switch {
	case r.Kind == event.SpotInterruption && r.spot.asked && !r.spot.decided: // until EC2 has decided
	case r.Hook.Name == "" || r.done.has(complete):
		out.end(r, outcome, nil)
	case !s.isRunning(hold, r.key):
		out.do(complete, r)
	}
}

// mustComplete reports whether nothing is left to do but to complete the action: then it is not held any more.
func (s *state) mustComplete(r *reason) bool {
	isReady := r.launched != "" && r.holdEnds.IsZero()
	switch {
	case isReady, r.isPooled(), s.isPastHold(r), r.done.has(complete):
		return true
	case s.reportFor(r) == nil:
		return !s.registered && r.unregistered && !s.isDraining()
	}
	return s.isExcluded(r)
}

// isPooled reports whether the reason is a launch into the warm pool.
func (r *reason) isPooled() bool { return r.intoPool && r.awaitsReady() }

// isExcluded reports whether the node is excluded from load balancers, or need not be, since it is gone.
func (s *state) isExcluded(r *reason) bool { return r.done.has(exclude) || !s.registered || s.left }

// isPastHold reports whether the hook of a launch that is abandoned cannot be held any longer.
func (s *state) isPastHold(r *reason) bool { return !r.holdEnds.IsZero() && !s.now.Before(r.holdEnds) }

// result is how the action of the reason is completed.
func (r *reason) result() autoscaling.Result {
	if r.launched == string(launch.Abandoned) {
		return autoscaling.Abandon
	}
	return autoscaling.Continue
}

func outcomeOf(r drain.Report) Outcome {
	switch {
	case len(r.Left) == 0 && !r.Unverified:
		return Drained
	case r.Lost:
		return NodeLost
	}
	return LeftBehind
}
