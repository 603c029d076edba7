package sim_test

import (
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"testing"

	"github.com/go-logr/logr"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"

	"github.com/node-drainer/node-drainer/internal/observe"
	"github.com/node-drainer/node-drainer/test/sim"
)

var (
	first = flag.Uint64("first", 1, "the seed of the first world")
	seeds = flag.Uint64("seeds", 30, "how many worlds TestWorlds runs")
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
func TestWorlds(t *testing.T) { testWorlds(t, worlds(), sim.Generate) }

// TestJointWorlds: no invariant is violated in generated worlds in which triggers replace what is outdated. It takes
// three times as long for a world, and so runs a quarter of those of TestWorlds.
func TestJointWorlds(t *testing.T) { testWorlds(t, (worlds()+3)/4, sim.GenerateJoint) }

// worlds is how many worlds TestWorlds runs.
func worlds() uint64 {
	if testing.Short() {
		return min(*seeds, 20)
	}
	return *seeds
}

// testWorlds tests a number of worlds. Each worker runs one world after the other: a parallel test for each would be a
// goroutine from the start, and the judge counts those.
func testWorlds(t *testing.T, n uint64, generate func(uint64) sim.Spec) {
	t.Helper()
	if n == 1 {
		testWorld(t, generate(*first))
		return
	}
	workers := uint64(runtime.GOMAXPROCS(0))
	for i := range workers {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			for seed := *first + i**step; seed < *first+n; seed += workers * *step {
				t.Run(fmt.Sprint(seed), func(t *testing.T) { testWorld(t, generate(seed)) })
			}
		})
	}
}

func testWorld(t *testing.T, spec sim.Spec) {
	t.Helper()
	seed := spec.Seed
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
	violations := slices.DeleteFunc(result.Violations, func(v sim.Violation) bool { return isOfOld(t, spec, v) })
	for _, v := range violations {
		t.Errorf("seed %d: %v", seed, v)
	}
	if len(violations) > 0 && *small {
		t.Log("\n" + sim.Reduce(t, spec, violations[0].Invariant))
	}
}

// isOfOld reports whether a violation in a world of make sim-upgrade is none of an upgrade, and fixed since the older
// commit. It is older than the first upgrade, or the invariant is also violated if all processes are of that commit. It
// is not violated if all are of this checkout. Processes restart at the same times.
func isOfOld(t *testing.T, spec sim.Spec, v sim.Violation) bool {
	t.Helper()
	if len(spec.Versions) == 0 {
		return false
	}
	violates := func(old bool) bool {
		return slices.ContainsFunc(sim.Run(t, spec.OfOneVersion(old)).Violations, func(o sim.Violation) bool {
			return o.Invariant == v.Invariant
		})
	}
	if v.At >= spec.Versions[0].At && !violates(true) || violates(false) {
		return false
	}
	t.Logf("seed %d: of the older commit alone: %v", spec.Seed, v)
	return true
}

// TestBootWhileTheWatchLags: world 6403515 did not end. An agent had cordoned a node whose root volume was replaced, the
// watch did not show that yet, and the launch found again and again that the node had booted.
func TestBootWhileTheWatchLags(t *testing.T) {
	t.Parallel()
	testWorld(t, sim.Generate(6403515))
}
