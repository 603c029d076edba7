// Package trigger tests the trigger as a process against a simulated AWS, without a cluster: exit codes, interrupts,
// kills, failures of AWS, permissions, and the terminal; and what takes hours, in virtual time: see world. What a rollout
// decides is tested in internal/rollout and pkg/refresh, and whatever may happen during it in test/rollouts.
package trigger

import (
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"testing"

	"github.com/node-drainer/node-drainer/internal/cli"
	"github.com/node-drainer/node-drainer/test/harness"
)

// asTrigger is the variable that makes this test binary the trigger. Thus the tests run the code that they are linked
// with, and Go knows when a result is out of date.
const asTrigger = "NODE_DRAINER_TEST_BINARY_IS_TRIGGER"

func TestMain(m *testing.M) {
	if os.Getenv(asTrigger) != "" {
		os.Exit(cli.Main("test", os.Exit))
	}
	flag.Parse()
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(800) // Most of what a test allocates is soon garbage.
	}
	_ = flag.Set("test.parallel", "12") // The tests wait more than they compute.
	os.Exit(judgeActions(m.Run()))
}

// judgeActions fails a run of all tests in which the trigger has not called each action that deploy/iam allows it.
func judgeActions(code int) int {
	if code != 0 || testing.Short() || flag.Lookup("test.run").Value.String()+flag.Lookup("test.skip").Value.String() != "" {
		return code
	}
	faults, err := harness.CompareActions(harness.Trigger, calledActions())
	if err != nil {
		faults = []string{err.Error()}
	}
	for _, fault := range faults {
		fmt.Fprintln(os.Stderr, fault)
	}
	return min(len(faults), 1)
}
