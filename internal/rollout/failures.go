package rollout

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/rollout/loop"
	"github.com/node-drainer/node-drainer/internal/text"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// failedWriter keeps in a tag of a group to which target a rollout failed.
type failedWriter interface {
	WriteFailed(ctx context.Context, group string, f refresh.Failed) error
	RemoveFailed(ctx context.Context, group string) error
}

// failures are the targets to which rollouts ended badly. They are kept in tags of their groups, so that no other
// process tries them again either.
type failures struct {
	aws failedWriter

	mu      sync.Mutex
	unsaved map[string]refresh.Failed // those that could not be written into the tags yet
}

// of returns the failure of the group that is not forgotten yet.
func (f *failures) of(g refresh.Group) (refresh.Failed, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if unsaved, is := f.unsaved[g.Name]; is {
		return unsaved, true
	}
	return refresh.FailedOf(g)
}

// record keeps the target of a rollout that ended badly, and forgets the failure of the group when one succeeded. Nil
// failures do neither.
func (f *failures) record(ctx context.Context, g *loop.Group, end loop.Ending) loop.Ending {
	if f == nil || g.State.Deleted {
		return end
	}
	switch {
	case endedBadly(g.State, end.Outcome):
		f.mu.Lock()
		f.unsaved[g.Name] = refresh.Failed{
			Target: g.State.Target.Key, Outcome: string(end.Outcome), At: time.Now(),
		}
		f.mu.Unlock()
		end.Message += "; trigger watch does not try this again until the target changes, or somebody runs trigger " +
			"resume --asg " + text.ShellWord(g.Name)
		if err := f.save(ctx); err != nil {
			g.Progress.Note(refresh.Warn, "what failed could not be written into the tag %s, retrying: %v",
				refresh.FailedTag, err)
		}
	case end.Outcome == report.Done:
		if err := f.forget(ctx, g.State.Group); err != nil {
			g.Progress.Note(refresh.Warn, "what failed before could not be removed: %v", err)
		}
	}
	return end
}

// endedBadly reports whether another rollout to the same target would most likely end in the same way. One that left
// outdated instances which it should have replaced would begin again at once.
func endedBadly(s *loop.State, outcome report.Outcome) bool {
	if outcome == report.Incomplete {
		a := s.Assess()
		return a.Target.Key == s.Target.Key && a.Due()
	}
	return slices.Contains([]report.Outcome{report.Failed, report.RolledBack, report.Stalled, report.Ineffective}, outcome)
}

// save writes what could not be written before.
func (f *failures) save(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	ctx, cancel := loop.Uncancelled(ctx)
	defer cancel()
	for group, failed := range f.unsaved {
		if err := f.aws.WriteFailed(ctx, group, failed); err != nil {
			return err
		}
		delete(f.unsaved, group)
	}
	return nil
}

// holds reports whether a rollout of the group to the target has failed.
func (f *failures) holds(g refresh.Group, target string) bool {
	failed, is := f.of(g)
	return is && failed.Target == target
}

// forget forgets the failure of the group, if it has one.
func (f *failures) forget(ctx context.Context, g refresh.Group) error {
	f.mu.Lock()
	delete(f.unsaved, g.Name)
	f.mu.Unlock()
	if _, saved := refresh.FailedOf(g); !saved {
		return nil
	}
	ctx, cancel := loop.Uncancelled(ctx)
	defer cancel()
	return f.aws.RemoveFailed(ctx, g.Name)
}

// reached forgets that a target failed which the group has reached since: somebody else has replaced its instances.
func (f *failures) reached(ctx context.Context, g refresh.Group, target string) error {
	if !f.holds(g, target) {
		return nil
	}
	return f.forget(ctx, g)
}
