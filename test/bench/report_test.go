package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTargets(t *testing.T) {
	agent := func(scenario string, change func(*figures)) figures {
		f := figures{Scenario: scenario, Contestant: agentName, Makespan: 10}
		change(&f)
		return f
	}
	tests := []struct {
		name    string
		figures []figures
		target  string
		want    string // The verdict, what was got, where.
	}{
		{
			"the bound holds",
			[]figures{agent("budgets", func(f *figures) { f.RequestsPerPod = 1.5 })},
			"requests per pod, with budgets", "met 1.50 budgets",
		},
		{
			"a bit more does not",
			[]figures{agent("budgets", func(f *figures) { f.RequestsPerPod = 1.51 })},
			"requests per pod, with budgets", "MISSED 1.51 budgets",
		},
		{
			"a bound to stay below does not hold itself",
			[]figures{agent("one", func(f *figures) { f.CPUPerPod = 3 })},
			"CPU per pod", "MISSED 3 ms one",
		},
		{
			"another scenario does not count",
			[]figures{agent("one", func(f *figures) { f.RequestsPerPod = 9 })},
			"requests per pod, with budgets", "- not measured ",
		},
		{
			"the worst scenario counts",
			[]figures{
				agent("one", func(f *figures) { f.EvictionsPerPod = 1 }),
				agent("plain", func(f *figures) { f.EvictionsPerPod = 1.25 }),
				agent("long", func(f *figures) { f.EvictionsPerPod = 1.1 }),
			},
			"evictions per pod", "MISSED 1.25 plain",
		},
		{
			"as slow as kubectl is not slower",
			[]figures{agent("one", func(*figures) {}), {Scenario: "one", Contestant: kubectlName, Makespan: 10}},
			"makespan to kubectl's", "met 1 one",
		},
		{
			"slower than the limit allows",
			[]figures{agent("one", func(*figures) {}), {Scenario: "one", Contestant: limitName, Makespan: 8}},
			"makespan to the limit's", "MISSED 1.25 one",
		},
		{
			"others alone say nothing of the agent",
			[]figures{{Scenario: "one", Contestant: limitName, Makespan: 8}},
			"makespan to the limit's", "- not measured ",
		},
		{
			"releases that never were are not quick",
			[]figures{agent("plain", func(*figures) {})},
			"release of a budget to next eviction, median", "- not measured ",
		},
		{
			"memory that is unknown is not small",
			[]figures{agent("memory", func(*figures) {})},
			"peak memory, 20 of 100 nodes, 3,000 pods", "- not measured ",
		},
		{
			"memory grows with the pods elsewhere",
			[]figures{
				agent("memory", func(f *figures) { f.PeakMiB = 40 }),
				agent("memory-x10", func(f *figures) { f.PeakMiB = 50 }),
			},
			"more memory with ten times the pods on other nodes", "MISSED 25 % memory-x10",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, row := range targetTable(compare(tt.figures))[1:] {
				if row[1] != tt.target {
					continue
				}
				if got := row[0] + " " + row[3] + " " + row[4]; got != tt.want {
					t.Errorf("got %q, want %q", got, tt.want)
				}
				return
			}
			t.Errorf("there is no target %q", tt.target)
		})
	}
}

func TestReport(t *testing.T) {
	path := filepath.Join(t.TempDir(), "figures.json")
	b := &bench{options: options{scale: 0.5, json: path}, figures: []figures{
		{
			Scenario: "one", Contestant: kubectlName, Pods: 100, Makespan: 23.14, Finished: 25, Marked: 0.4,
			requestFigures: requestFigures{Requests: 250, RequestsPerPod: 2.5, ByKind: map[string]int{
				"get pods": 140, "create pods/eviction": 110,
			}, EvictionsPerPod: 1.1, Refused: 10, RefusedShare: 0.09},
			releaseFigures: releaseFigures{Releases: 3, ReleaseMedian: 1200, ReleaseMax: 4000},
			usageFigures:   usageFigures{CPU: 0.5, CPUPerPod: 5, PeakMiB: 50, SumMiB: 150},
		},
		{Scenario: "one", Contestant: limitName, Pods: 100, Makespan: 5.2},
	}}
	var text strings.Builder
	if err := b.report(&text); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(text.String()) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	for _, want := range []string{
		"one kubectl 100 23.1 s 4.45 25.0 s 0.40 s 2.50 1.10 10 (9 %) 0 1200, max 4000 0.50 5.0 50.0 150",
		"one limit 100 5.2 s 1.00 0.0 s 0.00 s 0.00 0.00 0 (0 %) 0 - - - - -",
		"one kubectl get pods 1.4, create pods/eviction 1.1",
		"- evictions per pod <= 1.05 not measured",
	} {
		if !strings.Contains(strings.Join(lines, "\n")+"\n", want+"\n") {
			t.Errorf("there is no line %q in\n%s", want, text.String())
		}
	}
	if !strings.Contains(lines[0], "with only 0.5 of the nodes") {
		t.Errorf("the first line does not warn of the scale: %s", lines[0])
	}
	assertDocument(t, path)
}

func assertDocument(t *testing.T, path string) {
	t.Helper()
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Shown []struct {
			RequestsPerPod           float64
			MakespanToLimit, PeakMiB float64
		}
		Targets []struct{ Name string }
		Rounds  []any
	}
	if err := json.Unmarshal(file, &d); err != nil {
		t.Fatal(err)
	}
	if len(d.Shown) != 2 || len(d.Rounds) != 2 || len(d.Targets) == 0 || d.Shown[0].RequestsPerPod != 2.5 ||
		d.Shown[0].PeakMiB != 50 || d.Shown[0].MakespanToLimit < 4.4 {
		t.Errorf("the document is %+v", d)
	}
}

func TestReportWithoutFigures(t *testing.T) {
	var text strings.Builder
	if err := (&bench{}).report(&text); err != nil || text.Len() > 0 {
		t.Errorf("got %v and %q, want silence", err, text.String())
	}
}
