//go:build e2e

package redis_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/pkg/handover"
	"github.com/node-drainer/node-drainer/test/redisserver"
)

// TestFailBack expects that a preferred member leads again when it is back.
func TestFailBack(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func() (*redisserver.Group, error){
		"plain":   func() (*redisserver.Group, error) { return redisserver.NewReplication(t.Context(), 3) },
		"cluster": func() (*redisserver.Group, error) { return redisserver.NewCluster(t.Context(), 3) },
		"sentinel": func() (*redisserver.Group, error) {
			group, err := redisserver.NewSentinel(t.Context(), 3)
			return group, errors.Join(err, leaveToFirst(t.Context(), group))
		},
	} {
		t.Run(name, func(t *testing.T) {
			group, err := start()
			f := newFixture(t, group, err)
			preferred := f.Servers[0]
			preferred.Prefer = true
			if answer := f.release(preferred); answer.Outcome != handover.HandedOver {
				t.Fatalf("got %+v", answer)
			}
			f.check(preferred.Move(f.ctx, f.NewIP()))
			var leader string
			for deadline := time.Now().Add(longest); time.Now().Before(deadline); time.Sleep(pause) {
				answer, err := f.releaser.Reconcile(f.ctx, f.Request(f.Servers[2]))
				f.check(err)
				t.Logf("%+v", answer)
				if leader += answer.Leader; answer.Go && leader != "" {
					break
				}
			}
			if leader != preferred.Name {
				t.Errorf("got the leader %q, want %s", leader, preferred.Name)
			}
			f.check(preferred.WaitRole(f.ctx, "master"))
		})
	}
}

// leaveToFirst has Sentinel prefer the first server: the lowest priority leads.
func leaveToFirst(ctx context.Context, g *redisserver.Group) error {
	for _, s := range g.Servers[1:] {
		if _, err := s.Do(ctx, "CONFIG", "SET", "replica-priority", "200"); err != nil {
			return err
		}
	}
	return nil
}

const pause = 300 * time.Millisecond

func TestReplicationHandsOver(t *testing.T) {
	t.Parallel()
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
		f.stop("sticky", w, redisserver.MaxGap)
	}
}
