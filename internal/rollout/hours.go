package rollout

import (
	"context"
	"slices"
	"time"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// hours keeps the rollout of a group to Config.Windows: while they are closed, nothing begins, and its refresh is
// paused. It pauses by suspending a process, as Config.Suspend does, so that the same tag says so.
type hours struct {
	group *group
	aws   processWriter
}

func (h hours) open() bool { return h.group.cfg.Windows.Open(time.Now()) }

// paused reports whether the refreshes of the group are paused because the windows are closed.
func (h hours) paused() bool {
	return slices.Contains(refresh.SuspendedBy(h.group.state.group), refresh.ProcessInstanceRefresh)
}

// await returns when the windows are open. If nothing was changed yet, it returns an error instead of waiting.
func (h hours) await(ctx context.Context, changed bool) error {
	if !h.open() && !changed {
		return &endError{report.Skipped, "not started: " + h.group.cfg.Windows.Describe(time.Now())}
	}
	for noted := false; !h.open(); noted = true {
		if !noted {
			h.group.progress.note(refresh.OK, "waiting: %s", h.group.cfg.Windows.Describe(time.Now()))
		}
		if err := h.group.describeAgain(ctx, 0); err != nil {
			return err
		}
	}
	return nil
}

// keep pauses the refresh when the windows close, and resumes it when they open. It leaves those alone that began while
// the windows were closed, or that another trigger follows.
func (h hours) keep(ctx context.Context, f refresh.Refresh) error {
	now, g := time.Now(), h.group.state.group
	_, held := refresh.HeldByOther(g, h.group.cfg.Holder, now)
	switch {
	case held, len(h.group.cfg.Windows) == 0, h.group.cfg.Mode == refresh.ModeNodegroup: // EKS does not pause an update.
		return nil
	case h.open():
		return h.resume(ctx)
	}
	replaces := f.Status == refresh.StatusPending || f.Status == refresh.StatusInProgress
	if h.paused() || !replaces || !beganInside(h.group.cfg.Windows, f) {
		return nil
	}
	ctx, cancel := uncancelled(ctx)
	defer cancel()
	paused, err := h.aws.Suspend(ctx, g, []string{refresh.ProcessInstanceRefresh})
	if err == nil && len(paused) > 0 {
		h.group.progress.note(refresh.OK, "instance refresh %s is paused: %s", f.ID, h.group.cfg.Windows.Describe(now))
	}
	return err
}

// resume resumes the refresh if it is paused and the windows are open.
func (h hours) resume(ctx context.Context) error {
	if !h.paused() || len(h.group.cfg.Windows) == 0 || !h.open() {
		return nil
	}
	return h.release(ctx, h.group.cfg.Windows.Describe(time.Now()))
}

// release resumes the refreshes of the group.
func (h hours) release(ctx context.Context, why string) error {
	ctx, cancel := uncancelled(ctx)
	defer cancel()
	_, err := h.aws.Release(ctx, h.group.state.group, refresh.ProcessInstanceRefresh)
	if err != nil {
		return err
	}
	h.group.progress.note(refresh.OK, "instance refreshes are resumed: %s", why)
	return h.group.describe(ctx)
}

// beganInside reports whether the refresh began while the windows were open. The clock of AWS may differ, and a refresh
// that is Pending has no time yet.
func beganInside(w refresh.Windows, f refresh.Refresh) bool {
	return f.Started.IsZero() || w.Open(f.Started) || w.Open(f.Started.Add(-refresh.ClockSkew)) ||
		w.Open(f.Started.Add(refresh.ClockSkew))
}
