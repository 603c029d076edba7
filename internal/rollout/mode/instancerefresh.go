package mode

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/rollout/loop"
	"github.com/node-drainer/node-drainer/internal/rollout/plan"
	"github.com/node-drainer/node-drainer/internal/text"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// instanceRefresh replaces instances by an Instance Refresh.
type instanceRefresh struct {
	operation
	ready   *readiness // nil before the refresh is followed
	points  checkpoints
	problem string // why this run has had the refresh ended; empty if it has not
}

// Step settles what is under way, or starts a refresh and follows it.
func (r *instanceRefresh) Step(ctx context.Context, phase refresh.Phase) (*loop.Wait, error) {
	if w, follows, err := r.begin(ctx, phase); !follows {
		return w, err
	}
	return r.replace(ctx)
}

// replace follows the refresh until it has ended.
func (r *instanceRefresh) replace(ctx context.Context) (*loop.Wait, error) {
	if !r.group.Config.Wait {
		return nil, loop.EndWith(report.Detached, "instance refresh "+r.id+" continues; trigger status shows its progress")
	}
	if r.ready == nil {
		r.ready, r.points = newReadiness(r.group), checkpoints{group: r.group, gates: r.gates, hours: r.hours}
	}
	f, w, err := r.hours.Follow(ctx, r.id)
	switch {
	case err != nil:
		return nil, err
	case w == nil:
		r.ended = true
		return nil, r.failureOf(f)
	case r.problem != "":
		return w, nil
	}
	if problem := r.ready.endsUnready(f); problem != "" {
		return w, r.endUnready(ctx, problem)
	}
	w.Expected, err = r.points.Pass(ctx, f)
	if err != nil && r.points.failed {
		return nil, loop.EndWith(report.Gated, err.Error()+"; "+r.stopAtGate(ctx))
	}
	return w, err
}

// failureOf is the error for a refresh that has ended without success, or that this run has ended because of a problem.
func (r *instanceRefresh) failureOf(f refresh.Refresh) error {
	err := failureOf(f)
	if r.problem == "" {
		return err
	}
	end := &loop.EndError{Outcome: report.Failed, Message: DescribeStatus(f)}
	errors.As(err, &end)
	return loop.EndWith(end.Outcome, r.problem+"; "+end.Message)
}

// endUnready cancels the refresh because of a problem, or rolls it back if that is requested.
func (r *instanceRefresh) endUnready(ctx context.Context, problem string) error {
	r.group.Progress.Note(refresh.Warn, "%s", problem)
	r.problem = problem
	if !r.stillActive(ctx) {
		return nil
	}
	ctx, cancel := loop.Uncancelled(ctx)
	defer cancel()
	_, _, err := EndActive(ctx, r.group, r.aws, r.group.Config.Preferences.AutoRollback)
	if err != nil && !errors.Is(err, refresh.ErrNoRefresh) {
		return loop.EndWith(report.Error,
			fmt.Sprintf("%s; instance refresh %s could not be cancelled: %v", problem, r.id, err))
	}
	return nil
}

// stopAtGate pauses the refresh, or ends it if that is what Config.OnInterrupt asks for, and describes the result.
func (r *instanceRefresh) stopAtGate(ctx context.Context) string {
	if r.group.Config.OnInterrupt == plan.Detach {
		return pauseAtGate(ctx, r.hours, r.id)
	}
	ctx, cancel := loop.Uncancelled(ctx)
	defer cancel()
	return r.Undo(ctx)
}

// failureOf is the error for a refresh that has ended without success, else nil.
func failureOf(f refresh.Refresh) error {
	switch f.Status {
	case refresh.StatusFailed, refresh.StatusRollbackFailed:
		return loop.EndWith(report.Failed, DescribeStatus(f)+"; fix the cause and run the same command again; "+
			"replaced instances are kept")
	case refresh.StatusCancelled:
		return loop.EndWith(report.Failed, DescribeStatus(f)+"; replaced instances are kept; run the same command "+
			"again to continue")
	case refresh.StatusRollbackSuccessful:
		return loop.EndWith(report.RolledBack, DescribeStatus(f)+"; the instances are as they were before")
	default:
		return nil
	}
}

// DescribeStatus is the refresh and its status, with the reasons that AWS gives.
func DescribeStatus(f refresh.Refresh) string {
	what := fmt.Sprintf("%s is %s", f.Name(), f.Status)
	reasons := []string{what, f.Reason, f.RollbackReason}
	reasons = slices.DeleteFunc(reasons, func(s string) bool { return s == "" })
	return strings.Join(reasons, ": ")
}

// Undo cancels the refresh or rolls it back.
func (r *instanceRefresh) Undo(ctx context.Context) string {
	if r.id == "" || r.ended || !r.stillActive(ctx) {
		return r.Remains()
	}
	rollback := r.group.Config.OnInterrupt == plan.Rollback
	_, cancelled, err := EndActive(ctx, r.group, r.aws, rollback)
	done, next := "cancelled", "; replacements that have begun continue, with their drains"
	switch {
	case !cancelled:
		done, next = "rolled back", "; trigger status shows its progress"
	case rollback:
		next = ": it had not begun, so that nothing was replaced"
	}
	switch {
	case err == nil:
		return fmt.Sprintf("instance refresh %s is %s%s", r.id, done, next)
	case errors.Is(err, refresh.ErrNoRefresh):
		return "instance refresh " + r.id + " had ended already, or is being stopped"
	default:
		return fmt.Sprintf("instance refresh %s could not be %s and continues: %v", r.id, done, err)
	}
}

// EndActive has the active refresh of the group rolled back or cancelled, and returns its id and which of the two.
func EndActive(
	ctx context.Context, g *loop.Group, aws refreshWriter, rollback bool,
) (id string, cancelled bool, err error) {
	if rollback {
		return rollBack(ctx, g, aws)
	}
	id, err = aws.Cancel(ctx, g.Name, true)
	return id, true, err
}

// rollBack has the active refresh of the group rolled back, and returns its id. AWS rolls back none that is Pending, as
// each is for some seconds, and answers as if there were none: rollBack cancels it.
func rollBack(ctx context.Context, g *loop.Group, aws refreshWriter) (id string, cancelled bool, err error) {
	for range 2 { // A refresh may begin between the two calls.
		if id, err = aws.Rollback(ctx, g.Name); !errors.Is(err, refresh.ErrNoRefresh) {
			return id, false, err
		}
		active, failed := g.Planner.ActiveRefresh(ctx, g.Name)
		switch {
		case failed != nil:
			return "", false, failed
		case active == nil:
			return "", false, err
		case active.Status == refresh.StatusPending:
			id, err = aws.Cancel(ctx, g.Name, true)
			return id, true, err
		}
	}
	return "", false, err
}

// Remains describes the refresh.
func (r *instanceRefresh) Remains() string {
	switch leaving := len(r.group.State.Leaving()); {
	case r.id == "":
		return "no instance refresh was started"
	case !r.ended:
		return fmt.Sprintf("instance refresh %s continues; run the same command again to follow it, or stop it "+
			"with trigger cancel --asg %s", r.id, text.ShellWord(r.group.Name))
	case leaving > 0:
		return fmt.Sprintf("instance refresh %s has ended; %s still terminating; run the same "+
			"command again to follow that", r.id, text.Plural(leaving, "old instance is", "old instances are"))
	default:
		return "instance refresh " + r.id + " has ended"
	}
}
