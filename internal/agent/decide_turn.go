package agent

import (
	"time"

	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/internal/node"
)

// This file decides whether a node waits for its turn to be drained. Its functions are pure.

// claim returns what the instance needs a turn for; without a kind if it needs none. Maintenance whose time has come
// goes before what else can wait: it starts in any case.
func (s *state) claim(p policy) (c claim) {
	c = claim{instanceID: s.id, zone: s.node.Zone}
	start, isAhead := s.maintenance(p)
	earliest, _ := maintenanceWindow(start, p)
	switch r := s.mayWaitFor(p); {
	case isAhead && (r == nil || !s.now.Before(earliest)):
		c.kind = event.ScheduledChange
		if c.begun = start.IsZero() || isDrainedForMaintenance(s.node); !c.begun {
			c.maintenance = start
		}
	case r != nil:
		c.kind, c.begun = r.Kind, r.draining || !s.node.Mark.Deadline.IsZero()
	}
	return c
}

// mayWaitFor returns a confirmed request, or rebalance recommendation, that the node is drained for; nil if there is
// none.
func (s *state) mayWaitFor(p policy) *reason {
	for _, r := range s.reasons {
		if r.mayWait(p) && !r.confirmed.IsZero() && !r.canceled && s.registered {
			return r
		}
	}
	return nil
}

func (r *reason) mayWait(p policy) bool {
	return r.Kind == event.DrainRequested ||
		r.Kind == event.RebalanceRecommendation && p.events.Action(r.Kind) == event.Drain
}

// mustWait reports whether the drain for the reason waits for its turn. A node that is drained for another reason does
// not.
func (s *state) mustWait(r *reason, p policy) bool {
	return r.mayWait(p) && s.registered && !s.hasTurn && !r.draining && s.node.Mark.Deadline.IsZero()
}

// isTooOld reports whether a rebalance recommendation has waited for so long that its node would not stay cordoned, or
// has the instance decided about again when it has.
func (s *state) isTooOld(r *reason, p policy, out *plan) bool {
	timeout := p.events.RebalanceTimeout
	if r.Kind != event.RebalanceRecommendation || timeout == 0 {
		return false
	}
	end := r.began.Add(timeout)
	if s.now.Before(end) {
		out.at(end)
		return false
	}
	return true
}

// canBeginMaintenance reports whether the drain for maintenance at the time may begin, or go on.
func (s *state) canBeginMaintenance(start time.Time, p policy) bool {
	earliest, _ := maintenanceWindow(start, p)
	return s.hasTurn && (isDrainedForMaintenance(s.node) || !s.now.Before(earliest))
}

// busyLook is how often a node that waits for others looks at least: another process may end their drains.
const busyLook = time.Minute

// postpone has the node wait for its turn, and says why.
func (s *state) postpone(why node.Postponement, out *plan) {
	if s.askRoom(out) {
		return
	}
	out.at(s.now.Add(busyLook))
	if s.refusal.noRoom {
		out.at(s.now.Add(roomReadFor))
	}
	why.Busy, why.NoRoom = s.refusal.isBusy, s.refusal.noRoom
	out.postponed = why
}

// askRoom asks whether pods of drained nodes have found no room, if nothing else is in the way of the drain.
func (s *state) askRoom(out *plan) (asks bool) {
	if s.refusal.isBusy || !s.refusal.mustAsk {
		return false
	}
	out.isAsking = true
	if s.now.Before(s.refusal.askFrom) {
		out.at(s.refusal.askFrom)
	} else {
		out.onNode(askRoom, s.node.UID)
	}
	return true
}
