package main

import (
	"fmt"
	"slices"
)

// target is a bound for a figure of the agent, and whether it is met.
type target struct {
	Name  string `json:"name"`
	Want  string `json:"want"`
	Got   string `json:"got"` // "not measured" if no scenario measured it.
	Where string `json:"where,omitempty"`
	Holds bool   `json:"holds"`
	Known bool   `json:"measured"`
}

// notMeasured stands for a figure that this run has not measured.
const notMeasured = "not measured"

// goal is a figure of the agent and its bound, in the scenarios where it counts.
type goal struct {
	name      string
	unit      string
	bound     float64
	below     bool     // The bound itself misses the target.
	scenarios []string // All if empty.
	// figure returns the agent's figure from those of all contestants in one scenario.
	figure func(of map[string]figures) (value float64, known bool)
}

// compare compares the figures of one round of each contestant with the targets.
func compare(all []figures) []target {
	scenarios, order := map[string]map[string]figures{}, []string{}
	for _, f := range all {
		if scenarios[f.Scenario] == nil {
			scenarios[f.Scenario] = map[string]figures{}
			order = append(order, f.Scenario)
		}
		scenarios[f.Scenario][f.Contestant] = f
	}
	order = slices.DeleteFunc(order, func(name string) bool {
		_, here := scenarios[name][agentName]
		return !here
	})
	var targets []target
	for _, g := range goals() {
		targets = append(targets, g.compare(scenarios, order))
	}
	return append(targets, growth(scenarios["memory"][agentName], scenarios["memory-x10"][agentName]))
}

// compare takes the worst scenario.
func (g goal) compare(scenarios map[string]map[string]figures, order []string) target {
	sign := "<="
	if g.below {
		sign = "<"
	}
	t := target{Name: g.name, Want: fmt.Sprintf("%s %g%s", sign, g.bound, g.unit), Got: notMeasured}
	worst := 0.0
	for _, name := range order {
		if len(g.scenarios) > 0 && !slices.Contains(g.scenarios, name) {
			continue
		}
		value, known := g.figure(scenarios[name])
		if known && (!t.Known || value > worst) {
			worst, t.Known, t.Where = value, true, name
			t.Got = fmt.Sprintf("%.*f%s", digits(value), value, g.unit)
			t.Holds = value < g.bound || (value == g.bound && !g.below)
		}
	}
	return t
}

// digits is how many decimals a figure needs.
func digits(value float64) int {
	const small, large = 10, 100
	switch {
	case value == float64(int(value)), value >= large:
		return 0
	case value >= small:
		return 1
	default:
		return 2
	}
}

// growth compares the memory with ten times as many pods elsewhere.
func growth(once, tenfold figures) target {
	t := target{Name: "more memory with ten times the pods on other nodes", Want: "<= 20 %", Got: notMeasured}
	if once.PeakMiB > 0 && tenfold.PeakMiB > 0 {
		const bound, percent = 20, 100
		more := (tenfold.PeakMiB/once.PeakMiB - 1) * percent
		t.Got, t.Where, t.Known, t.Holds = fmt.Sprintf("%.0f %%", more), tenfold.Scenario, true, more <= bound
	}
	return t
}

// goals returns the targets in the order of the report. Where no scenario is named, all count.
func goals() []goal { return append(requestGoals(), timeGoals()...) }

func requestGoals() []goal {
	requests := agents(func(f figures) float64 { return f.RequestsPerPod })
	const percent = 100
	return []goal{
		{name: "requests per pod, with budgets", bound: 1.5, scenarios: []string{"budgets"}, figure: requests},
		{name: "requests per pod, without", bound: 1.3, scenarios: []string{"plain"}, figure: requests},
		{
			name: "evictions per pod", bound: 1.05,
			figure: agents(func(f figures) float64 { return f.EvictionsPerPod }),
		},
		{
			name: "evictions refused", unit: " %", bound: 5, scenarios: []string{"budgets"},
			figure: agents(func(f figures) float64 { return f.RefusedShare * percent }),
		},
		{name: "pods evicted twice", bound: 0, figure: agents(func(f figures) float64 { return float64(f.Twice) })},
	}
}

func timeGoals() []goal {
	return []goal{
		{name: "makespan to the limit's", bound: 1.1, figure: against(limitName)},
		{name: "makespan to kubectl's", bound: 1, figure: against(kubectlName)},
		{
			name: "release of a budget to next eviction, median", unit: " ms", bound: 200, below: true,
			figure: func(of map[string]figures) (float64, bool) {
				return of[agentName].ReleaseMedian, of[agentName].Releases > 0
			},
		},
		{
			name: "messages to all of 20 nodes cordoned", unit: " s", bound: 0.5,
			scenarios: []string{"budgets", "freed"}, figure: agents(func(f figures) float64 { return f.Marked }),
		},
		{
			name: "CPU per pod", unit: " ms", bound: 3, below: true,
			figure: known(func(f figures) float64 { return f.CPUPerPod }),
		},
		{
			name: "peak memory, 20 of 100 nodes, 3,000 pods", unit: " MiB", bound: 60, below: true,
			scenarios: []string{"memory"}, figure: known(func(f figures) float64 { return f.PeakMiB }),
		},
	}
}

// agents returns a figure that depends on the agent alone.
func agents(value func(figures) float64) func(map[string]figures) (float64, bool) {
	return func(of map[string]figures) (float64, bool) { return value(of[agentName]), true }
}

// known is agents for a figure that is 0 only if it could not be measured.
func known(value func(figures) float64) func(map[string]figures) (float64, bool) {
	return func(of map[string]figures) (float64, bool) { v := value(of[agentName]); return v, v > 0 }
}

// against compares the agent's makespan with another's.
func against(other string) func(map[string]figures) (float64, bool) {
	return func(of map[string]figures) (float64, bool) {
		if of[other].Makespan == 0 {
			return 0, false
		}
		return of[agentName].Makespan / of[other].Makespan, true
	}
}
