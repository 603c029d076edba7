//go:build e2e

package realnodes_test

import (
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/test/cluster"
	"github.com/node-drainer/node-drainer/test/realnodes"
)

// TestRollout: no request fails while all nodes are replaced.
func TestRollout(t *testing.T) {
	const nodes, rate = 8, 500
	f := newFixture(t)
	begin := time.Now()
	f.launch(nodes)
	t.Logf("nodes after %v", time.Since(begin))
	f.must(f.cluster.Deploy(t.Context(), cluster.Deployment{
		Namespace: f.namespace, Name: "web", Replicas: 8,
		Pods: cluster.Pods{Change: realnodes.Serve("-go-on=10s", "-ready-after=2s", "-work=10ms")},
	}))
	f.budget("web", "75%")
	f.addHook()
	f.install()
	f.must(f.cluster.WaitReady(f.waits(), f.namespace, cluster.Selector("web"), 8))
	address, err := f.cluster.Service(t.Context(), f.namespace, "web")
	f.must(err)
	f.must(f.cluster.WaitAnswer(f.waits(), "http://"+address+"/"))
	t.Logf("ready after %v", time.Since(begin))
	load := realnodes.StartLoad("http://"+address+"/", rate)
	code, output := f.trigger("--asg", group)
	account := load.Stop()
	t.Logf("replaced after %v: %d requests, slowest %v, %d failed", time.Since(begin), account.Sent, account.Slowest,
		len(account.Failures))
	for _, failure := range account.Failures[:min(10, len(account.Failures))] {
		t.Errorf("%v", failure)
	}
	if code != 0 || t.Failed() {
		t.Errorf("the trigger exited with %d:\n%s", code, output)
		f.explain()
	}
}
