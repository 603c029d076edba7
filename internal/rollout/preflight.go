package rollout

import (
	"context"
	"slices"
	"strings"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/rollout/loop"
	"github.com/node-drainer/node-drainer/internal/rollout/plan"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// preflight checks whether the rollout of a group may start.
type preflight struct {
	group  *loop.Group
	warned map[string]bool // what it has warned of

	cancelled bool // A refresh was cancelled before.
}

// check checks whether the rollout may start. Where nothing is outdated there is nothing to check.
func (p *preflight) check(ctx context.Context, active *refresh.Refresh) error {
	g, a := p.group, p.group.State.Assess()
	if a.Target.Problem != "" {
		return loop.EndWith(report.Refused, a.Target.Problem)
	}
	if !a.Due() {
		return nil
	}
	facts, err := p.facts(ctx, a, active)
	if err != nil {
		return err
	}
	return p.apply(refresh.Preflight(g.State.Group, facts))
}

func (p *preflight) facts(ctx context.Context, a plan.Assessment, active *refresh.Refresh) (refresh.Facts, error) {
	g := p.group
	in, err := g.Planner.InCluster(ctx, []refresh.Group{g.State.Group}, []plan.Assessment{a})
	if err != nil { // The rollout does not need the cluster: AWS and the agent do the work.
		g.Progress.Note(refresh.Warn, "the pods on the group's nodes cannot be listed: %v", err)
	}
	facts, err := g.Planner.Facts(ctx, g.State.Group, a, in, active)
	g.State.Drains.Hooks = facts.Hooks
	g.State.NoLaunchHook = err == nil && !facts.LaunchHook()
	return facts, err
}

// checkAttached does the preflight for a refresh that is under way, with the preferences that it has. Whatever it
// finds is a warning, since the refresh continues without the trigger too.
func (p *preflight) checkAttached(ctx context.Context, active *refresh.Refresh) {
	a := p.group.State.Assess()
	if active == nil || !a.Due() {
		return
	}
	facts, err := p.facts(ctx, a, active)
	if err != nil {
		p.group.Progress.Note(refresh.Warn, "the refresh is followed without a preflight: %v", err)
		return
	}
	facts.AlarmStates, facts.AlarmsUnknown = nil, nil // They are those of the new refresh.
	facts.Preferences, facts.Pin = active.Preferences, active.Desired != nil
	p.warn(refresh.Preflight(p.group.State.Group, facts))
}

// warn shows those of the findings that are not OK, once.
func (p *preflight) warn(findings []refresh.Finding) {
	for _, f := range findings {
		text := describe(f)
		if f.Level != refresh.OK && !p.warned[text] {
			p.warned[text] = true
			p.group.Progress.Note(refresh.Warn, "%s", text)
		}
	}
}

// describe is the findings on one line.
func describe(findings ...refresh.Finding) string {
	texts := make([]string, len(findings))
	for n, f := range findings {
		texts[n] = f.Check + ": " + f.Text
	}
	return strings.Join(texts, "; ")
}

// apply shows what the preflight found, and returns an error if it must not start.
func (p *preflight) apply(findings []refresh.Finding) error {
	refused := refresh.Refused(findings, p.group.Config.Allow)
	isRefused := func(f refresh.Finding) bool { return slices.Contains(refused, f) }
	p.warn(slices.DeleteFunc(slices.Clone(findings), isRefused))
	if len(refused) == 0 {
		return nil
	}
	changed := "nothing was changed: "
	if p.cancelled {
		changed = "nothing was started: "
	}
	end := &loop.EndError{Outcome: report.Refused, Message: changed + describe(refused...)}
	if len(refused) == 1 && refused[0].Check == refresh.CheckActive {
		end.Outcome = report.Conflict
	}
	return end
}
