package rollout

import (
	"context"
	"slices"
	"strings"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// preflight checks whether the rollout of a group may start.
type preflight struct {
	group  *group
	warned map[string]bool // what it has warned of

	cancelled bool // A refresh was cancelled before.
}

// check checks whether the rollout may start. Where nothing is outdated there is nothing to check.
func (p *preflight) check(ctx context.Context, active *refresh.Refresh) error {
	g, a := p.group, p.group.state.assess()
	if a.target.Problem != "" {
		return &endError{report.Refused, a.target.Problem}
	}
	if !a.due() {
		return nil
	}
	facts, err := p.facts(ctx, a, active)
	if err != nil {
		return err
	}
	return p.apply(refresh.Preflight(g.state.group, facts))
}

func (p *preflight) facts(ctx context.Context, a assessment, active *refresh.Refresh) (refresh.Facts, error) {
	g := p.group
	in, err := g.planner.inCluster(ctx, []refresh.Group{g.state.group}, []assessment{a})
	if err != nil { // The rollout does not need the cluster: AWS and the agent do the work.
		g.progress.note(refresh.Warn, "the pods on the group's nodes cannot be listed: %v", err)
	}
	facts, err := g.planner.facts(ctx, g.state.group, a, in, active)
	g.state.drains.hooks = facts.Hooks
	g.state.noLaunchHook = err == nil && !facts.LaunchHook()
	return facts, err
}

// checkAttached does the preflight for a refresh that is under way, with the preferences that it has. Whatever it
// finds is a warning, since the refresh continues without the trigger too.
func (p *preflight) checkAttached(ctx context.Context, active *refresh.Refresh) {
	a := p.group.state.assess()
	if active == nil || !a.due() {
		return
	}
	facts, err := p.facts(ctx, a, active)
	if err != nil {
		p.group.progress.note(refresh.Warn, "the refresh is followed without a preflight: %v", err)
		return
	}
	facts.AlarmStates, facts.AlarmsUnknown = nil, nil // They are those of the new refresh.
	facts.Preferences, facts.Pin = active.Preferences, active.Desired != nil
	p.warn(refresh.Preflight(p.group.state.group, facts))
}

// warn shows those of the findings that are not OK, once.
func (p *preflight) warn(findings []refresh.Finding) {
	for _, f := range findings {
		text := describe(f)
		if f.Level != refresh.OK && !p.warned[text] {
			p.warned[text] = true
			p.group.progress.note(refresh.Warn, "%s", text)
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
	refused := refresh.Refused(findings, p.group.cfg.Allow)
	isRefused := func(f refresh.Finding) bool { return slices.Contains(refused, f) }
	p.warn(slices.DeleteFunc(slices.Clone(findings), isRefused))
	if len(refused) == 0 {
		return nil
	}
	changed := "nothing was changed: "
	if p.cancelled {
		changed = "nothing was started: "
	}
	end := &endError{report.Refused, changed + describe(refused...)}
	if len(refused) == 1 && refused[0].Check == refresh.CheckActive {
		end.outcome = report.Conflict
	}
	return end
}
