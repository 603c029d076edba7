package sim_test

import (
	"flag"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"testing"

	"github.com/go-logr/logr"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"

	"github.com/node-drainer/node-drainer/internal/observe"
	"github.com/node-drainer/node-drainer/test/sim"
)

var (
	first = flag.Uint64("first", 1, "the seed of the first world")
	seeds = flag.Uint64("seeds", 100, "how many worlds TestWorlds runs")
	step  = flag.Uint64("step", 1, "the difference between two seeds: so many processes share the worlds")
	order = flag.Uint64("order", 1, "make replay: the seed of the order of what happens at the same moment")
	small = flag.Bool("reduce", true, "make a world that fails smaller")
	show  = flag.Bool("print", false, "print each world and its log")
)

func TestMain(m *testing.M) {
	flag.Parse()
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(800) // A world is small, and soon garbage.
	}
	observe.NewLogger(observe.Config{Level: "info", Format: "json"}, io.Discard) // sets the time format
	// One of them keeps the time of the last error, across bubbles, and sleeps until then.
	utilruntime.ErrorHandlers = nil
	klog.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// TestWorlds: no invariant is violated in generated worlds. A world that fails is made smaller.
func TestWorlds(t *testing.T) {
	if *seeds == 1 {
		testWorld(t, *first)
		return
	}
	if testing.Short() {
		*seeds = min(*seeds, 20)
	}
	for seed := *first; seed < *first+*seeds; seed += *step {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			testWorld(t, seed)
		})
	}
}

func testWorld(t *testing.T, seed uint64) {
	t.Helper()
	spec := sim.Generate(seed)
	spec.Order = *order
	if *show {
		t.Log(spec)
	}
	result := sim.Run(t, spec)
	if *show {
		t.Log("\n" + result.Log())
	}
	if result.LatePods > 0 {
		t.Logf("seed %d: %d late pods", seed, result.LatePods)
	}
	for _, v := range result.Violations {
		t.Errorf("seed %d: %v", seed, v)
	}
	if len(result.Violations) > 0 && *small {
		t.Log("\n" + sim.Reduce(t, spec, result.Violations[0].Invariant))
	}
}
