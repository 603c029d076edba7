//go:build e2e

package e2e

import (
	"context"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/cluster"
	"github.com/node-drainer/node-drainer/test/harness"
)

const (
	launchHook   = "launch"
	startupTaint = "node.cilium.io/agent-not-ready"
)

// newFixtureThatLaunches makes a fixture whose group makes nodes of the template, and holds them in a launch hook that
// sends to the queue.
func newFixtureThatLaunches(t testing.TB, c *cluster.Cluster, heartbeatTimeout time.Duration, template cluster.Node) *fixture {
	t.Helper()
	f := newFixtureOn(t, c, template)
	f.launchHook(heartbeatTimeout)
	return f
}

// removeNodes removes the nodes of this test that are left.
func (f *fixture) removeNodes() {
	ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
	defer cancel()
	nodes, err := f.cluster.Client().CoreV1().Nodes().List(ctx, metav1.ListOptions{
		LabelSelector: cluster.PoolLabel + "=" + f.namespace,
	})
	f.must(err)
	for _, n := range nodes.Items {
		_, err := f.cluster.RemoveNode(ctx, n.Name)
		f.must(err)
	}
}

// launchHook gives the group a launch hook that sends to the queue.
func (f *fixture) launchHook(heartbeatTimeout time.Duration) {
	f.t.Helper()
	f.must(f.aws.PutHook(group, awsim.Hook{
		Name: launchHook, Transition: awsim.Launching, HeartbeatTimeout: heartbeatTimeout,
		NotificationTargetARN: f.aws.QueueARN(f.queue),
	}))
}

// api is a client of the simulated Auto Scaling.
func (f *fixture) api() *autoscaling.Client {
	return autoscaling.NewFromConfig(harness.AWSConfig(f.aws.URL(), "test"))
}

// launch has the group launch one instance, and no other in its place, and returns when its action has begun.
func (f *fixture) launch() (node string, a awsim.Action) {
	f.t.Helper()
	_, err := f.api().SetDesiredCapacity(f.ctx, &autoscaling.SetDesiredCapacityInput{
		AutoScalingGroupName: aws.String(group), DesiredCapacity: aws.Int32(1),
	})
	f.must(err)
	_, err = f.api().SuspendProcesses(f.ctx, &autoscaling.SuspendProcessesInput{
		AutoScalingGroupName: aws.String(group), ScalingProcesses: []string{"Launch"},
	})
	f.must(err)
	instance := f.aws.Instances(group)[0].ID
	node = cluster.NodeName(instance)
	f.nodes[node] = true
	f.waitState(instance, "Pending:Wait")
	return node, f.aws.Ledger()[0]
}

// change changes the node as another client.
func (f *fixture) change(name string, change func(*corev1.Node)) {
	f.t.Helper()
	nodes := f.cluster.Client().CoreV1().Nodes()
	f.must(retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		n, err := nodes.Get(f.ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(n)
		_, err = nodes.Update(f.ctx, n, metav1.UpdateOptions{})
		return err
	}))
}

// assertHeld expects that the only lifecycle action is not completed yet.
func (f *fixture) assertHeld() {
	f.t.Helper()
	if a := f.aws.Ledger()[0]; !a.ClosedAt.IsZero() {
		f.t.Fatalf("the action was closed by %q with %q too early", a.ClosedBy, a.Result)
	}
}

// TestLaunch: an instance goes into service when its node is Ready, without its startup taint, and has a Ready pod of
// its DaemonSet, one after the other; heartbeats hold it meanwhile.
func TestLaunch(t *testing.T) {
	t.Parallel()
	const timeout = 15 * time.Second
	f := newFixtureThatLaunches(t, shared(t), timeout, cluster.Node{
		Unready: true, Taints: []corev1.Taint{{Key: startupTaint, Effect: corev1.TaintEffectNoExecute}},
	})
	f.must(f.cluster.DaemonSet(f.ctx, f.namespace, "cni", cluster.Pods{Pool: f.namespace, Start: timeout + 4*time.Second}))
	f.must(f.cluster.DaemonSet(f.ctx, f.namespace, "windows", cluster.Pods{
		Pool: f.namespace, NodeSelector: map[string]string{corev1.LabelOSStable: "windows"},
	}))
	agent := f.startAgent("LAUNCH_DAEMONSET_SELECTOR=all")
	node, a := f.launch()
	set := "DaemonSet " + f.namespace + "/cni"
	agent.waitLog("waiting for the node to become ready", "node", node)
	f.assertHeld()
	f.must(f.cluster.MarkReady(f.ctx, node))
	agent.waitLog("waiting for the node to become ready", "node", node, "missing", "taint "+startupTaint+", "+set)
	f.assertHeld()
	f.change(node, func(n *corev1.Node) { n.Spec.Taints = nil })
	agent.waitLog("waiting for the node to become ready", "node", node, "missing", set)
	f.assertHeld()
	closed := f.waitCompleted(a.InstanceID)
	if n, took := len(closed.Heartbeats), closed.ClosedAt.Sub(closed.StartedAt); n < 3 || took < timeout {
		t.Errorf("%d heartbeats in %v", n, took)
	}
	f.waitQueueEmpty()
	f.waitState(a.InstanceID, "InService")
	pods, err := f.cluster.Client().CoreV1().Pods(f.namespace).List(f.ctx, metav1.ListOptions{
		LabelSelector: cluster.Selector("cni"), FieldSelector: "spec.nodeName=" + node,
	})
	f.must(err)
	if len(pods.Items) != 1 || !cluster.IsPodReady(&pods.Items[0]) {
		t.Errorf("the instance is in service with %d pods of its DaemonSet, or one that is not Ready", len(pods.Items))
	}
	agent.waitLog("launch ended", "outcome", "ready", "instance", a.InstanceID)
	if n := agent.metric("node_drainer_launches_total", "ready"); n != 1 {
		t.Errorf("%v launches are counted as serving, want 1", n)
	}
}
