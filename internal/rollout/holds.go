package rollout

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// hold is something of a group that a rollout changes, and gives back at its end. A tag of the group says so from
// before the change until after it was given back, so that a later run, or trigger resume, can do that if this run is
// killed. Its owner is the holder of the lease.
type hold interface {
	// take changes what the configuration asks for, and returns what was done, or empty if nothing was.
	take(ctx context.Context) (done string, err error)
	// giveBack restores what any run has changed, and returns what was done, and what is left for which reason.
	giveBack(ctx context.Context) (done, left string, err error)
}

// holds are the holds of a group, besides the surge and the taints, which are parts of replacing instances.
type holds struct {
	group *group
	all   []hold
}

func newHolds(g *group, aws Writer) *holds {
	return &holds{g, []hold{suspension{g, aws}, maxSize{g, aws}, protection{g, aws}}}
}

// take takes the holds, if anything is to be replaced. The rollout continues if that fails.
func (h *holds) take(ctx context.Context) {
	if !h.group.state.isDue() {
		return
	}
	ctx, cancel := uncancelled(ctx)
	defer cancel()
	for _, one := range h.all {
		switch done, err := one.take(ctx); {
		case err != nil:
			h.group.progress.note(refresh.Warn, "the rollout continues without it: %v", err)
		case done != "":
			h.group.progress.note(refresh.OK, "%s", done)
		}
	}
}

// heldOf is what holds give back of the group.
func heldOf(g refresh.Group) []string {
	given := []refresh.HoldKind{refresh.HoldProcesses, refresh.HoldMax, refresh.HoldProtection}
	var all []string
	for _, one := range refresh.HoldsOf(g) {
		if slices.Contains(given, one.Kind) {
			all = append(all, one.Text)
		}
	}
	return all
}

// release gives back what this run holds, or one that was killed. It is kept where a refresh continues without the
// trigger, and the ending says so.
func (h *holds) release(ctx context.Context, end ending) ending {
	cfg := h.group.cfg
	if len(cfg.Suspend)+len(cfg.Exclude)+len(heldOf(h.group.state.group)) == 0 && !cfg.RaiseMax || h.group.state.deleted {
		return end
	}
	ctx, cancel := uncancelled(ctx)
	defer cancel()
	g, err := h.group.read(ctx)
	if err != nil {
		h.warn(err)
		return end
	}
	ours := heldOf(g)
	if _, other := refresh.HeldByOther(g, cfg.Holder, time.Now()); other || len(ours) == 0 {
		return end
	}
	switch continues, err := h.refreshContinues(ctx, end); {
	case err != nil:
		h.warn(err)
	case continues:
		end.message += fmt.Sprintf("; still %s; the next run gives that back, or trigger resume --asg %s",
			strings.Join(ours, ", and "), g.Name)
	default:
		return h.giveBack(ctx, end)
	}
	return end
}

// refreshContinues reports whether AWS continues to replace instances of the group. A refresh that was just
// started may not be listed yet. In the other modes nothing continues without the trigger.
func (h *holds) refreshContinues(ctx context.Context, end ending) (bool, error) {
	switch {
	case h.group.cfg.Mode.InBatches():
		return false, nil
	case end.outcome == report.Detached:
		return true, nil
	}
	active, err := h.group.planner.activeRefresh(ctx, h.group.name)
	return active != nil && active.Status != refresh.StatusCancelling, err
}

// giveBack gives back what any run of the trigger holds, and adds to the ending what is left.
func (h *holds) giveBack(ctx context.Context, end ending) ending {
	ctx, cancel := uncancelled(ctx)
	defer cancel()
	for _, one := range slices.Backward(h.all) {
		var done, left string
		err := untilGivenBack(ctx, func() (err error) {
			done, left, err = one.giveBack(ctx)
			return err
		})
		switch {
		case err != nil:
			h.warn(err)
			end = end.leaves()
		case done != "":
			h.group.progress.note(refresh.OK, "%s", done)
		case left != "":
			end.message += fmt.Sprintf("; %s; trigger resume --asg %s gives that back later", left, h.group.name)
		}
	}
	return end
}

func (h *holds) warn(err error) {
	h.group.progress.note(refresh.Warn, "what the rollout has changed for its time may be left, run trigger resume: %v",
		err)
}

// processWriter suspends processes of a group, and tags the group with them. Release resumes those of the
// tag, or only some of them.
type processWriter interface {
	Suspend(ctx context.Context, g refresh.Group, processes []string) (suspended []string, err error)
	Release(ctx context.Context, g refresh.Group, only ...string) (resumed []string, err error)
}

// suspension suspends the processes of Config.Suspend.
type suspension struct {
	group *group
	aws   processWriter
}

func (s suspension) take(ctx context.Context) (done string, err error) {
	if len(s.group.cfg.Suspend) == 0 {
		return "", nil
	}
	suspended, err := s.aws.Suspend(ctx, s.group.state.group, s.group.cfg.Suspend)
	return list("suspended for the rollout: ", suspended), err
}

func (s suspension) giveBack(ctx context.Context) (done, left string, err error) {
	g, err := s.group.read(ctx)
	if err != nil {
		return "", "", err
	}
	resumed, err := s.aws.Release(ctx, g)
	return list("resumed: ", resumed), "", err
}

// list is the text with the names, or empty if there are none.
func list(text string, names []string) string {
	if len(names) == 0 {
		return ""
	}
	return text + strings.Join(names, ", ")
}

// maxWriter raises the maximum size of a group, and tags the group with the one before. RestoreMax restores it, where
// refresh.RaisedMax allows that.
type maxWriter interface {
	RaiseMax(ctx context.Context, g refresh.Group, to int) (refresh.RaisedMax, error)
	RestoreMax(ctx context.Context, g refresh.Group) (restored bool, err error)
}

// maxSize raises the maximum size of the group, with Config.RaiseMax.
type maxSize struct {
	group *group
	aws   maxWriter
}

// take raises the maximum for what Auto Scaling launches by itself. For a surge the capacity is raised later, and the
// maximum just before that, so that no autoscaler uses it.
func (m maxSize) take(ctx context.Context) (done string, err error) {
	s := m.group.state
	f := s.facts()
	if f.Surge > 0 {
		return "", nil
	}
	return m.raise(ctx, f.MostInstances(s.group))
}

// raise raises the maximum if it is smaller, and Config.RaiseMax is set.
func (m maxSize) raise(ctx context.Context, to int) (done string, err error) {
	g := &m.group.state.group
	if !m.group.cfg.RaiseMax || to <= g.Max {
		return "", nil
	}
	raised, err := m.aws.RaiseMax(ctx, *g, to)
	if err != nil {
		return "", err
	}
	before := g.Max
	g.Max = to
	g.Tags = withTag(g.Tags, refresh.MaxTag, raised.String())
	return fmt.Sprintf("maximum size raised from %d to %d", before, to), nil
}

// giveBack describes the group just before, since an autoscaler may have raised the desired capacity.
func (m maxSize) giveBack(ctx context.Context) (done, left string, err error) {
	g, err := m.group.read(ctx)
	if err != nil {
		return "", "", err
	}
	raised, _ := refresh.RaisedMaxOf(g)
	restored, err := m.aws.RestoreMax(ctx, g)
	switch {
	case err != nil:
		return "", "", err
	case restored:
		return fmt.Sprintf("maximum size restored from %d to %d", g.Max, raised.From), "", nil
	}
	return "", raised.Kept(g), nil
}
