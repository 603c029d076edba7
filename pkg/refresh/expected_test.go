package refresh

import (
	"testing"
	"time"
)

// TestExpected: how long a rollout takes by how long the drains of the nodes do.
func TestExpected(t *testing.T) {
	t.Parallel()
	const m = time.Minute
	drains := []Span{{1 * m, 2 * m}, {3 * m, 4 * m}, {5 * m, 10 * m}, {1 * m, 1 * m}, {1 * m, 20 * m}}
	warmup := 3 * m
	for _, tt := range []struct {
		name    string
		group   Group
		facts   Facts
		drains  []Span
		between time.Duration
		want    Span
	}{
		{"one at a time", Group{}, Facts{Mode: ModeUnhealthy, Batch: 1}, drains, 0, Span{14 * m, 47 * m}},
		{"two at a time", Group{}, Facts{Mode: ModeUnhealthy, Batch: 2}, drains, 0, Span{10 * m, 40 * m}},
		{"pauses between", Group{}, Facts{Mode: ModeUnhealthy, Batch: 2}, drains, m, Span{12 * m, 42 * m}},
		{"a surge", Group{}, Facts{Mode: ModeUnhealthy, Batch: 2, Surge: 2}, drains, 0, Span{11 * m, 40 * m}},
		{"a surge of more than there are", Group{}, Facts{Mode: ModeUnhealthy, Batch: 1, Surge: 9}, drains, 0, Span{7 * m, 22 * m}},
		{"standby", Group{}, Facts{Mode: ModeStandby, Batch: 5}, drains, 0, Span{5 * m, 22 * m}},
		{"a refresh, one at a time", Group{Desired: 5}, Facts{Mode: ModeRefresh}, drains, 0, Span{10 * m, 47 * m}},
		{
			"a refresh of two at a time",
			Group{Desired: 5},
			Facts{Mode: ModeRefresh, Preferences: Preferences{MinHealthy: new(60)}},
			drains, 0,
			Span{6 * m, 40 * m},
		},
		{
			"a refresh that launches two first",
			Group{Desired: 5},
			Facts{Mode: ModeRefresh, Preferences: Preferences{MinHealthy: new(100), MaxHealthy: new(140)}},
			drains, 0,
			Span{6 * m, 40 * m},
		},
		{
			"a warmup, a checkpoint, and a bake time",
			Group{Desired: 5},
			Facts{Mode: ModeRefresh, Preferences: Preferences{
				Warmup: &warmup, Checkpoints: []int{50, 100}, CheckpointDelay: new(m), Bake: new(10 * m),
			}},
			drains, 0,
			Span{26 * m, 63 * m},
		},
		{
			"a refresh during one long drain",
			Group{Desired: 6},
			Facts{Mode: ModeRefresh, Preferences: Preferences{MinHealthy: new(0)}},
			append(drains, Span{9 * m, 9 * m}), 0,
			Span{9 * m, 22 * m},
		},
		{"no drain", Group{Desired: 5}, Facts{Mode: ModeRefresh}, nil, 0, Span{}},
		{"a node group", Group{Desired: 5}, Facts{Mode: ModeNodegroup}, drains, 0, Span{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, isKnown := tt.facts.Expected(tt.group, tt.drains, 2*m, tt.between)
			if got != tt.want || isKnown != (tt.want != Span{}) {
				t.Errorf("got %v, %v, want %v", got, isKnown, tt.want)
			}
		})
	}
}
