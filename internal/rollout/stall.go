package rollout

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/text"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// stall detects that a rollout makes no progress.
type stall struct {
	group       *group
	fingerprint string
	since       time.Time // when the fingerprint has changed last
}

func newStall(g *group) *stall { return &stall{group: g, since: time.Now()} }

// check returns an error if nothing has changed for Config.StallTimeout: neither the refresh f, which may be
// nil, nor the state of an instance, nor the drain of a node. The error names what is waited for, if that is
// known.
func (s *stall) check(f *refresh.Refresh, waiting string) error {
	now, limit := time.Now(), s.group.cfg.StallTimeout
	if fingerprint := s.group.state.fingerprint(f); fingerprint != s.fingerprint {
		s.fingerprint, s.since = fingerprint, now
		return nil
	}
	if f != nil && f.Update == nil && !s.group.hours.open() {
		s.since = now // The refresh is paused.
		return nil
	}
	idle := expectedIdle(s.group.state.group, f)
	if limit == 0 || now.Sub(s.since) < limit+idle || f != nil && f.Status == refresh.StatusBaking {
		return nil
	}
	return &endError{report.Stalled, s.message(f, waiting)}
}

// message describes what has stalled, and the likely reasons.
func (s *stall) message(f *refresh.Refresh, waiting string) string {
	message := fmt.Sprintf("nothing has changed for %v", s.group.cfg.StallTimeout)
	if waiting != "" {
		message += ": " + waiting
	}
	if f != nil {
		message += fmt.Sprintf(": %s is %s at %d %%", f.Name(), f.Status, f.Percent)
		if f.Reason != "" {
			message += ": " + f.Reason
		}
	}
	if draining := s.group.state.draining(); len(draining) > 0 {
		message += "; still draining: " + text.First(draining, mostNames)
	}
	if halted := s.group.state.group.Halted(); len(halted) > 0 {
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
