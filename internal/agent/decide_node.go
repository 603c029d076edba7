package agent

import (
	"slices"
	"time"

	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/internal/node"
)

// This file decides what a Node requires that no message asks for. Its functions are pure.

// decideNode decides what the Node itself requires.
func (s *state) decideNode(p policy, out *plan) {
	if !s.registered || s.node.Unselected {
		return
	}
	s.decideRequest(out)
	s.decideMaintenance(p, out)
	isWithdrawn := s.isMarkedForRequest() && !s.node.DrainRequested && !s.withdrawn
	if len(out.begins) > 0 || isWithdrawn || s.node.Mark.Since.IsZero() {
		return
	}
	if len(s.reasons) == 0 {
		s.decideMark(out)
	}
	if s.isIdle() {
		s.keepEmpty(out)
	}
}

// isIdle reports whether no reason requires anything of the node: none but a launch, which waits until it is ready.
func (s *state) isIdle() bool {
	return !slices.ContainsFunc(s.reasons, func(r *reason) bool { return !r.awaitsReady() })
}

// decideRequest drains a node that has the annotation for it, or has it again, and uncordons one that has it no more. A
// launch uncordons the node of an instance that returns from the warm pool, or has another root volume: then it is
// drained again.
func (s *state) decideRequest(out *plan) {
	r := s.ofKind(event.DrainRequested)
	switch {
	case s.node.DrainRequested && r == nil && s.asksForDrain():
		out.begins = append(out.begins, requestOf(s.node, s.now))
	case s.node.DrainRequested:
	case r != nil:
		out.cancel(r)
	case s.isMarkedForRequest() || s.requested && s.isLeftUncordoned():
		s.decideWithdrawal(out)
	}
}

// asksForDrain reports whether the annotation asks for a drain that has not begun.
func (s *state) asksForDrain() bool {
	return !s.requested || s.removed || s.isLeftUncordoned() || s.hasReturned() && len(s.reasons) == 0
}

// isLeftUncordoned reports whether the node is not cordoned, and nothing requires that it is.
func (s *state) isLeftUncordoned() bool { return s.node.Mark.Since.IsZero() && len(s.reasons) == 0 }

func (s *state) decideWithdrawal(out *plan) {
	switch {
	case s.withdrawn:
	case s.now.Before(s.nextWithdraw):
		out.at(s.nextWithdraw)
	default:
		out.onNode(withdraw, s.node.UID)
	}
}

// isMarkedForRequest reports whether the node is cordoned for its annotation alone.
func (s *state) isMarkedForRequest() bool {
	reason := s.node.Mark.Reason
	return reason != "" && (reason == string(event.DrainRequested) || reason == s.refuted)
}

// decideMark asks whether a node that is cordoned must still be so.
func (s *state) decideMark(out *plan) {
	uid := s.node.UID
	switch {
	case s.mustPut:
		out.onNode(putBack, uid)
	case s.mustJudge && s.now.Before(s.nextJudge):
		out.at(s.nextJudge)
	case s.mustJudge:
		out.onNode(judgeMark, uid)
	}
}

// keepEmpty watches a node that was drained for pods that come late.
func (s *state) keepEmpty(out *plan) {
	switch {
	case !s.isDrained() || !isMarkedForNotice(s.node):
	case s.now.Before(s.lateNext):
		out.at(s.lateNext)
	default:
		out.steps = append(out.steps, step{do: awaitPod, uid: s.node.UID, deadline: s.node.Mark.Since.UnixMilli()})
	}
}

// maintenance returns when maintenance of the instance starts, and whether its node may have to be drained for that.
func (s *state) maintenance(p policy) (start time.Time, isAhead bool) {
	if r := s.ofKind(event.ScheduledChange); r != nil {
		return r.Deadline, !r.confirmed.IsZero()
	}
	return s.node.Maintenance, s.isMaintenanceAhead(p) && !s.now.Before(s.beganMaint.Add(p.resyncInterval))
}

// isMaintenanceAhead reports whether the node waits for its drain for announced maintenance.
func (s *state) isMaintenanceAhead(p policy) bool {
	n := s.node
	return s.registered && !n.Maintenance.IsZero() && n.Manager == "" && !isActedOn(n, p.events.ScheduledChange) &&
		s.ofKind(event.ScheduledChange) == nil
}

// decideMaintenance starts the drain for announced maintenance, when its time has come.
func (s *state) decideMaintenance(p policy, out *plan) {
	if !s.isMaintenanceAhead(p) {
		return
	}
	start := s.node.Maintenance
	earliest, latest := maintenanceWindow(start, p)
	switch retried := s.beganMaint.Add(p.resyncInterval); {
	case s.now.Before(retried):
		out.at(retried)
	case s.now.Before(earliest):
		out.postponed = node.Postponement{Maintenance: start, Until: earliest}
		out.at(earliest)
	case s.hasTurn:
		out.begins = append(out.begins, maintenanceOf(s.node, s.now))
	default:
		out.at(latest)
		s.postpone(node.Postponement{Maintenance: start, Until: latest}, out)
	}
}

// maintenanceWindow returns the times between which the drain for maintenance at the given time starts: from earliest
// on if few others run, and at latest in any case, because it needs as much time as any other drain.
func maintenanceWindow(maintenance time.Time, p policy) (earliest, latest time.Time) {
	end := maintenance.Add(-p.events.Margin)
	earliest = end.Add(-p.events.ScheduledChangeLead)
	return earliest, laterOf(earliest, end.Add(-p.drainTimeout))
}

// isActedOn reports whether the node is being drained, for whatever reason, or has been; or whether it is
// cordoned, if no more than that is configured.
func isActedOn(n node.Node, action event.Action) bool {
	switch action {
	case event.Cordon:
		return !n.Mark.Since.IsZero()
	case event.Ignore:
		return true // the configuration has changed since the announcement
	}
	return !n.Mark.Deadline.IsZero()
}
