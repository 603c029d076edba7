package hold

import (
	"context"
	"slices"
	"time"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/rollout/loop"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// Hours keeps the rollout of a group to Config.Windows: while they are closed, nothing begins, and its refresh is
// paused. It pauses by suspending a process, as Config.Suspend does, so that the same tag says so.
type Hours struct {
	Group *loop.Group
	AWS   ProcessWriter
}

// Paused reports whether the refreshes of the group are paused because the windows are closed.
func (h Hours) Paused() bool {
	return slices.Contains(refresh.SuspendedBy(h.Group.State.Group), refresh.ProcessInstanceRefresh)
}

// Await waits until the windows are open. If nothing was changed yet, it returns an error instead.
func (h Hours) Await(changed bool) (*loop.Wait, error) {
	if h.Group.IsOpen() {
		return nil, nil
	}
	closed := h.Group.Config.Windows.Describe(time.Now())
	if !changed {
		return nil, loop.EndWith(report.Skipped, "not started: "+closed)
	}
	return &loop.Wait{Why: "waiting: " + closed, Level: refresh.OK, Expected: true}, nil
}

// Follow reads a refresh of the group, shows it, and keeps it to the windows. It waits while the refresh is active.
func (h Hours) Follow(ctx context.Context, id string) (refresh.Refresh, *loop.Wait, error) {
	f, err := h.Group.ReadRefresh(ctx, id)
	if err == nil {
		err = h.keep(ctx, f)
	}
	if err != nil || !f.Active() {
		return f, nil, err
	}
	return f, &loop.Wait{Status: &f}, nil
}

// keep pauses the refresh when the windows close, and resumes it when they open. It leaves those alone that began while
// the windows were closed, or that another trigger follows.
func (h Hours) keep(ctx context.Context, f refresh.Refresh) error {
	now, g := time.Now(), h.Group.State.Group
	_, held := refresh.HeldByOther(g, h.Group.Config.Holder, now)
	switch {
	case held, len(h.Group.Config.Windows) == 0:
		return nil
	case h.Group.Config.Mode == refresh.ModeNodegroup: // EKS does not pause an update.
		return nil
	case h.Group.IsOpen():
		return h.Resume(ctx)
	}
	replaces := f.Status == refresh.StatusPending || f.Status == refresh.StatusInProgress
	if h.Paused() || !replaces || !BeganInside(h.Group.Config.Windows, f) {
		return nil
	}
	ctx, cancel := loop.Uncancelled(ctx)
	defer cancel()
	paused, err := h.AWS.Suspend(ctx, g, []string{refresh.ProcessInstanceRefresh})
	if err == nil && len(paused) > 0 {
		h.Group.Progress.Note(refresh.OK, "instance refresh %s is paused: %s", f.ID, h.Group.Config.Windows.Describe(now))
	}
	return err
}

// Resume resumes the refresh if it is paused and the windows are open.
func (h Hours) Resume(ctx context.Context) error {
	if !h.Paused() || len(h.Group.Config.Windows) == 0 || !h.Group.IsOpen() {
		return nil
	}
	return h.Release(ctx, h.Group.Config.Windows.Describe(time.Now()))
}

// Release resumes the refreshes of the group.
func (h Hours) Release(ctx context.Context, why string) error {
	ctx, cancel := loop.Uncancelled(ctx)
	defer cancel()
	_, err := h.AWS.Release(ctx, h.Group.State.Group, refresh.ProcessInstanceRefresh)
	if err != nil {
		return err
	}
	h.Group.Progress.Note(refresh.OK, "instance refreshes are resumed: %s", why)
	return h.Group.Describe(ctx)
}

// BeganInside reports whether the refresh began while the windows were open. The clock of AWS may differ, and a refresh
// that is Pending has no time yet.
func BeganInside(w refresh.Windows, f refresh.Refresh) bool {
	return f.Started.IsZero() || w.Open(f.Started) || w.Open(f.Started.Add(-refresh.ClockSkew)) ||
		w.Open(f.Started.Add(refresh.ClockSkew))
}
