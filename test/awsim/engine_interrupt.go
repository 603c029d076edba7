package awsim

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Market is how an instance was bought: EC2's instanceLifecycle.
type Market string

// The markets whose instances EC2 can take back.
const (
	OnDemand      Market = ""
	Spot          Market = "spot"
	CapacityBlock Market = "capacity-block"
	Interruptible Market = "interruptible-capacity-reservation"
)

// Interruption is the record of one announcement that EC2 takes an instance back.
type Interruption struct {
	InstanceID string
	// Warning is the detail-type of the event that announced it.
	Warning  string
	WarnedAt time.Time
	DueAt    time.Time
	// Sent counts the messages about it.
	Sent int
	// TakenAt is when EC2 took the machine. It stays zero if the machine was terminated before.
	TakenAt time.Time
	// GoneAt is when the machine was terminated, by whatever; zero until then.
	GoneAt time.Time
	// PodsAtEnd are the pods on the instance's node just before the machine went.
	PodsAtEnd []string
	// PodsError is why PodsAtEnd is not known. A test must not read it as an empty node.
	PodsError string
	// Killed are the pods that were still running when the machine went.
	Killed []string
}

type interruption struct {
	Interruption
	inst *instance
}

// SetMarket sets how an instance was bought and, if in a capacity market, in which Capacity Reservation
// (cr-...) it runs.
func (s Notices) SetMarket(instanceID string, market Market, reservationID string) error {
	return s.asg.changeInstance(instanceID, func(inst *instance) {
		inst.market, inst.reservation = market, reservationID
	})
}

// The notices that AWS gives.
const (
	spotNotice  = 2 * time.Minute
	blockNotice = 10 * time.Minute // From the warning to the first termination.
	blockLead   = 30 * time.Minute // From there to the block's end.
)

// Interrupt makes EC2 announce a Spot interruption at once, and take the instance after the notice, whatever
// hooks are pending. The time of the warning is two minutes before the end, as in AWS: a shorter notice is a
// late warning. When Interrupt returns, the warning has been sent.
func (s Notices) Interrupt(instanceID string, notice time.Duration) error {
	return s.asg.notices.interrupt(instanceID, SpotWarning, notice,
		func(env Envelope, inst *instance, due time.Time) string {
			env.At = s.asg.server.told(due).Add(-spotNotice)
			return SpotInterruption(env, inst.id, inst.zone, "terminate")
		})
}

// ReclaimReservation is Interrupt for an instance in a Capacity Reservation. The warning has the time of the
// end, in whole seconds.
func (s Notices) ReclaimReservation(instanceID string, notice time.Duration) error {
	return s.asg.notices.interrupt(instanceID, ReservationWarning, notice,
		func(env Envelope, inst *instance, due time.Time) string {
			return ReservationInterruption(env, inst.id, inst.zone, inst.market, s.asg.server.told(due))
		})
}

// ExpireBlock makes EC2 announce the end of a Capacity Block, and take every instance in it after the
// notice. The warning names the block alone, and an end half an hour after the termination of the machines.
func (s Notices) ExpireBlock(reservationID string, notice time.Duration) error {
	a := s.asg
	return a.updateErr(func() error {
		var members []*instance
		for _, id := range sortedKeys(a.instances) {
			if inst := a.instances[id]; inst.reservation == reservationID && !inst.terminatingMachine {
				members = append(members, inst)
			}
		}
		if len(members) == 0 {
			return errorf("InvalidCapacityReservationId.NotFound",
				"The Capacity Reservation ID '%s' does not exist", reservationID)
		}
		due := time.Now().Add(notice)
		env := a.bus.envelope()
		told := a.server.told(due)
		env.At = told.Add(-blockNotice)
		a.notices.announceEnd(members, BlockWarning, due, BlockExpiration(env, reservationID, told.Add(blockLead)))
		return nil
	})
}

// Recommend makes EC2 recommend to replace a Spot instance. EKS replaces one of a managed node group in a cluster that
// is connected; nothing happens to any other.
func (s Notices) Recommend(instanceID string) error {
	a := s.asg
	return a.changeInstance(instanceID, func(inst *instance) {
		advice := Rebalance(a.bus.envelope(), inst.id, inst.zone)
		a.later(func() { a.bus.publish(advice) })
		a.managed.rebalance(inst)
	})
}

// Interruptions is every interruption so far, in order of the warnings. The caller owns it.
func (s Notices) Interruptions() []Interruption {
	s.asg.mu.Lock()
	defer s.asg.mu.Unlock()
	out := make([]Interruption, 0, len(s.asg.interruptions))
	for _, one := range s.asg.interruptions {
		out = append(out, one.clone())
	}
	return out
}

// WaitInterrupted blocks until an instance whose interruption was announced has terminated, and returns the
// record of the last announcement.
func (s Notices) WaitInterrupted(ctx context.Context, instanceID string) (Interruption, error) {
	var last Interruption
	err := s.asg.wait(ctx, func() bool {
		for _, one := range s.asg.interruptions {
			if one.InstanceID == instanceID {
				last = one.clone()
			}
		}
		return !last.GoneAt.IsZero()
	})
	if err != nil {
		return last, fmt.Errorf("awsim: %s is not interrupted: %w", instanceID, err)
	}
	return last, nil
}

func (i *interruption) clone() Interruption {
	out := i.Interruption
	out.PodsAtEnd, out.Killed = slices.Clone(out.PodsAtEnd), slices.Clone(out.Killed)
	return out
}

// interrupt announces the end of one instance. It must be called without mu.
func (a noticeEngine) interrupt(
	instanceID, warning string, notice time.Duration, say func(Envelope, *instance, time.Time) string,
) error {
	return a.updateErr(func() error {
		inst, ok := a.instances[instanceID]
		if !ok || inst.terminatingMachine {
			return errNoInstance(instanceID)
		}
		due := time.Now().Add(notice)
		a.announceEnd([]*instance{inst}, warning, due, say(a.bus.envelope(), inst, due))
		a.managed.drainInterrupted(inst)
		return nil
	})
}

// announceEnd sends a warning, and takes the instances when the notice has passed. It needs mu.
func (a noticeEngine) announceEnd(members []*instance, warning string, due time.Time, body string) {
	var records []*interruption
	for _, inst := range members {
		records = append(records, &interruption{inst: inst, Interruption: Interruption{
			InstanceID: inst.id, Warning: warning, WarnedAt: time.Now(), DueAt: due,
		}})
	}
	a.interruptions = append(a.interruptions, records...)
	a.later(func() {
		sent := a.bus.publish(body)
		a.update(func() {
			for _, one := range records {
				one.Sent += sent
			}
		})
	})
	a.spawn(func() {
		if a.pause(time.Until(due)) {
			a.update(func() { a.takeInstances(records) })
		}
	})
}

// takeInstances takes the machines that are not terminated yet. It needs mu.
func (a noticeEngine) takeInstances(records []*interruption) {
	for _, one := range records {
		if one.inst.terminatingMachine {
			continue
		}
		one.TakenAt, one.inst.interrupted = time.Now(), true
		a.hardware.terminateMachine(one.inst)
	}
}

// recordPods records the pods of a machine that is about to be terminated, if an interruption was announced.
// It must be called without mu.
func (a noticeEngine) recordPods(inst *instance) {
	a.mu.Lock()
	announced := len(a.interruptionsOf(inst)) > 0
	a.mu.Unlock()
	if !announced {
		return
	}
	pods, problem := a.hardware.pods(inst.id)
	a.update(func() {
		for _, one := range a.interruptionsOf(inst) {
			one.PodsAtEnd, one.PodsError = pods, problem
		}
	})
}

// recordEnd writes the end of a machine into the records of its interruption. Actions of an instance that
// EC2 has taken are closed: Auto Scaling no longer knows them. One that is being completed at this moment is
// left to its completion. It needs mu.
func (a noticeEngine) recordEnd(inst *instance) {
	var last Interruption
	for _, one := range a.interruptionsOf(inst) {
		one.GoneAt, one.Killed = time.Now(), inst.killed
		last = one.Interruption
	}
	if !inst.interrupted || inst.state() != stateTerminatingWait {
		return
	}
	over := true
	for _, act := range inst.waiting {
		if act.open() && act.claimed == "" {
			act.PodsAtClose, act.PodsError = last.PodsAtEnd, last.PodsError
			a.lifecycle.closeAction(act, ByInterruption, abandon)
		}
		over = over && !act.open()
	}
	if over {
		inst.waiting = nil
		inst.setState(stateTerminatingProceed)
	}
}

// interruptionsOf returns the interruptions of the instance. It needs mu.
func (a noticeEngine) interruptionsOf(inst *instance) []*interruption {
	var out []*interruption
	for _, one := range a.interruptions {
		if one.inst == inst {
			out = append(out, one)
		}
	}
	return out
}
