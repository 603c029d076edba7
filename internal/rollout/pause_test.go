package rollout_test

import (
	"context"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/internal/autoscaler"
	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/pkg/refresh"
	"github.com/node-drainer/node-drainer/test/awsim"
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
	for _, mode := range []refresh.Mode{refresh.ModeRefresh, refresh.ModeUnhealthy, refresh.ModeStandby} {
		inWorld(t, string(mode), awsim.Group{}, func(w *world) {
			w.setMode(mode)
			scaler := &fakeScaler{autoscaler.State{Pause: &autoscaler.Pause{
				Replicas: 2, Owner: other, Expires: time.Now().Add(time.Minute),
			}}}
			w.cfg.Autoscaler = scaler
			w.after(10*time.Second, func() {
				for _, name := range []string{"i-1", "i-2", "i-3"} {
					w.health(name, "Unhealthy")
				}
			})
			w.play(scenario{want: report.Nothing})
			if scaler.state.Pause != nil || scaler.state.Replicas != 2 {
				w.Errorf("the Cluster Autoscaler is left as %+v", scaler.state)
			}
		})
	}
}
