package agent_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/internal/autoscaler"
)

// pausedAutoscaler is a Deployment that a trigger has paused.
type pausedAutoscaler struct {
	pause *autoscaler.Pause
	err   error
	calls int
}

func (p *pausedAutoscaler) String() string { return "kube-system/autoscaler" }

func (p *pausedAutoscaler) ResumeExpired(context.Context) (*autoscaler.Pause, error) {
	p.calls++
	return p.pause, p.err
}

// TestResumeAutoscaler: a resync resumes an autoscaler whose trigger was killed. A failure does not fail the resync, and
// a dry run makes no call.
func TestResumeAutoscaler(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		paused pausedAutoscaler
		dry    bool
		want   []string
		calls  int
	}{
		{
			"paused by a trigger that was killed",
			pausedAutoscaler{pause: &autoscaler.Pause{Replicas: 2, Owner: "ci-1/42"}},
			false,
			[]string{"resynced: found 0, lost 0", "kube-system/autoscaler resumed with 2 replicas after ci-1/42"},
			1,
		},
		{"not paused", pausedAutoscaler{}, false, []string{"resynced: found 0, lost 0"}, 1},
		{
			"the API server fails",
			pausedAutoscaler{err: errOutage},
			false,
			[]string{"resynced: found 0, lost 0", "resuming kube-system/autoscaler failed: no answer"},
			1,
		},
		{"in a dry run", pausedAutoscaler{}, true, []string{"resynced: found 0, lost 0"}, 0},
	} {
		given := func(f *fixture) { f.cfg.Autoscaler, f.cfg.DryRun = &tt.paused, tt.dry }
		each(t, tt.name, given, func(t *testing.T, f *fixture) {
			resync(t, f.agent(), time.Minute)
			if !slices.Equal(f.facts, tt.want) || tt.paused.calls != tt.calls {
				t.Errorf("facts %q, calls %d", f.facts, tt.paused.calls)
			}
		})
	}
}

func (f observer) AutoscalerResumed(deployment, owner string, replicas int) {
	f.fact("%s resumed with %d replicas after %s", deployment, replicas, owner)
}

func (f observer) AutoscalerFailed(deployment string, err error) {
	f.fact("resuming %s failed: %v", deployment, err)
}
