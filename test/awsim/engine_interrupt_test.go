package awsim

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestInterruptionIgnoresHooks(t *testing.T) {
	for name, row := range map[string]struct {
		hooks       []Hook
		terminating bool
		closedBy    ClosedBy
		pods        []string // At the close of the action.
		want        string
	}{
		"of an instance without hooks": {want: "1 InService v1"},
		"of an instance in service: its hook runs for a dead machine": {
			hooks: []Hook{drainHook}, want: "1 InService v1, 1 Terminating:Wait v1",
		},
		"of an instance that waits for its hook, which is then over": {
			hooks: []Hook{drainHook}, terminating: true, closedBy: ByInterruption, pods: []string{"default/a"},
		},
	} {
		bubble(t, name, func(t *testing.T) {
			f := newFleet(t, Group{Desired: 1}, row.hooks...)
			f.s.opts.Machines = &recorder{pods: []string{"default/a"}}
			f.s.AddRule(f.s.QueueARN(f.s.CreateQueue("warnings", nil)), SpotWarning)
			id := f.ids(stateInService)[0]
			f.must(f.s.SetMarket(id, Spot, ""))
			if row.terminating {
				f.must(f.s.Terminate(id, true))
			}
			f.must(f.s.Interrupt(id, time.Minute))
			got, err := f.s.WaitInterrupted(t.Context(), id)
			f.must(err)
			if got.Sent != 1 || !got.TakenAt.Equal(got.DueAt) || got.GoneAt.Before(got.TakenAt) ||
				!slices.Equal(got.PodsAtEnd, []string{"default/a"}) || !slices.Equal(got.Killed, got.PodsAtEnd) {
				t.Errorf("the record is %+v", got)
			}
			f.want(row.want)
			if len(row.hooks) == 0 {
				return
			}
			act := f.s.Ledger()[0]
			if act.ClosedBy != row.closedBy || !slices.Equal(act.PodsAtClose, row.pods) ||
				!slices.Equal(act.Killed, []string{"default/a"}) {
				t.Errorf("the action is %+v", act)
			}
			if err := f.complete("drain", id, resume); (err != nil) != (row.closedBy != "") {
				t.Errorf("completion after the end: %v", err)
			}
			f.must(f.s.WaitState(t.Context(), id, stateTerminated))
		})
	}
}

func TestInterruptionOfTerminatedMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, Group{Desired: 1})
		id := f.ids(stateInService)[0]
		f.must(f.s.Interrupt(id, time.Hour))
		f.must(f.s.Terminate(id, true))
		got, err := f.s.WaitInterrupted(t.Context(), id)
		f.must(err)
		if !got.TakenAt.IsZero() || got.GoneAt.IsZero() || len(f.s.Interruptions()) != 1 {
			t.Errorf("the record is %+v of %d", got, len(f.s.Interruptions()))
		}
		if err := f.s.Interrupt(id, time.Hour); err == nil {
			t.Error("a machine that is gone was interrupted")
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := f.s.WaitInterrupted(ctx, "i-00000000"); err == nil {
			t.Error("an instance without announcement was interrupted")
		}
	})
}

// The end of a Capacity Block takes all of its instances, and no others.
func TestExpiredBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, Group{Desired: 3}, drainHook)
		for _, id := range f.ids(stateInService)[:2] {
			f.must(f.s.SetMarket(id, CapacityBlock, "cr-1"))
		}
		f.must(f.s.ExpireBlock("cr-1", time.Hour))
		elapse(time.Hour)
		f.want("3 InService v1, 2 Terminating:Wait v1")
		if err := f.s.ExpireBlock("cr-1", 0); err == nil {
			t.Error("a block without machines ended")
		}
	})
}
