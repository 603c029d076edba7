package refresh

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestSurgeInSteps: the desired capacity of four outdated instances is raised step by step, and nothing is replaced
// before all of the surge is there.
func TestSurgeInSteps(t *testing.T) {
	t.Parallel()
	pace := Pace{Batch: Amount{N: 1}, Surge: Amount{N: 100, Percent: true}, Step: Amount{N: 2}}
	old := []string{"i-1", "i-2", "i-3", "i-4"}
	replaced := Step{Terminate: []string{"i-1"}}
	for name, tt := range map[string]struct {
		desired, limit int
		tag            string
		states         []string // of the new ones
		outdated       []string
		notReady       string
		step           Amount
		want           Step
	}{
		"the first step": {desired: 4, outdated: old, want: Step{Raise: 2}},
		"a share":        {desired: 4, outdated: old, step: Amount{N: 75, Percent: true}, want: Step{Raise: 3}},
		"its instances are launched": {
			desired: 6, tag: "4-6", states: []string{"InService", "Pending"}, outdated: old,
			want: Step{Waiting: "waiting for 1 new instance to enter service: i-6 (Pending)", InFlight: true},
		},
		"a node is not ready": {
			desired: 6, tag: "4-6", states: []string{"InService", "InService"}, outdated: old, notReady: "i-6",
			want: Step{Waiting: "waiting for 1 node to become ready: i-6", InFlight: true},
		},
		"the second step": {desired: 6, tag: "4-6", states: []string{"InService", "InService"}, outdated: old, want: Step{Raise: 2}},
		"the rest": {
			desired: 7, tag: "4-7", states: []string{"InService", "InService", "InService"}, outdated: old, want: Step{Raise: 1},
		},
		"all are there": {
			desired: 8, tag: "4-8", states: []string{"InService", "InService", "InService", "InService"}, outdated: old,
			want: replaced,
		},
		"some are replaced": {
			desired: 6, tag: "4-6", states: []string{"InService", "InService", "InService", "InService"},
			outdated: old[:2], want: replaced,
		},
		"the trigger was killed before it raised":        {desired: 4, tag: "raising 4-6", outdated: old, want: Step{Raise: 2}},
		"the trigger was killed in the second step":      {desired: 6, tag: "raising 4-8 6 2026-11-01T12:00:00Z", states: []string{"InService", "InService"}, outdated: old, want: Step{Raise: 2}},
		"the trigger was killed after the step":          {desired: 8, tag: "raising 4-8 6 2026-11-01T12:00:00Z", states: []string{"InService", "InService", "InService", "InService"}, outdated: old, want: Step{Confirm: true}},
		"it is not known who has raised it":              {desired: 7, tag: "raising 4-8 6 2026-11-01T12:00:00Z", states: []string{"InService", "InService", "InService"}, outdated: old, want: Step{Confirm: true}},
		"an autoscaler has left no room":                 {desired: 7, limit: 7, tag: "4-6", states: []string{"InService", "InService", "InService"}, outdated: old, want: replaced},
		"an autoscaler has left room for one":            {desired: 6, limit: 7, tag: "4-6", states: []string{"InService", "InService"}, outdated: old, want: Step{Raise: 1}},
		"an autoscaler has removed a part of the surge":  {desired: 5, tag: "4-6", states: []string{"InService"}, outdated: old, want: Step{Raise: 2}},
		"without steps the surge is what was raised":     {desired: 6, tag: "4-6", states: []string{"InService", "InService"}, outdated: old, step: Amount{N: -1}, want: replaced},
		"fewer are outdated than the surge would launch": {desired: 4, outdated: old[:1], want: Step{Raise: 1}},
	} {
		all := []Instance{instance(), instance(), instance(), instance()}
		for _, state := range tt.states {
			i := instance()
			i.State = state
			all = append(all, i)
		}
		g := group(tt.desired, all...)
		if tt.limit > 0 {
			g.Max = tt.limit
		}
		if tt.tag != "" {
			g = surged(g, tt.tag)
		}
		pace := pace
		switch {
		case tt.step.N < 0:
			pace.Step = Amount{}
		case tt.step.N > 0:
			pace.Step = tt.step
		}
		surge, _ := SurgeOf(g)
		snapshot := Snapshot{
			Group: g, Outdated: tt.outdated, NotReady: map[string]bool{tt.notReady: true}, SurgeInDoubt: surge.InDoubt(g.Desired),
		}
		got := Next(snapshot, pace)
		if len(got.Mark)+len(got.Terminate) > 0 { // Which of them is of no interest here.
			got = replaced
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
