package agent

import (
	"errors"
	"time"

	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/internal/launch"
	"github.com/node-drainer/node-drainer/internal/node"
	"github.com/node-drainer/node-drainer/pkg/queue"
)

// This file decides what to do about an instance. Its functions are pure.

// decide returns what to do about the instance.
func (s *state) decide(p policy) plan {
	var out plan
	for _, r := range s.reasons {
		s.decideReason(r, p, &out)
	}
	s.decideNode(p, &out)
	return out
}

// decideReason decides what to do about one reason.
func (s *state) decideReason(r *reason, p policy, out *plan) {
	outcome, err := r.over()
	switch {
	case outcome == Canceled && s.isOnlyDrainedFor(r): // until the drain has stopped
	case outcome != "":
		out.end(r, outcome, err)
	case r.answer.contradicts() && r.confirmed.IsZero():
		s.giveUp(r, out)
	case r.Kind == event.ScheduledChangeCanceled:
		s.decideCancellation(r, out)
	case r.Kind == event.SpotInterruption && !s.isSpotDecided(r, out):
	case r.Kind == event.Alarm && !s.isInTurn(r, out):
	case r.confirmed.IsZero():
		s.decideUnconfirmed(r, p, out)
	default:
		s.decideConfirmed(r, p, out)
	}
}

// isInTurn takes the turn of an alarm until its reason ends, and reports whether it has it.
func (s *state) isInTurn(r *reason, out *plan) bool {
	out.do(awaitTurn, r)
	return r.done.has(awaitTurn)
}

// over returns how the reason has ended, whatever is known of its drain, and the error for the queue; "" if it has not.
func (r *reason) over() (Outcome, error) {
	switch {
	case r.canceled:
		return Canceled, nil
	case r.failed != nil:
		return Interrupted, r.failed
	case errors.Is(r.refused, errOtherReader):
		return OtherAgent, nil
	case errors.Is(r.refused, errOtherCluster):
		return OtherCluster, queue.Release(r.refused)
	case r.refused != nil:
		return OtherAgent, queue.Release(r.refused)
	case r.gone && r.draining:
		return CutShort, nil
	case r.gone, r.answer.verdict == ended:
		return Gone, nil
	}
	return "", nil
}

// giveUp ends a reason that AWS contradicts: its node is uncordoned, unless another reason needs it.
func (s *state) giveUp(r *reason, out *plan) {
	outcome := Unconfirmed
	if r.announced {
		outcome = Canceled
	}
	switch {
	case r.isLaunch(), r.done.has(uncordon):
		out.end(r, outcome, nil)
	case s.isOnlyDrainedFor(r): // until the drain has stopped
	default:
		out.do(uncordon, r)
	}
}

// decideCancellation ends the drain for maintenance that EC2 does not have scheduled any more, and uncordons the node.
func (s *state) decideCancellation(r *reason, out *plan) {
	switch q := s.ofKind(event.ScheduledChange); {
	case r.confirmed.IsZero():
		s.askAWS(r, out)
	case q != nil:
		out.cancel(q)
	case r.done.has(uncordon):
		out.end(r, "", nil)
	default:
		out.do(uncordon, r)
	}
}

// isSpotDecided asks for the status of the Spot Instance request of a warning, and reports whether to act on that.
// While the status contradicts the warning, its deadline does not count.
func (s *state) isSpotDecided(r *reason, out *plan) bool {
	a := &r.spot
	if a.decided || isLongOverAt(r.Event, r.began) {
		return true
	}
	if a.next.After(s.now) {
		out.at(a.next)
	} else {
		out.do(askSpot, r)
	}
	return a.asked && !s.hasOtherDeadline(r)
}

// decideUnconfirmed asks AWS. While there is no answer, the node is cordoned and the action is held, and nothing is
// evicted.
func (s *state) decideUnconfirmed(r *reason, p policy, out *plan) {
	s.askAWS(r, out)
	if r.doubted {
		return
	}
	if r.Hook.Name != "" {
		s.holdAfter(r, r.began.Add(holdUnconfirmedAfter), out)
	}
	switch at := laterOf(r.began.Add(cordonUnconfirmedAfter), s.earliestCordon(r, p)); {
	case r.isLaunch() || !s.registered || r.markedUID == s.node.UID:
	case s.now.Before(at):
		out.at(at)
	default:
		out.cordon(r, s.node.UID, time.Time{})
	}
}

// earliestCordon is when the time has come to drain the node, if the event is maintenance for which it is not drained
// yet; zero is at once.
func (s *state) earliestCordon(r *reason, p policy) (earliest time.Time) {
	if r.Kind == event.ScheduledChange && !r.Deadline.IsZero() && !isDrainedForMaintenance(s.node) {
		earliest, _ = maintenanceWindow(laterOf(r.Deadline, maintenanceStart(s.node)), p)
	}
	return earliest
}

func (s *state) decideConfirmed(r *reason, p policy, out *plan) {
	switch {
	case s.mustWait(r, p) && s.isTooOld(r, p, out):
		out.end(r, Canceled, nil)
	case s.mustWait(r, p):
		s.postpone(node.Postponement{}, out)
	case r.Kind == event.DrainRequested:
		s.decideDrain(r, p, out)
	case r.Hook.Name == "":
		s.decideNotice(r, p, out)
	case !r.done.has(readOwner):
		s.decideOwner(r, out)
	default:
		s.decideAction(r, p, out)
	}
}

// decideAction holds and completes a lifecycle action.
func (s *state) decideAction(r *reason, p policy, out *plan) {
	if !s.mustComplete(r) {
		out.do(hold, r)
	}
	switch {
	case r.isPooled(): // the instance may be stopped before it registers as a Node
		s.finish(r, Outcome(launch.Pooled), out)
	case r.awaitsReady():
		s.decideLaunch(r, p, out)
	case r.isLaunch() && r.holdEnds.IsZero():
		s.finish(r, Outcome(r.launched), out)
	default:
		s.decideDrain(r, p, out)
	}
}

// decideOwner reads whether the event is for this agent. While that cannot be read, it is in all likelihood: the action
// is held, since it would else end by its default result.
func (s *state) decideOwner(r *reason, out *plan) {
	out.do(readOwner, r)
	s.holdAfter(r, r.confirmed.Add(tagsTimeout), out)
}

// holdAfter holds the action from the time on, although it may be for others.
func (s *state) holdAfter(r *reason, at time.Time, out *plan) {
	if s.now.Before(at) {
		out.at(at)
		return
	}
	out.do(holdAsked, r)
}

// decideNotice does what is configured for an event that no hook waits for.
func (s *state) decideNotice(r *reason, p policy, out *plan) {
	isMaintenance := r.Kind == event.ScheduledChange
	switch action := p.events.Action(r.Kind); {
	case action == event.Replace && !r.noGroup:
		s.decideReplacement(r, p, out)
	case isMaintenance && r.done.has(announce):
		out.end(r, Postponed, nil)
	case isMaintenance && !s.canBeginMaintenance(r.Deadline, p) && !r.announced && s.registered:
		if !s.askRoom(out) {
			out.do(announce, r)
		}
	case action == event.Cordon:
		s.decideCordon(r, out)
	default:
		s.decideDrain(r, p, out)
	}
}

func (s *state) decideReplacement(r *reason, p policy, out *plan) {
	switch {
	case !r.done.has(replace):
		out.do(replace, r)
	case r.Kind == event.Alarm && !r.done.has(depart) && !p.dryRun:
		out.do(depart, r)
	default:
		out.end(r, Replaced, nil)
	}
}

// decideCordon cordons the node of an event that is configured to leave the pods where they are.
func (s *state) decideCordon(r *reason, out *plan) {
	switch {
	case !s.registered:
		s.awaitNode(r, out)
	case r.markedUID == s.node.UID:
		s.finish(r, Cordoned, out)
	default:
		out.cordon(r, s.node.UID, time.Time{})
	}
}

// askAWS asks when the time for it has come.
func (s *state) askAWS(r *reason, out *plan) {
	if s.now.Before(r.next) {
		out.at(r.next)
		return
	}
	out.do(ask, r)
}
