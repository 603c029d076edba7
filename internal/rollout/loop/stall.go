package loop

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/rollout/plan"
	"github.com/node-drainer/node-drainer/internal/text"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// stall detects that a rollout makes no progress.
type stall struct {
	group       *Group
	fingerprint string
	since       time.Time // when the fingerprint has changed last
}

func newStall(g *Group) *stall { return &stall{group: g, since: time.Now()} }

// check returns an error if nothing has changed for Config.StallTimeout: neither the refresh that is followed, nor the
// state of an instance, nor the drain of a node. The error names what is waited for, if that is known.
func (s *stall) check(w *Wait) error {
	now, limit, f := time.Now(), s.group.Config.StallTimeout, w.Status
	if fingerprint := s.group.State.Fingerprint(f); fingerprint != s.fingerprint || w.Expected {
		s.fingerprint, s.since = fingerprint, now
		return nil
	}
	if f != nil && f.Update == nil && !s.group.IsOpen() {
		s.since = now // The refresh is paused.
		return nil
	}
	idle := expectedIdle(s.group.State.Group, f)
	if limit == 0 || now.Sub(s.since) < limit+idle || f != nil && f.Status == refresh.StatusBaking {
		return nil
	}
	return EndWith(report.Stalled, s.message(f, w.Why))
}

// message describes what has stalled, and the likely reasons.
func (s *stall) message(f *refresh.Refresh, waiting string) string {
	message := fmt.Sprintf("nothing has changed for %v", s.group.Config.StallTimeout)
	if waiting != "" {
		message += ": " + waiting
	}
	if f != nil {
		message += fmt.Sprintf(": %s is %s at %d %%", f.Name(), f.Status, f.Percent)
		if f.Reason != "" {
			message += ": " + f.Reason
		}
	}
	if draining := s.group.State.draining(); len(draining) > 0 {
		message += "; still draining: " + text.First(draining, plan.MostNames)
	}
	if halted := s.group.State.Group.Halted(); len(halted) > 0 {
		message += "; suspended: " + strings.Join(halted, ", ") + ", so that nothing is replaced: resume it with " +
			"trigger resume, or with aws autoscaling resume-processes"
	}
	return message
}

// defaultCheckpointDelay is how long AWS waits at a checkpoint by default. Source: CheckpointDelay of
// RefreshPreferences in the API reference.
const defaultCheckpointDelay = time.Hour

// expectedIdle is how long a refresh may show no change although it is well: new instances warm up, and it
// waits at checkpoints.
func expectedIdle(g refresh.Group, f *refresh.Refresh) time.Duration {
	if f == nil {
		return 0
	}
	idle := *cmp.Or(f.Preferences.Warmup, &g.Warmup)
	if delay := defaultCheckpointDelay; len(f.Preferences.Checkpoints) > 0 {
		idle += *cmp.Or(f.Preferences.CheckpointDelay, &delay)
	}
	return idle
}
