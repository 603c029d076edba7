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

// TestCountRequests: what was sent before the start counts too; other errors than 429 are no refusals; evictions beyond
// the pods that there were are of pods that had moved; a path that is no resource is discovery.
func TestCountRequests(t *testing.T) {
	got := countRequests([]cluster.Request{
		{Verb: "list", Resource: "pods", Code: 200, At: at(-5)},
		{Verb: "get", Code: 200, At: at(1)},
		eviction("a", 1, 429), eviction("a", 2, 429), eviction("a", 3, 500), eviction("a", 4, 201),
		eviction("b", 5, 201), eviction("c", 6, 201),
	}, at(0), 2)
	want := requestFigures{
		Requests: 8, RequestsPerPod: 4, RequestsBefore: 1, Evictions: 6, EvictionsPerPod: 3, Twice: 1,
		Refused: 2, RefusedShare: 1.0 / 3,
		ByKind: map[string]int{"list pods": 1, "get (discovery)": 1, "create pods/eviction": 6},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
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
		{
			"a refused eviction is none, nor is one under another budget",
			[]crossing{opened("a", 10)},
			[]cluster.Request{eviction("a1", 15, 429), eviction("b1", 20, 201), eviction("a1", 30, 201)},
			[]int{20},
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
			"each budget by itself, and answers are not in the order of the questions",
			[]crossing{opened("a", 10), closed("b", 11), opened("b", 20)},
			[]cluster.Request{eviction("a2", 30, 201), eviction("b1", 24, 201), eviction("a1", 13, 201)},
			[]int{3, 4},
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
