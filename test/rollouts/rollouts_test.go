package rollouts

import (
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"testing"

	"github.com/node-drainer/node-drainer/internal/report"
)

var (
	first = flag.Uint64("first", 1, "the seed of the first rollout")
	seeds = flag.Uint64("seeds", 75, "how many rollouts TestRollouts runs")
	step  = flag.Uint64("step", 1, "the difference between two seeds: so many processes share the rollouts")
	small = flag.Bool("reduce", true, "make a rollout that fails smaller")
	show  = flag.Bool("print", false, "print each rollout and its log")
)

func TestMain(m *testing.M) {
	flag.Parse()
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(800) // Most of what a rollout allocates is soon garbage.
	}
	os.Exit(m.Run())
}

// TestRollouts: no invariant is violated in generated rollouts. One that fails is made smaller.
func TestRollouts(t *testing.T) {
	outcomes, n := map[report.Outcome]int{}, *seeds
	if testing.Short() {
		n = min(n, 30)
	}
	for seed := *first; seed < *first+n; seed += *step {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { testRollout(t, seed, outcomes) })
	}
	t.Log("outcomes:", outcomes)
}

func testRollout(t *testing.T, seed uint64, outcomes map[report.Outcome]int) {
	t.Helper()
	spec := Generate(seed)
	result := Simulate(t, spec)
	for outcome, n := range result.Outcomes {
		outcomes[outcome] += n
	}
	if *show {
		t.Log(spec.String() + "\n" + result.Log())
	}
	for _, v := range result.Violations {
		t.Errorf("seed %d: %v", seed, v)
	}
	if len(result.Violations) > 0 && *small {
		t.Log("\n" + Reduce(t, spec, result.Violations[0].Invariant))
	}
}
