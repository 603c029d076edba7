//go:build e2e

package redis_test

import (
	"strings"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/internal/handover/workload"
	"github.com/node-drainer/node-drainer/pkg/handover"
	"github.com/node-drainer/node-drainer/test/redisserver"
)

// soon is the time of an answer that waits for one member at most.
const soon = 10 * time.Second

// expect asks once, and expects an answer soon.
func (f *fixture) expect(s *redisserver.Server, want handover.Outcome, message string) {
	f.t.Helper()
	f.expectOf(f.Request(s), want, message)
}

func (f *fixture) expectOf(request workload.Request, want handover.Outcome, message string) {
	f.t.Helper()
	start := time.Now()
	answer, err := f.releaser.Release(f.ctx, request)
	f.check(err)
	if answer.Outcome != want || !strings.Contains(answer.Message, message) {
		f.t.Errorf("got %+v, want %s with %q", answer, want, message)
	}
	if d := time.Since(start); d > soon {
		f.t.Errorf("the answer took %s", d)
	}
}

// TestSentinelFaults: what fails is named soon, and writes go on.
func TestSentinelFaults(t *testing.T) {
	t.Parallel()
	group, err := redisserver.NewSentinel(t.Context(), 3)
	f := newFixture(t, group, err)
	leader := f.Leader(f.ctx)
	w := redisserver.Write(f.ctx, redisserver.StickyClient(f.Named), "sticky:")
	f.check(w.WaitAcknowledged(f.ctx))

	frozen := f.Servers[2]
	frozen.Freeze()
	f.expect(leader, handover.GroupBehind, "redis-2: no answer within 2s")
	frozen.Thaw()

	right := f.releaser
	f.releaser = newReleaser("wrong", nil)
	f.expect(leader, handover.Refused, "WRONGPASS")
	f.releaser = right

	for _, s := range f.Sentinels[1:] {
		s.Freeze()
	}
	f.expect(leader, handover.GroupBehind, "no answer within 2s")
	for _, s := range f.Sentinels[1:] {
		s.Thaw()
	}
	f.stop("sticky", w, redisserver.MaxGap)

	leader.Freeze()
	f.expect(leader, handover.Refused, "redis-0: no answer within 2s")
	leader.Thaw()
	f.check(leader.Stop())
	f.expect(leader, handover.Refused, "connection refused")
}

func TestNoReplica(t *testing.T) {
	t.Parallel()
	group, err := redisserver.NewReplication(t.Context(), 1)
	f := newFixture(t, group, err)
	f.expect(f.Servers[0], handover.NoReplica, "no replica")
}
