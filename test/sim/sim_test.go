package sim_test

import (
	"flag"
	"fmt"
	"io"
	"os"
	"testing"

	"github.com/go-logr/logr"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"

	"github.com/node-drainer/node-drainer/internal/observe"
	"github.com/node-drainer/node-drainer/test/sim"
)

var (
	first = flag.Uint64("first", 1, "the seed of the first world")
	seeds = flag.Uint64("seeds", 2, "how many worlds TestWorlds runs")
	print = flag.Bool("print", false, "print each world and its log")
)

func TestMain(m *testing.M) {
	flag.Parse()
	observe.NewLogger(observe.Config{Level: "info", Format: "json"}, io.Discard) // sets the time format
	utilruntime.ErrorHandlers = nil                                              // One keeps the time of the last error, across bubbles, and sleeps until then.
	klog.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// TestWorlds: no invariant is violated in generated worlds.
func TestWorlds(t *testing.T) {
	for seed := *first; seed < *first+*seeds; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			spec := sim.Generate(seed)
			if *print {
				t.Log(spec)
			}
			result := sim.Run(t, spec)
			for _, v := range result.Violations {
				t.Errorf("seed %d: %v", seed, v)
			}
			if *print {
				t.Log("\n" + result.Log())
			}
		})
	}
}
