package main

import (
	"slices"
	"testing"
)

func TestTargets(t *testing.T) {
	agent := func(scenario string, change func(*figures)) figures {
		f := figures{Scenario: scenario, Contestant: agentName, Makespan: 10}
		change(&f)
		return f
	}
	requests := func(scenario string, perPod float64) figures {
		return agent(scenario, func(f *figures) { f.RequestsPerPod = perPod })
	}
	evictions := func(scenario string, perPod float64) figures {
		return agent(scenario, func(f *figures) { f.EvictionsPerPod = perPod })
	}
	memory := func(scenario string, peak float64) figures {
		return agent(scenario, func(f *figures) { f.PeakMiB = peak })
	}
	limit := figures{Scenario: "one", Contestant: limitName, Makespan: 8}
	for _, tt := range []struct {
		figures []figures
		target  string
		want    string // The verdict, what was got, where.
	}{
		{[]figures{requests("budgets", 1.5)}, "requests per pod, with budgets", "met 1.50 budgets"},
		{[]figures{requests("budgets", 1.51)}, "requests per pod, with budgets", "MISSED 1.51 budgets"},
		{[]figures{agent("one", func(f *figures) { f.CPUPerPod = 3 })}, "CPU per pod", "MISSED 3 ms one"}, // want < 3 ms
		{[]figures{requests("one", 9)}, "requests per pod, with budgets", "- not measured "},
		{[]figures{evictions("one", 1), evictions("plain", 1.25), evictions("long", 1.1)}, "evictions per pod", "MISSED 1.25 plain"},
		{[]figures{requests("one", 1), limit}, "makespan to the limit's", "MISSED 1.25 one"},
		{[]figures{limit}, "makespan to the limit's", "- not measured "},
		{[]figures{requests("plain", 1)}, "release of a budget to next eviction, median", "- not measured "},
		{[]figures{memory("memory", 0)}, "peak memory, 20 of 100 nodes, 3,000 pods", "- not measured "},
		{
			[]figures{memory("memory", 40), memory("memory-x10", 50)},
			"more memory with ten times the pods on other nodes", "MISSED 25 % memory-x10",
		},
	} {
		rows := targetTable(compare(tt.figures))
		row := rows[slices.IndexFunc(rows, func(row []string) bool { return row[1] == tt.target })]
		if got := row[0] + " " + row[3] + " " + row[4]; got != tt.want {
			t.Errorf("%s of %+v: got %q, want %q", tt.target, tt.figures, got, tt.want)
		}
	}
}
