package main

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/node-drainer/node-drainer/test/cluster"
)

func at(milliseconds int) time.Time {
	return time.Unix(1000, 0).Add(time.Duration(milliseconds) * time.Millisecond)
}

func eviction(pod string, ms, code int) cluster.Request {
	return cluster.Request{Verb: "create", Resource: "pods", Subresource: "eviction", Name: pod, Code: code, At: at(ms)}
}

func TestCountRequests(t *testing.T) {
	list := cluster.Request{Verb: "list", Resource: "pods", Code: 200, At: at(-5)}
	tests := []struct {
		name     string
		requests []cluster.Request
		pods     int
		want     requestFigures
	}{
		{"nothing was asked", nil, 4, requestFigures{ByKind: map[string]int{}}},
		{
			"requests before the start count, and are told apart",
			[]cluster.Request{list, eviction("a", 1, 201)},
			1,
			requestFigures{
				Requests: 2, RequestsPerPod: 2, RequestsBefore: 1, Evictions: 1, EvictionsPerPod: 1,
				ByKind: map[string]int{"list pods": 1, "create pods/eviction": 1},
			},
		},
		{
			"refused evictions are evictions, others that failed are not refused",
			[]cluster.Request{
				eviction("a", 1, 429), eviction("a", 2, 429), eviction("a", 3, 500), eviction("a", 4, 201),
			},
			2,
			requestFigures{
				Requests: 4, RequestsPerPod: 2, Evictions: 4, EvictionsPerPod: 2, Refused: 2, RefusedShare: 0.5,
				ByKind: map[string]int{"create pods/eviction": 4},
			},
		},
		{
			"evictions beyond the pods that there were are of pods that had moved",
			[]cluster.Request{eviction("a", 1, 201), eviction("b", 2, 201), eviction("c", 3, 201)},
			2,
			requestFigures{
				Requests: 3, RequestsPerPod: 1.5, Evictions: 3, EvictionsPerPod: 1.5, Twice: 1,
				ByKind: map[string]int{"create pods/eviction": 3},
			},
		},
		{
			"a path that is no resource is discovery",
			[]cluster.Request{{Verb: "get", Code: 200, At: at(1)}},
			1,
			requestFigures{Requests: 1, RequestsPerPod: 1, ByKind: map[string]int{"get (discovery)": 1}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, countRequests(tt.requests, at(0), tt.pods)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestReleases(t *testing.T) {
	opened := func(budget string, ms int) crossing { return crossing{Budget: budget, At: at(ms), Open: true} }
	closed := func(budget string, ms int) crossing { return crossing{Budget: budget, At: at(ms)} }
	apps := map[string]string{"a1": "a", "a2": "a", "b1": "b"}
	tests := []struct {
		name      string
		crossings []crossing
		requests  []cluster.Request
		want      []int // milliseconds
	}{
		{"a budget that never opens", nil, []cluster.Request{eviction("a1", 5, 201)}, nil},
		{"the next eviction counts", []crossing{opened("a", 10)}, []cluster.Request{eviction("a1", 15, 201)}, []int{5}},
		{
			"a refused eviction is none",
			[]crossing{opened("a", 10)},
			[]cluster.Request{eviction("a1", 15, 429), eviction("a1", 30, 201)},
			[]int{20},
		},
		{
			"an eviction under another budget is none",
			[]crossing{opened("a", 10)},
			[]cluster.Request{eviction("b1", 15, 201), eviction("a1", 40, 201)},
			[]int{30},
		},
		{"nothing follows", []crossing{opened("a", 10)}, nil, nil},
		{
			"nothing follows before it closes again",
			[]crossing{opened("a", 10), closed("a", 20), opened("a", 50)},
			[]cluster.Request{eviction("a1", 60, 201)},
			[]int{10},
		},
		{
			"the watch was late",
			[]crossing{closed("a", 2), opened("a", 10)},
			[]cluster.Request{eviction("a1", 1, 201), eviction("a2", 9, 201)},
			[]int{0},
		},
		{
			"each budget by itself",
			[]crossing{opened("a", 10), closed("b", 11), opened("b", 20)},
			[]cluster.Request{eviction("a1", 13, 201), eviction("b1", 24, 201)},
			[]int{3, 4},
		},
		{
			"answers are not in the order of the questions",
			[]crossing{opened("a", 10)},
			[]cluster.Request{eviction("a2", 30, 201), eviction("a1", 12, 201)},
			[]int{2},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []int
			for _, d := range releases(tt.crossings, tt.requests, apps) {
				got = append(got, int(d.Milliseconds()))
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestCountReleases(t *testing.T) {
	got := countReleases([]time.Duration{9 * time.Millisecond, time.Millisecond, 2 * time.Millisecond, 3 * time.Millisecond})
	if want := (releaseFigures{Releases: 4, ReleaseMedian: 2, ReleaseMax: 9}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := countReleases(nil); got != (releaseFigures{}) {
		t.Errorf("without releases there is %+v", got)
	}
}

func TestCountUsage(t *testing.T) {
	got := countUsage(usage{CPU: time.Second, Before: 1 << 20, Peaks: []int64{2 << 20, 5 << 20}}, 100)
	if want := (usageFigures{CPU: 1, CPUPerPod: 10, PeakMiB: 5, SumMiB: 7, BeforeMiB: 1}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestMedianRounds(t *testing.T) {
	round := func(contestant string, number int, makespan float64) figures {
		return figures{Scenario: "s", Contestant: contestant, Round: number, Makespan: makespan}
	}
	got := medianRounds([]figures{
		round(agentName, 1, 30), round(limitName, 1, 10), round(agentName, 2, 20), round(limitName, 2, 10),
		round(agentName, 3, 10),
		{Scenario: "other", Contestant: agentName, Makespan: 5},
	})
	agent, limit := round(agentName, 2, 20), round(limitName, 1, 10)
	agent.ToLimit, limit.ToLimit = 2, 1
	want := []figures{limit, agent, {Scenario: "other", Contestant: agentName, Makespan: 5}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(figures{})); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
