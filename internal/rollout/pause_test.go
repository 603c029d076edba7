package rollout

import (
	"context"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/internal/autoscaler"
	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// fakeScaler is a Cluster Autoscaler.
type fakeScaler struct{ state autoscaler.State }

func (*fakeScaler) String() string { return "kube-system/cluster-autoscaler" }

func (s *fakeScaler) State(context.Context) (autoscaler.State, error) { return s.state, nil }

func (s *fakeScaler) Pause(_ context.Context, owner string, expires time.Time, _ *autoscaler.Pause) error {
	s.state = autoscaler.State{Pause: &autoscaler.Pause{Replicas: 2, Owner: owner, Expires: expires}}
	return nil
}

func (*fakeScaler) Renew(context.Context, string, time.Time) error { return nil }

func (s *fakeScaler) Resume(context.Context, autoscaler.Pause) (bool, error) {
	s.state = autoscaler.State{Replicas: 2}
	return true, nil
}

// TestPauseOfAnother: while a trigger waits for the pause of another one, which was killed, what that has started may
// replace all that is outdated. Nothing is replaced a second time.
func TestPauseOfAnother(t *testing.T) {
	t.Parallel()
	for _, mode := range []refresh.Mode{
		refresh.ModeRefresh, refresh.ModeUnhealthy, refresh.ModeStandby,
	} {
		runInBubble(t, string(mode), func(t *testing.T) {
			a, cfg := newFakeAWS(3), unhealthyDefaults()
			other := autoscaler.Pause{Replicas: 2, Owner: "ci-2/7", Expires: time.Now().Add(time.Minute)}
			scaler := &fakeScaler{autoscaler.State{Pause: &other}}
			cfg.Mode, cfg.Autoscaler = mode, scaler
			time.AfterFunc(time.Minute, func() {
				a.mu.Lock()
				defer a.mu.Unlock()
				a.replaceAll("2")
			})
			expect(t, runGroup(t.Context(), t, cfg, a, &fakeCluster{}), report.Nothing)
			a.expectCalls(t, "")
			if scaler.state.Pause != nil || scaler.state.Replicas != 2 {
				t.Errorf("the Cluster Autoscaler is left as %+v", scaler.state)
			}
		})
	}
}
