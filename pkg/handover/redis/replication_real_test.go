//go:build e2e

package redis_test

import (
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/pkg/handover"
	"github.com/node-drainer/node-drainer/test/redisserver"
)

func TestReplicationHandsOver(t *testing.T) {
	group, err := redisserver.NewReplication(t.Context(), 3)
	f := newFixture(t, group, err)
	for range 5 {
		w := redisserver.Write(f.ctx, redisserver.StickyClient(f.Leader), "plain:")
		f.check(w.WaitAcknowledged(f.ctx))
		leader := f.Leader(f.ctx)
		if answer := f.release(leader); answer.Outcome != handover.HandedOver {
			t.Fatalf("got %+v", answer)
		}
		f.check(leader.Move(f.ctx, f.NewIP()))
		f.check(f.WaitInSync(f.ctx))
		f.stop("sticky", w, 1500*time.Millisecond)
	}
}
