package rollout

import (
	"fmt"
	"strings"
	"time"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/text"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// stall notices that nothing moves any more.
type stall struct {
	rollout *rollout
	limit   time.Duration
	seen    string
	since   time.Time
}

func (r *rollout) newStall() *stall {
	return &stall{rollout: r, limit: r.cfg.StallTimeout, since: time.Now()}
}

// judge ends a rollout of which nothing has changed for the limit: neither the refresh, nor the state of an
// instance, nor what is left on a node. What is waited for is told, if it is known.
func (s *stall) judge(g refresh.Group, f *refresh.Refresh, waiting string) ending {
	now := time.Now()
	if seen := s.rollout.fingerprint(g, f); seen != s.seen {
		s.seen, s.since = seen, now
		return ending{}
	}
	if s.limit == 0 || now.Sub(s.since) < s.limit+rests(g, f) || f != nil && f.Status == refresh.StatusBaking {
		return ending{}
	}
	return ending{report.Stalled, s.message(g, f, waiting)}
}

// message says what stands still, and what that may be for.
func (s *stall) message(g refresh.Group, f *refresh.Refresh, waiting string) string {
	message := fmt.Sprintf("nothing has moved for %v", s.limit)
	if waiting != "" {
		message += ": " + waiting
	}
	if f != nil {
		message += fmt.Sprintf(": instance refresh %s is %s at %d %%", f.ID, f.Status, f.Percent)
		if f.Reason != "" {
			message += ": " + f.Reason
		}
	}
	if held := s.rollout.held(); len(held) > 0 {
		message += "; held up: " + text.First(held, mostNames)
	}
	if halted := g.Halted(); len(halted) > 0 {
		message += "; suspended: " + strings.Join(halted, ", ") + ", without which nothing is replaced: resume " +
			"it, by trigger resume or aws autoscaling resume-processes"
	}
	return message
}

// usualCheckpointDelay is how long AWS waits at a checkpoint if nobody says. Source: CheckpointDelay of
// RefreshPreferences in the API reference.
const usualCheckpointDelay = time.Hour

// rests is how long a refresh waits by itself, with nothing that moves: for instances to warm up, and at a
// checkpoint.
func rests(g refresh.Group, f *refresh.Refresh) time.Duration {
	if f == nil {
		return 0
	}
	rest := g.Warmup
	if w := f.Preferences.Warmup; w != nil {
		rest = *w
	}
	if len(f.Preferences.Checkpoints) == 0 {
		return rest
	}
	if d := f.Preferences.CheckpointDelay; d != nil {
		return rest + *d
	}
	return rest + usualCheckpointDelay
}

// fingerprint is all that moves in a rollout. In ModeUnhealthy, where nobody else gives up, new instances
// that come and go again do not count until they serve: else launches that fail again and again would never
// stall.
func (r *rollout) fingerprint(g refresh.Group, f *refresh.Refresh) string {
	var b strings.Builder
	if f != nil {
		fmt.Fprint(&b, f.ID, f.Status, f.Percent, f.ToUpdate, " ")
	}
	for _, i := range g.Instances {
		if r.cfg.Mode == refresh.ModeUnhealthy && !r.old[i.ID] && !i.InService() {
			continue
		}
		fmt.Fprint(&b, i.ID, i.State, i.Healthy)
		if node := r.node(i.ID); node != nil {
			fmt.Fprint(&b, node.Ready)
			if node.Drain != nil {
				fmt.Fprint(&b, node.Drain.Message)
			}
		}
	}
	return b.String()
}

// held are the old instances that are going, with what their nodes wait for.
func (r *rollout) held() []string {
	var held []string
	for _, id := range r.leaving() {
		if node := r.node(id); node != nil && node.Drain != nil {
			id = fmt.Sprintf("%s (node %s: %s)", id, node.Name, node.Drain.Message)
		}
		held = append(held, id)
	}
	return held
}
