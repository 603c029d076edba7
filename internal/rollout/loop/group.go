package loop

import (
	"context"
	"strings"
	"time"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/rollout/plan"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// Records are the tags of a group that record what the trigger has changed.
type Records interface {
	// WithRemoved returns the group with those of them that another client has removed, and their keys.
	WithRemoved(g refresh.Group) (whole refresh.Group, keys []string)
	// WriteAgain writes the tags of these keys.
	WriteAgain(ctx context.Context, g refresh.Group, keys []string) error
}

// Group reads one group from AWS during a rollout, and shows how far it is.
type Group struct {
	Name      string
	Config    plan.Config
	Planner   *plan.Planner
	State     *State
	Progress  GroupProgress
	Records   Records
	described []func(context.Context, refresh.Group) // are called when the group was described
	removed   []string                               // The keys of the records that it lacked when it was described last.
	restored  bool                                   // The user was told about such ones.
	stale     bool                                   // The nodes were stale when the group was described last.
}

// Describe reads the group again, with one call, and another for its warm pool.
func (g *Group) Describe(ctx context.Context) error {
	now, removed, err := g.read(ctx)
	if err == nil {
		err = g.Planner.AddPool(ctx, &now)
	}
	if err == nil {
		g.removed = removed
		g.State.described(now, time.Now())
		g.warnOfStaleNodes()
		for _, do := range g.described {
			do(ctx, now)
		}
	}
	return err
}

// Read reads the group, with the tags by which this run records what it has changed, also if another client has removed
// them.
func (g *Group) Read(ctx context.Context) (refresh.Group, error) {
	now, _, err := g.read(ctx)
	return now, err
}

func (g *Group) read(ctx context.Context) (now refresh.Group, removed []string, err error) {
	now, err = g.Planner.Reader.Group(ctx, g.Name)
	if err == nil {
		now, removed = g.Records.WithRemoved(now)
	}
	return now, removed, err
}

// writeRecords writes again what another client has removed of the tags by which this run records what it has changed:
// another run could else not give back what is held.
func (g *Group) writeRecords(ctx context.Context) error {
	if len(g.removed) == 0 {
		return nil
	}
	if err := g.Records.WriteAgain(ctx, g.State.Group, g.removed); err != nil {
		return err
	}
	if !g.restored {
		g.Progress.Note(refresh.Warn, "written again, since somebody has removed them: the tags %s; infrastructure as code "+
			"must ignore the tags whose keys begin with node-drainer.io/ (docs/rollout-modes.md)", strings.Join(g.removed, ", "))
	}
	g.removed, g.restored = nil, true
	return nil
}

// WhenDescribed has a function called each time that the group was described.
func (g *Group) WhenDescribed(do func(context.Context, refresh.Group)) {
	g.described = append(g.described, do)
}

// IsOpen reports whether Config.Windows are open.
func (g *Group) IsOpen() bool { return g.Config.Windows.Open(time.Now()) }

func (g *Group) warnOfStaleNodes() {
	err := g.State.Policy.Nodes.Stale()
	if err != nil && !g.stale {
		g.Progress.Note(refresh.Warn, "the nodes are shown as they were: %v", err)
	}
	g.stale = err != nil
}

// Resolve reads again what the group's instances should be launched from, and from EC2 what that needs.
func (g *Group) Resolve(ctx context.Context) error {
	s, err := g.Planner.Resolve(ctx, []refresh.Group{g.State.Group})
	if err != nil {
		return err
	}
	g.State.Update(s.Groups[0])
	g.State.Templates = s.Templates
	return nil
}

// RefreshState reads everything again: the group, and what its instances should be launched from.
func (g *Group) RefreshState(ctx context.Context) error {
	if err := g.Describe(ctx); err != nil {
		return err
	}
	return g.Resolve(ctx)
}

// Enter shows that the group is in the phase.
func (g *Group) Enter(phase report.Phase) { g.Progress.Set(func(p *report.Group) { p.Phase = phase }) }

// UpdateTarget reads what instances should be launched from, before a batch is chosen. If $Latest has
// changed, what the group has launched since would else count as outdated, and be replaced without end.
func (g *Group) UpdateTarget(ctx context.Context) error {
	if err := g.Resolve(ctx); err != nil {
		return err
	}
	if now := g.State.Assess().Target; now.Text != g.State.Target.Text {
		g.State.Target = now
		g.Progress.Set(func(p *report.Group) { p.Target = now.Text })
		g.Progress.Note(refresh.Warn, "the target has changed: instances are now launched from %s", now.Text)
	}
	return nil
}

// CountOutdated counts what is to be replaced, and shows it.
func (g *Group) CountOutdated() {
	g.State.Count()
	g.Progress.Set(func(p *report.Group) {
		p.Target, p.Total = g.State.Target.Text, len(g.State.Old)
	})
	g.Show(nil)
}

// Show shows how far the group is, and the refresh if one is followed.
func (g *Group) Show(status *refresh.Refresh) {
	a := g.State.Assess()
	g.State.countAgain(a)
	g.Progress.Set(func(p *report.Group) {
		p.Total = len(g.State.Old)
		p.Desired, p.Instances = g.State.Group.Desired, instancesOf(g.State.Group)
		for n, i := range g.State.Group.Instances {
			p.Instances[n].Old = g.State.isOld(i, a)
		}
		p.Gone = g.State.Replaced()
		if status != nil {
			p.Status, p.Reason, p.Percent = status.Status, status.Reason, status.Percent
		}
		if p.Total > 0 && (status == nil && p.Refresh == "" || status != nil && status.Update != nil) {
			p.Percent = 100 * p.Gone / p.Total
		}
		p.Phase = phaseOf(p.Phase, status)
	})
}

func phaseOf(before report.Phase, status *refresh.Refresh) report.Phase {
	switch {
	case before == report.Queued || status == nil:
		return before
	case status.Status == refresh.StatusBaking:
		return report.Baking
	case status.Active():
		return report.Replacing
	default:
		return report.Draining
	}
}

// AwaitDrained waits until no old instance is leaving any more, unless the trigger is not to wait.
func (g *Group) AwaitDrained(context.Context) (*Wait, error) {
	if !g.Config.Wait || len(g.State.Leaving()) == 0 {
		return nil, nil
	}
	g.Enter(report.Draining)
	return &Wait{}, nil
}

// ReadRefresh reads the refresh, and shows it. The group is described again after a refresh that has ended: what that
// did last may have happened since.
func (g *Group) ReadRefresh(ctx context.Context, id string) (refresh.Refresh, error) {
	f, err := g.Planner.Reader.Refresh(ctx, g.Name, id)
	if err == nil && !f.Active() {
		err = g.Describe(ctx)
	}
	if err == nil {
		g.Show(&f)
	}
	return f, err
}
