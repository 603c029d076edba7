//go:build e2e

package redis_test

import (
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/pkg/handover"
	"github.com/node-drainer/node-drainer/test/redisserver"
)

// TestSentinelHandsOver drains the node of the leader again and again, and a sentinel that loses its identity each time.
func TestSentinelHandsOver(t *testing.T) {
	t.Parallel()
	group, err := redisserver.NewSentinel(t.Context(), 3)
	f := newFixture(t, group, err)
	for i := range 4 {
		following := redisserver.Write(f.ctx, f.FollowingClient, "following:")
		sticky := redisserver.Write(f.ctx, redisserver.StickyClient(f.Named), "sticky:")
		f.check(sticky.WaitAcknowledged(f.ctx))
		leader := f.Leader(f.ctx)
		before := f.fullSyncs()
		answer := f.release(leader)
		if answer.Outcome != handover.HandedOver || answer.Leader == leader.Name || answer.Leader == "" {
			t.Fatalf("got %+v", answer)
		}
		f.check(leader.Move(f.ctx, f.NewIP()))
		f.check(f.WaitInSync(f.ctx))
		f.stop("following", following, redisserver.MaxGap)
		f.stop("sticky", sticky, redisserver.MaxGap)
		for name, n := range f.fullSyncs() {
			if name != leader.Name && n != before[name] {
				t.Errorf("%s was synchronized in full", name)
			}
		}
		f.check(f.Sentinels[i%3].Replace(f.ctx, f.NewIP()))
		f.reconcile(f.Leader(f.ctx))
	}
}

// fullSyncs returns how many times each server was synchronized in full since it was started.
func (f *fixture) fullSyncs() map[string]int {
	all := map[string]int{}
	for _, s := range f.Servers {
		all[s.Name] = s.FullSyncs()
	}
	return all
}

// reconcile repeats calls until nothing is left to do, and expects then that no sentinel lists an address that is gone.
func (f *fixture) reconcile(s *redisserver.Server) {
	f.t.Helper()
	start := time.Now()
	for {
		answer, err := f.releaser.Reconcile(f.ctx, f.Request(s))
		f.check(err)
		if answer.Go {
			break
		}
		f.t.Logf("reconciled once after %s: %s", time.Since(start).Round(time.Second), answer.Message)
		if time.Since(start) > longest {
			f.t.Fatalf("not reconciled: %+v", answer)
		}
		time.Sleep(2 * time.Second)
	}
	f.t.Logf("reconciled after %s", time.Since(start).Round(time.Millisecond))
	f.check(f.CheckWatched(f.ctx))
}

// TestSentinelWithoutHandOver is what the same takes when the leader is just stopped.
func TestSentinelWithoutHandOver(t *testing.T) {
	t.Parallel()
	group, err := redisserver.NewSentinel(t.Context(), 3)
	f := newFixture(t, group, err)
	w := redisserver.Write(f.ctx, f.FollowingClient, "following:")
	f.check(w.WaitAcknowledged(f.ctx))
	f.check(f.Leader(f.ctx).Stop())
	f.check(w.WaitAcknowledged(f.ctx))
	f.stopWithoutHandOver(w)
}

// TestSentinelFailoverAlone shows that the tests see lost writes: Sentinel leaves the old leader a master.
func TestSentinelFailoverAlone(t *testing.T) {
	t.Parallel()
	group, err := redisserver.NewSentinel(t.Context(), 3)
	f := newFixture(t, group, err)
	w := redisserver.Write(f.ctx, redisserver.StickyClient(f.Named), "sticky:")
	f.check(w.WaitAcknowledged(f.ctx))
	leader := f.Leader(f.ctx)
	_, err = f.Sentinels[0].Do(f.ctx, "SENTINEL", "FAILOVER", redisserver.Master)
	f.check(err)
	for f.Named(f.ctx) == leader {
		time.Sleep(50 * time.Millisecond)
	}
	f.check(f.WaitInSync(f.ctx))
	report, err := w.Stop(f.ctx)
	f.check(err)
	t.Log(report)
	if report.Lost == 0 {
		t.Errorf("%s; want some lost", report)
	}
}
