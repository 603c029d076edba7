//go:build e2e

package e2e

import (
	"net/http"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/test/cluster"
)

// TestAPIServerOutage stops the API server for longer than a Lease, a hook's heartbeat timeout and a launch's own timeout.
// Nothing is completed meanwhile: the leader holds the hooks. Afterwards the drain and the launch go on. The test has a
// control plane of its own.
func TestAPIServerOutage(t *testing.T) {
	t.Parallel()
	const heartbeatTimeout, outage = 30 * time.Second, 35 * time.Second
	c := ownCluster(t)
	launching := newFixtureThatLaunches(t, c, heartbeatTimeout, cluster.Node{Unready: true})
	agent := launching.startAgent("LAUNCH_TIMEOUT=30s")
	node, launch := launching.launch()
	agent.waitLog("waiting for the node to become ready", "node", node)

	f := newFixtureOn(t, c, cluster.Node{})
	f.addHook(heartbeatTimeout)
	old, instance := f.node()
	f.node()
	f.deploy("api", old, 4, cluster.Pods{Stop: 3 * time.Second})
	f.must(c.MinAvailable(f.ctx, f.namespace, "api", "3"))
	before := f.podsOf("api")
	leader, standby := f.pair()
	f.terminate(instance)
	leader.waitLog("pod evicted")

	f.must(c.Stop(f.ctx))
	<-time.After(outage) // The length of the outage is what is tested.
	for _, p := range []*agentProcess{leader, standby} {
		p.waitReadyz(http.StatusServiceUnavailable, "has not been reached")
		p.assertHealthy()
	}
	f.assertHeld()
	launching.assertHeld()
	f.must(c.StartAgain(f.ctx))
	f.must(c.MarkReady(f.ctx, node))

	f.waitHandled(instance)
	f.assertEvictedDuringOutage(before)
	launching.waitCompleted(launch.InstanceID)
	agent.waitLog("launch ended", "outcome", "ready")
}

// TestAPIServerWithoutStreamingLists: an older API server does not know watches that begin with a list. There each cache
// lists first, which takes a right of its own.
func TestAPIServerWithoutStreamingLists(t *testing.T) {
	t.Parallel()
	const without = "KUBE_FEATURE_WatchListClient=false" // what client-go finds out by itself there
	f := newFleet(t, latest(2))
	f.outdate()
	f.install(renderTainting)
	for _, kubeconfig := range []string{f.viewer, f.token(taintingAccount)} {
		f.runTrigger([]string{"KUBECONFIG=" + kubeconfig, without}, "plan", "--asg", group).waitExit(0, `2 of 2`)
	}
	f.startAgent(without)
	f.terminate(f.old[0])
	f.waitCompleted(f.old[0])
	for _, resource := range []string{"nodes", "daemonsets", "poddisruptionbudgets", "volumeattachments"} {
		if len(f.requests("list", resource)) == 0 {
			t.Errorf("the agent has not listed the %s", resource)
		}
	}
}
