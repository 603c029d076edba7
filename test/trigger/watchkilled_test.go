package trigger

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/node-drainer/node-drainer/internal/observe"
	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/rollout"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// watch looks at the group for so long, unless it is killed before, after so many changes.
func (s *scaled) watch(name string, last int, lasts time.Duration) {
	ctx, cancel := context.WithTimeout(s.Context(), lasts)
	defer cancel()
	p := &process{scaled: s, name: name, last: last, cancel: cancel}
	cfg, writer, view := s.settings(p)
	cfg.Interval = 5 * time.Minute
	err := rollout.NewWatcher(cfg, readerOf(p.config()), writer, view, rollout.WatchEnvironment{
		NewReporter: func() report.Reporter { return report.New(report.Options{Out: io.Discard}) },
		Observer:    observe.NewWatch(prometheus.NewRegistry(), cfg.Interval, nil, func(string, string, bool) {}),
	}).Run(ctx)
	if err != nil {
		s.Error(err)
	}
}

// TestKilledWatchBesideAnAutoscaler: of all that a watch holds, nothing is left when the next one has run, whichever of
// its changes was the last before it was killed: suspended processes, the surge, the maximum size, the pause of an
// autoscaler, protected instances, and taints.
func TestKilledWatchBesideAnAutoscaler(t *testing.T) {
	t.Parallel()
	for mode, changes := range map[refresh.Mode]int{
		refresh.ModeUnhealthy: 55, refresh.ModeRefresh: 35, refresh.ModeStandby: 55,
	} {
		for _, n := range sample(changes) {
			besideAutoscaler(t, mode, uint64(n), func(s *scaled) {
				s.watch("ci-1/1", n+1, 40*time.Minute)
				s.watch("ci-1/2", 0, time.Hour)
				s.expectNew()
				s.expectUntouchedNodes(true)
			})
		}
	}
}
