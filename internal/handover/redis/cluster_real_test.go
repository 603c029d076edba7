//go:build e2e

package redis_test

import (
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/pkg/handover"
	"github.com/node-drainer/node-drainer/test/redisserver"
)

// TestClusterHandsOver drains each node of a cluster once.
func TestClusterHandsOver(t *testing.T) {
	t.Parallel()
	group, err := redisserver.NewCluster(t.Context(), 3)
	f := newFixture(t, group, err)
	var writers []*redisserver.Writer
	for _, tag := range []string{"{a}", "{b}", "{c}"} { // Their slots are 15495, 3300 and 7365: one of each shard.
		writers = append(writers, redisserver.Write(f.ctx, f.ClusterClient, tag),
			redisserver.Write(f.ctx, redisserver.StickyClient(f.Serving(tag)), tag+"sticky:"))
	}
	moved := 0
	for _, s := range f.Servers {
		time.Sleep(time.Second) // A pod takes longer to move than a process here.
		if f.release(s).Outcome == handover.HandedOver {
			moved++
		}
		f.check(s.Move(f.ctx, f.NewIP()))
		f.check(f.WaitCluster(f.ctx))
	}
	if moved < 3 {
		t.Errorf("the leadership moved %d times, want 3 at least", moved)
	}
	for _, w := range writers {
		f.stop("shard", w, redisserver.MaxGap)
	}
}

// TestClusterWithoutHandOver is what the same takes when a leader is just stopped.
func TestClusterWithoutHandOver(t *testing.T) {
	t.Parallel()
	group, err := redisserver.NewCluster(t.Context(), 3)
	f := newFixture(t, group, err)
	w := redisserver.Write(f.ctx, redisserver.StickyClient(f.Serving("{b}")), "{b}")
	f.check(w.WaitAcknowledged(f.ctx))
	f.check(f.Servers[0].Stop())
	f.check(f.Servers[3].WaitRole(f.ctx, "master"))
	f.check(w.WaitAcknowledged(f.ctx))
	f.stopWithoutHandOver(w)
}
