//go:build e2e

package e2e

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/cluster"
)

// TestNodeSelector: two agents share a queue. Each handles the nodes that its selector matches. While the agent of a node
// is away, the other one neither touches the node nor its hook.
func TestNodeSelector(t *testing.T) {
	t.Parallel()
	const team = "example.com/team"
	f := newFixtureWithHook(t)
	ours, instance := f.node()
	theirs, other := f.node()
	f.node()
	for node, name := range map[string]string{ours: "a", theirs: "b"} {
		f.change(node, func(n *corev1.Node) { n.Labels[team] = name })
	}
	f.deploy("api", theirs, 2, cluster.Pods{})
	selector := "NODE_SELECTOR=" + cluster.PoolLabel + "=" + f.namespace + "," + team
	agent := f.startAgent(selector+"=a", "RESYNC_INTERVAL=1s", "NODE_REGISTRATION_TIMEOUT=0s")
	f.terminate(other)
	f.terminate(instance)
	f.waitCompleted(instance)
	agent.waitLog("termination ended", "outcome", "other-agent", "instance", other)
	agent.waitLog("message handled", "outcome", "released")
	f.waitResyncs(2)
	f.assertUntouched(other, hook)
	f.assertUnmarked(theirs)
	if n := len(f.podsOn(theirs)); n != 2 {
		t.Errorf("%d pods are on the node of the other agent, want 2", n)
	}
	f.startAgent(selector + "=b")
	f.waitHandled(other)
}

// TestHooksOfOthers: the resync leaves alone a hook without a target, which EventBridge reports to another tool.
func TestHooksOfOthers(t *testing.T) {
	t.Parallel()
	f := newFixtureWithHook(t)
	const backup = "backup"
	f.must(f.aws.PutHook(group, awsim.Hook{Name: backup, HeartbeatTimeout: time.Hour}))
	node, instance := f.node()
	f.node()
	f.deploy("api", node, 2, cluster.Pods{})
	agent := f.startAgent("RESYNC_INTERVAL=1s")
	f.terminate(instance)
	agent.waitLog("termination ended", "outcome", "drained", "hook", hook)
	f.waitQueueEmpty()
	f.waitResyncs(2)
	f.assertUntouched(instance, backup)
}

// waitResyncs waits for so many complete resyncs from now on.
func (f *fixture) waitResyncs(n int) {
	f.t.Helper()
	const action = "DescribeAutoScalingGroups" // three times for each resync
	f.waitRequests(action, f.aws.Requests()["autoscaling."+action]+3*(n+1))
}

// assertUntouched expects that the hook still holds the instance, and that no agent has sent a heartbeat for it.
func (f *fixture) assertUntouched(instanceID, hook string) {
	f.t.Helper()
	for _, a := range f.aws.Ledger() {
		if a.InstanceID != instanceID || a.Hook != hook {
			continue
		}
		if len(a.Heartbeats) > 0 || len(a.Completions) > 0 || !a.ClosedAt.IsZero() {
			f.t.Errorf("the action of another owner was touched: %+v", a)
		}
		return
	}
	f.t.Errorf("hook %s does not hold %s", hook, instanceID)
}
