//go:build e2e

package e2e

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/cluster"
	"github.com/node-drainer/node-drainer/test/harness"
)

// agentBinary, triggerBinary and handoverBinary are the programs that the tests run, built with the race detector.
var agentBinary, triggerBinary, handoverBinary string

func TestMain(m *testing.M) {
	flag.Parse()
	_ = flag.Set("test.parallel", "100") // See shared.
	dir, err := os.MkdirTemp("", "node-drainer-e2e-")
	for program, binary := range map[string]*string{
		harness.Agent: &agentBinary, harness.Trigger: &triggerBinary, harness.Handover: &handoverBinary,
	} {
		if err == nil {
			*binary, err = harness.Build(context.Background(), dir, program, harness.Options{Race: true})
		}
	}
	code := 1
	if err == nil {
		code = cluster.Main(m, judgeAccess, judgeActions)
	} else {
		fmt.Fprintln(os.Stderr, err)
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// slots bounds how many tests work on the shared control plane at the same time. They wait more than they compute.
var slots = make(chan struct{}, 12)

// shared returns the shared control plane as soon as the test may work on it. Tests with a control plane of their own take
// longest, so they do not wait.
func shared(t testing.TB) *cluster.Cluster {
	t.Helper()
	slots <- struct{}{}
	t.Cleanup(func() { <-slots })
	return cluster.Shared(t)
}

// The programs have access keys of their own, by which awsim knows what they may call and what they have called.
const (
	agentKey   = "agent"
	triggerKey = "trigger"
)

// called are the AWS actions that the agent has called in all tests. Those of the trigger are judged in test/trigger.
var called = struct {
	sync.Mutex
	byAgent map[string]bool
}{byAgent: map[string]bool{}}

// limit has awsim refuse a program, which it knows by the access key, whatever deploy/iam does not allow it. The test
// fails if the program calls that.
func (f *fixture) limit(program, key, queueARN string) {
	f.t.Helper()
	f.must(harness.Limit(f.aws, program, key, queueARN))
	f.recordCalls(program, key)
}

// recordCalls records at the end of the test what a program has called, for judgeActions.
func (f *fixture) recordCalls(program, key string) {
	f.t.Cleanup(func() {
		for _, call := range f.aws.Unauthorized() {
			if f.refused == "" || !strings.Contains(call, f.refused) {
				f.t.Errorf("not allowed by deploy/iam: %s", call)
			}
		}
		if program != harness.Agent {
			return
		}
		recordUsed(f.aws, key)
	})
}

// recordUsed records what the agent has called with the access key, for judgeActions.
func recordUsed(aws *awsim.Server, key string) {
	called.Lock()
	defer called.Unlock()
	for _, action := range aws.Used(key) {
		called.byAgent[action] = true
	}
}

// judgeActions expects of a run of all tests that the agent has called each action that deploy/iam allows it.
func judgeActions(*cluster.Cluster) error {
	if !isWhole() {
		return nil
	}
	faults, err := harness.CompareActions(harness.Agent, called.byAgent)
	if err == nil && len(faults) > 0 {
		err = fmt.Errorf("%q", faults)
	}
	return err
}
