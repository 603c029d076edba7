package rollout

import (
	"strings"
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

// TestWatchInWaves: a group begins only if no outdated one of an earlier wave is held back.
func TestWatchInWaves(t *testing.T) {
	t.Parallel()
	in := func(name, wave string) refresh.Group {
		return refresh.Group{Name: name, Tags: map[string]string{refresh.WaveTag: wave}}
	}
	starts := []refresh.Group{in("a", "1"), in("b", "2"), in("c", "3"), {Name: "d"}}
	for name, tt := range map[string]struct {
		held  []refresh.Group
		order []string
		want  string
	}{
		"none is held back":          {nil, nil, "a b c d"},
		"one of the last wave":       {[]refresh.Group{{Name: "x"}}, nil, "a b c d"},
		"one of the second":          {[]refresh.Group{in("x", "2"), in("y", "3")}, nil, "a b"},
		"one, and groups are named":  {[]refresh.Group{in("x", "2")}, []string{"x", "d", "c", "b", "a"}, "a b c d"},
		"one of a wave before first": {[]refresh.Group{in("x", "0")}, nil, ""},
	} {
		due, later := inWaves(tt.order, starts, tt.held)
		if got := strings.Join(due, " "); got != tt.want || len(due)+len(later) != len(starts) {
			t.Errorf("%s: %q and later %q, want %q", name, got, later, tt.want)
		}
	}
}
