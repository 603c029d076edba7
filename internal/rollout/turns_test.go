package rollout

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/rollout/plan"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// TestDecide: which groups may begin their phases, and which never may.
func TestDecide(t *testing.T) {
	t.Parallel()
	const check, replace = refresh.PhaseCheck, refresh.PhaseTaint
	waits := func(phase refresh.Phase) place { return place{phase: phase, waits: true} }
	ended := func(o report.Outcome, turn bool) place {
		return place{name: "x", phase: replace, turn: turn, outcome: o}
	}
	checking, replacing := place{phase: check}, place{phase: replace, turn: true}
	together, each := order{together: check, parallel: 1}, order{parallel: 1}
	whole := order{together: check}
	waves := func(p place, wave int) place { p.wave = wave; return p }
	fast := order{together: check, parallel: 1, failFast: true}
	var many []place
	for range plan.Concurrency {
		many = append(many, checking)
	}
	for _, tt := range []struct {
		name   string
		order  order
		before []place // in order
		it     place
		after  []place
		want   bool
		skips  bool
	}{
		{"the first check", together, nil, waits(check), nil, true, false},
		{"checks at a time", together, many, waits(check), nil, false, false},
		{"a check beside others that wait", together, []place{waits(replace), waits(check)}, waits(check), nil, true, false},
		{"another group is being checked", together, nil, waits(replace), []place{checking}, false, false},
		{"another group waits to be checked", together, nil, waits(replace), []place{waits(check)}, false, false},
		{"all are checked", together, nil, waits(replace), []place{waits(replace)}, true, false},
		{"all are checked, and one is refused", together, nil, waits(replace), []place{ended(report.Refused, false)}, false, true},
		{"one is refused while another is checked", together, nil, waits(replace), []place{ended(report.Refused, false), checking}, false, false},
		{"checked apart, and one is refused", each, []place{ended(report.Refused, true)}, waits(check), nil, true, false},
		{"one before it has nothing to do", together, []place{ended(report.Nothing, true)}, waits(replace), nil, true, false},
		{"one before it has failed", together, []place{ended(report.Failed, true)}, waits(replace), nil, true, false},
		{"one before it has failed, with --fail-fast", fast, []place{ended(report.Failed, true)}, waits(replace), nil, false, true},
		{"one before it waits", together, []place{waits(replace)}, waits(replace), nil, false, false},
		{"one before it is replaced", together, []place{replacing}, waits(replace), nil, false, false},
		{"one before it is replaced, two at a time", order{check, 2, false}, []place{replacing}, waits(replace), nil, true, false},
		{"two before it, two at a time", order{check, 2, false}, []place{replacing, replacing}, waits(replace), nil, false, false},
		{"all at a time", order{check, 0, false}, []place{replacing, replacing}, waits(replace), nil, true, false},
		{"its turn has come already", each, []place{replacing}, replacing, nil, true, false},
		{"an earlier wave is replaced", whole, []place{replacing}, waves(waits(replace), 1), nil, false, false},
		{"an earlier wave has ended well", whole, []place{ended(report.Done, true)}, waves(waits(replace), 1), nil, true, false},
		{
			"an earlier wave has failed, and another group of it is replaced", whole,
			[]place{ended(report.Incomplete, true), replacing},
			waves(waits(replace), 1), nil, false, false,
		},
		{"an earlier wave has failed", whole, []place{ended(report.Incomplete, true)}, waves(waits(replace), 1), nil, false, true},
		{
			"two waves before it one has failed", whole,
			[]place{ended(report.Failed, true), waves(ended(report.Skipped, false), 1)},
			waves(waits(replace), 2), nil, false, true,
		},
		{"a later wave is checked", whole, []place{waits(replace)}, waits(replace), []place{waves(checking, 1)}, false, false},
		{"checked apart, and an earlier wave is replaced", each, []place{replacing}, waves(waits(check), 1), nil, false, false},
	} {
		all := append(append(append([]place{}, tt.before...), tt.it), tt.after...)
		begins, err := tt.order.decide(all, len(tt.before))
		if begins != tt.want || (err != nil) != tt.skips {
			t.Errorf("%s: %v, %v; want %v, an error: %v", tt.name, begins, err, tt.want, tt.skips)
		}
	}
}

// manyGroups is an AWS with groups of these names.
type manyGroups struct {
	*fakeAWS
	names []string
}

func (s manyGroups) Find(ctx context.Context, _ refresh.Selection) (all []refresh.Group, err error) {
	for _, name := range s.names {
		g, err := s.Group(ctx, name)
		if err != nil {
			return nil, err
		}
		all = append(all, g)
	}
	return all, nil
}

func (s manyGroups) Group(ctx context.Context, name string) (refresh.Group, error) {
	g, err := s.fakeAWS.Group(ctx, name)
	g.Name = name
	return g, err
}

// TestSeveralGroups: all groups are checked before one is changed, the limits on groups hold, and each group has an
// outcome.
func TestSeveralGroups(t *testing.T) {
	const left, failed, skipped = report.Detached, report.Error, report.Skipped
	for name, tt := range map[string]struct {
		together refresh.Phase
		parallel int
		failFast bool
		want     []report.Outcome
	}{
		"one fails, the others go on": {refresh.NoPhase, 1, false, []report.Outcome{left, failed, left}},
		"fail fast":                   {refresh.NoPhase, 1, true, []report.Outcome{left, failed, skipped}},
		"all at once":                 {refresh.NoPhase, 0, false, []report.Outcome{left, failed, left}},
		"checked together":            {refresh.PhaseCheck, 1, false, []report.Outcome{skipped, failed, skipped}},
		"checked together, and then all at once": {
			refresh.PhaseCheck, 0, false, []report.Outcome{skipped, failed, skipped},
		},
	} {
		runInBubble(t, name, func(t *testing.T) {
			a, cfg := newFakeAWS(1), defaults()
			cfg.Together, cfg.Parallel, cfg.FailFast, cfg.Wait = tt.together, tt.parallel, tt.failFast, false
			r, err := New(cfg, failingGroup{manyGroups{a, []string{"a", "b", "c"}}}, a, nil, nil).Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for n, want := range tt.want {
				expect(t, r.Groups[n], want)
			}
			if started := len(a.calls) > 0; started != slices.Contains(tt.want, left) {
				t.Errorf("calls %q", a.calls)
			}
		})
	}
}

// failingGroup fails to read the refreshes of group b.
type failingGroup struct{ manyGroups }

func (f failingGroup) Refreshes(ctx context.Context, group string) ([]refresh.Refresh, error) {
	if group == "b" {
		return nil, fmt.Errorf("describe the instance refreshes of group %s: AccessDenied", group)
	}
	return f.manyGroups.Refreshes(ctx, group)
}
