package awsim

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestRefreshWithCheckpointsAndBakeTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, Group{Desired: 10})
		began := time.Now()
		f.refresh("CheckpointPercentages.member.1", "25", "CheckpointPercentages.member.2", "100",
			"CheckpointDelay", "600", "BakeTime", "300")
		f.want("7 InService v1, 3 InService v2")
		if got := f.now(); got.Percent != 30 || !strings.Contains(got.Reason, "checkpoint of 25 percent") {
			t.Errorf("at the checkpoint: %+v", got)
		}
		elapse(599 * time.Second)
		f.want("7 InService v1, 3 InService v2")
		elapse(time.Second)
		f.want("10 InService v2")
		if got := f.now(); got.Status != refreshBaking || got.Percent != 100 {
			t.Errorf("after the last checkpoint: %+v", got)
		}
		f.ends(refreshSuccessful)
		if took := time.Since(began); took != 900*time.Second {
			t.Errorf("it took %s", took)
		}
	})
}

// The new ones are there and warm, so that the old ones that go bring the refresh to its checkpoint at once.
func TestRefreshCheckpointAfterLaunchingFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, Group{Desired: 4})
		f.refresh("MinHealthyPercentage", "100", "MaxHealthyPercentage", "150", "InstanceWarmup", "60",
			"CheckpointPercentages.member.1", "50", "CheckpointPercentages.member.2", "100", "CheckpointDelay", "600")
		elapse(70 * time.Second)
		f.want("2 InService v1, 2 InService v2")
		if got := f.now(); got.Status != refreshInProgress || !strings.Contains(got.Reason, "checkpoint of 50 percent") {
			t.Errorf("at the checkpoint: %+v", got)
		}
		f.ends(refreshSuccessful)
		f.want("4 InService v2")
	})
}

func TestPartialRefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, Group{Desired: 10})
		f.refresh("CheckpointPercentages.member.1", "35")
		f.ends(refreshSuccessful)
		f.want("6 InService v1, 4 InService v2")
	})
}

func TestRefreshWithSuspendedProcesses(t *testing.T) {
	for _, process := range []string{"InstanceRefresh", "Launch", "Terminate"} {
		bubble(t, process, func(t *testing.T) {
			f := newFleet(t, Group{Desired: 3}, launchHook)
			f.refresh()
			f.want("2 InService v1, 1 Pending:Wait v2")
			f.call("SuspendProcesses", "ScalingProcesses.member.1", process)
			f.answer("Pending:Wait", "ready", resume)
			elapse(3 * time.Hour)
			f.want("2 InService v1, 1 InService v2")
			if got := f.now(); got.Status != refreshInProgress || !strings.Contains(got.Reason, process+" is suspended") {
				t.Errorf("got %+v", got)
			}
			f.call("ResumeProcesses", "ScalingProcesses.member.1", process)
			f.want("1 InService v1, 1 InService v2, 1 Pending:Wait v2")
			f.answer("Pending:Wait", "ready", resume)
			f.answer("Pending:Wait", "ready", resume)
			f.ends(refreshSuccessful)
		})
	}
}

func TestRefreshIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, Group{Desired: 3}, launchHook, drainHook)
		f.refresh()
		f.want("2 InService v1, 1 Pending:Wait v2, 1 Terminating:Wait v1")
		f.call("CancelInstanceRefresh")
		if got := f.now(); got.Status != refreshCancelling {
			t.Errorf("while one launches and one drains: %+v", got)
		}
		f.answer("Pending:Wait", "ready", resume)
		f.want("2 InService v1, 1 InService v2, 1 Terminating:Wait v1")
		if got := f.now(); got.Status != refreshCancelling {
			t.Errorf("while one drains: %+v", got)
		}
		if _, err := f.try("CancelInstanceRefresh"); err == nil {
			t.Error("cancelled twice")
		}
		f.answer("Terminating:Wait", "drain", resume)
		if got := f.ends(refreshCancelled); got.Reason != "Cancelled due to user request." {
			t.Errorf("got %+v", got)
		}
		f.want("2 InService v1, 1 InService v2")
	})
}

// A refresh that does not wait for what is launching or draining ends at once. Another can begin then, and the drain
// goes on.
func TestRefreshIsCancelledAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, Group{Desired: 3}, launchHook, drainHook)
		f.refresh()
		f.call("CancelInstanceRefresh", "WaitForTransitioningInstances", "false")
		f.ends(refreshCancelled)
		f.want("2 InService v1, 1 Pending:Wait v2, 1 Terminating:Wait v1")
		f.call("StartInstanceRefresh", "Preferences.SkipMatching", "true")
	})
}

func TestRefreshIsRolledBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, Group{Desired: 4}, launchHook)
		f.refresh("MinHealthyPercentage", "50")
		f.answer("Pending:Wait", "ready", resume)
		f.want("2 InService v2, 2 Pending:Wait v2")
		f.call("RollbackInstanceRefresh")
		if got := f.now(); got.Status != refreshRollbackInProgress || got.Percent != 50 {
			t.Errorf("got %+v", got)
		}
		for len(f.ids("Pending:Wait")) > 0 {
			f.answer("Pending:Wait", "ready", resume)
		}
		if got := f.ends(refreshRollbackSuccessful); got.Percent != 0 || got.ToUpdate != 2 {
			t.Errorf("got %+v", got)
		}
		f.want("4 InService v1")
		if saved := f.s.asg.groups["g"].source.template.version; saved != "1" {
			t.Errorf("the group launches from version %s", saved)
		}
	})
}

func TestAutoRollback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, Group{Desired: 10}, launchHook)
		f.refresh("AutoRollback", "true")
		elapse(61 * time.Minute)
		if got := f.now(); got.Status != refreshRollbackInProgress {
			t.Errorf("got %+v", got)
		}
		if why := f.s.asg.groups["g"].refreshes[0].rollback.reason; !strings.Contains(why, "no progress for 1h0m0s") {
			t.Errorf("rolled back because %s", why)
		}
		f.want("9 InService v1, 1 Pending:Wait v1") // The one that never became ready is gone at once.
		f.answer("Pending:Wait", "ready", resume)
		f.ends(refreshRollbackSuccessful)
	})
}

func TestFailedRollback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, Group{Desired: 2}, launchHook)
		f.refresh("AutoRollback", "true")
		if got := f.ends(refreshRollbackFailed); !strings.Contains(got.Reason, "insufficient data") {
			t.Errorf("got %+v", got)
		}
	})
}

// At no time do fewer serve, nor more live, than the percentages allow, whatever becomes of the new instances.
func TestRefreshKeepsItsBounds(t *testing.T) {
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			dice := rand.New(rand.NewPCG(seed, 0))
			f := newFleet(t, Group{Desired: 1 + dice.IntN(12)}, launchHook, drainHook)
			lowest := dice.IntN(101)
			prefs := []string{
				"MinHealthyPercentage", fmt.Sprint(lowest), "InstanceWarmup", fmt.Sprint(dice.IntN(300)),
			}
			if dice.IntN(2) == 0 {
				prefs = append(prefs, "MaxHealthyPercentage", fmt.Sprint(100+dice.IntN(lowest+1)))
			}
			f.refresh(prefs...)
			g := f.s.asg.groups["g"]
			for i := range 2000 {
				synctest.Wait()
				f.s.asg.mu.Lock()
				r := g.refreshes[0]
				c, over := r.count(time.Now()), r.ended()
				fewest, most := r.prefs.bounds(g.desired)
				f.s.asg.mu.Unlock()
				if !over && (c.ready < fewest || c.live > most) {
					t.Fatalf("seed %d, step %d: %d ready of %d, %d live of %d", seed, i, c.ready, fewest, c.live, most)
				}
				if over {
					break
				}
				f.chance(dice, "Pending:Wait", "ready", []string{resume, resume, resume, abandon})
				f.chance(dice, "Terminating:Wait", "drain", []string{resume})
				elapse(time.Duration(dice.IntN(120)) * time.Second)
			}
			f.ends(refreshSuccessful)
			if got := len(f.ids(stateInService)); got != g.desired {
				t.Errorf("seed %d: %s", seed, f.tally())
			}
		})
	}
}

// chance completes the hooks of some of the instances in a state, with one of the results.
func (f fleet) chance(dice *rand.Rand, state, hook string, results []string) {
	f.t.Helper()
	for _, id := range f.ids(state) {
		if dice.IntN(2) == 0 {
			f.must(f.complete(hook, id, results[dice.IntN(len(results))]))
		}
	}
}
