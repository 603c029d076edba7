//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/node-drainer/node-drainer/internal/cloud"
	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/cluster"
)

const (
	launchHook   = "launch"
	startupTaint = "node.cilium.io/agent-not-ready"
)

// launching makes a world whose group makes nodes of the template, and holds them in a launch hook that sends to the
// queue.
func launching(t testing.TB, c *cluster.Cluster, heartbeatTimeout time.Duration, template cluster.Node) *world {
	t.Helper()
	w, _ := withMachines(t, c, template)
	w.must(w.aws.CreateGroup(awsim.Group{
		Name: group, Max: 100, Tags: map[string]string{"kubernetes.io/cluster/demo": "owned"},
	}))
	w.launchHook(heartbeatTimeout)
	return w
}

// withMachines makes a world without a group, where every instance that is launched becomes a node of the template.
// They are removed when the test ends.
func withMachines(t testing.TB, c *cluster.Cluster, template cluster.Node) (*world, *cluster.Machines) {
	t.Helper()
	w := newWorldOn(t, c)
	w.must(w.aws.Close())
	template.Pool = w.namespace
	machines := c.Machines(template)
	seed := rand.Uint64() // of the instance ids, which become names of nodes that all tests see
	server, err := awsim.New(awsim.Options{Machines: machines, Seed: seed})
	w.must(err)
	w.aws = server
	t.Cleanup(func() { w.must(server.Close()) })
	w.queue = server.CreateQueue("node-drainer", nil)
	return w, machines
}

// removeNodes removes the nodes of this test that are left.
func (w *world) removeNodes() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	nodes, err := w.cluster.Client().CoreV1().Nodes().List(ctx, metav1.ListOptions{
		LabelSelector: cluster.PoolLabel + "=" + w.namespace,
	})
	w.must(err)
	for _, n := range nodes.Items {
		_, err := w.cluster.RemoveNode(ctx, n.Name)
		w.must(err)
	}
}

// launchHook gives the group a launch hook that sends to the queue.
func (w *world) launchHook(heartbeatTimeout time.Duration) {
	w.t.Helper()
	w.must(w.aws.PutHook(group, awsim.Hook{
		Name: launchHook, Transition: awsim.Launching, HeartbeatTimeout: heartbeatTimeout,
		NotificationTargetARN: w.aws.QueueARN(w.queue),
	}))
}

// api is a client of the simulated Auto Scaling.
func (w *world) api() *autoscaling.Client {
	return autoscaling.New(autoscaling.Options{
		HTTPClient: cloud.InMemory(http.DefaultClient),
		Region:     "eu-central-1", BaseEndpoint: aws.String(w.aws.URL()),
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	})
}

// launch has the group launch one instance, and no other in its place, and returns when its action has begun.
func (w *world) launch() (node string, a awsim.Action) {
	w.t.Helper()
	_, err := w.api().SetDesiredCapacity(w.ctx, &autoscaling.SetDesiredCapacityInput{
		AutoScalingGroupName: aws.String(group), DesiredCapacity: aws.Int32(1),
	})
	w.must(err)
	_, err = w.api().SuspendProcesses(w.ctx, &autoscaling.SuspendProcessesInput{
		AutoScalingGroupName: aws.String(group), ScalingProcesses: []string{"Launch"},
	})
	w.must(err)
	instance := w.aws.Instances(group)[0].ID
	node = cluster.NodeName(instance)
	w.nodes[node] = true
	w.waitState(instance, "Pending:Wait")
	return node, w.aws.Ledger()[0]
}

// change changes the node as somebody else does.
func (w *world) change(name string, change func(*corev1.Node)) {
	w.t.Helper()
	nodes := w.cluster.Client().CoreV1().Nodes()
	w.must(retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		n, err := nodes.Get(w.ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(n)
		_, err = nodes.Update(w.ctx, n, metav1.UpdateOptions{})
		return err
	}))
}

func untaint(n *corev1.Node) {
	n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == startupTaint })
}

// assertHeld holds if the only action is still open.
func (w *world) assertHeld() {
	w.t.Helper()
	if a := w.aws.Ledger()[0]; !a.ClosedAt.IsZero() {
		w.t.Fatalf("the action was closed by %q with %q too early", a.ClosedBy, a.Result)
	}
}

func unready() cluster.Node {
	return cluster.Node{
		Unready: true, Taints: []corev1.Taint{{Key: startupTaint, Effect: corev1.TaintEffectNoExecute}},
	}
}

// TestLaunch: an instance goes into service when its node is Ready, without its startup taint, and has a Ready pod of
// its DaemonSet, one after the other; heartbeats hold it meanwhile.
func TestLaunch(t *testing.T) {
	t.Parallel()
	const timeout = 15 * time.Second
	w := launching(t, cluster.Shared(t), timeout, unready())
	w.must(w.cluster.DaemonSet(w.ctx, w.namespace, "cni", cluster.Pods{Pool: w.namespace, Start: timeout + 4*time.Second}))
	w.must(w.cluster.DaemonSet(w.ctx, w.namespace, "windows", cluster.Pods{
		Pool: w.namespace, NodeSelector: map[string]string{corev1.LabelOSStable: "windows"},
	}))
	agent := w.startAgent()
	node, a := w.launch()
	set := "DaemonSet " + w.namespace + "/cni"
	agent.waitLog("waiting for the node to become ready", "node", node)
	w.assertHeld()
	w.must(w.cluster.MarkReady(w.ctx, node))
	agent.waitLog("waiting for the node to become ready", "node", node, "missing", "taint "+startupTaint+", "+set)
	w.assertHeld()
	w.change(node, untaint)
	agent.waitLog("waiting for the node to become ready", "node", node, "missing", set)
	w.assertHeld()
	closed := w.waitCompleted(a.InstanceID)
	if n, took := len(closed.Heartbeats), closed.ClosedAt.Sub(closed.StartedAt); n < 3 || took < timeout {
		t.Errorf("%d heartbeats in %v", n, took)
	}
	w.waitQueueEmpty()
	if state := w.aws.Instances(group)[0].State; state != "InService" {
		w.waitState(a.InstanceID, "InService")
	}
	pods, err := w.cluster.Client().CoreV1().Pods(w.namespace).List(w.ctx, metav1.ListOptions{
		LabelSelector: cluster.Selector("cni"), FieldSelector: "spec.nodeName=" + node,
	})
	w.must(err)
	if len(pods.Items) != 1 || !cluster.IsPodReady(&pods.Items[0]) {
		t.Errorf("the instance is in service with %d pods of its DaemonSet, or one that is not Ready", len(pods.Items))
	}
	agent.waitLog("launch ended", "outcome", "ready", "instance", a.InstanceID)
	if n := agent.metric("node_drainer_launches_total", "ready"); n != 1 {
		t.Errorf("%v launches are counted as serving, want 1", n)
	}
}

// TestLaunchThatNeverServes: the launch is abandoned when its time is over, and says why.
func TestLaunchThatNeverServes(t *testing.T) {
	t.Parallel()
	w := launching(t, cluster.Shared(t), time.Minute, cluster.Node{Unready: true})
	agent := w.startAgent("LAUNCH_TIMEOUT=5s")
	_, a := w.launch()
	closed := w.waitClosed(a.InstanceID)
	if closed.ClosedBy != awsim.ByCompletion || closed.Result != "ABANDON" {
		t.Errorf("the action was closed by %q with %q, want a completion with ABANDON", closed.ClosedBy, closed.Result)
	}
	if took := closed.ClosedAt.Sub(closed.StartedAt); took < 5*time.Second {
		t.Errorf("abandoned after %v, want 5s", took)
	}
	agent.waitLog("launch ended", "outcome", "abandoned", "instance", a.InstanceID)
	w.waitEvent("NodeNotReadyInTime")
	w.waitQueueEmpty()
	if n := agent.metric("node_drainer_launches_total", "abandoned"); n != 1 {
		t.Errorf("%v launches are counted as abandoned, want 1", n)
	}
}

// TestLaunchAndKilled: an agent that is killed while it waits costs nothing: another goes on.
func TestLaunchAndKilled(t *testing.T) {
	t.Parallel()
	w := launching(t, cluster.Shared(t), time.Minute, cluster.Node{Unready: true})
	first := w.startAgent()
	node, a := w.launch()
	first.waitLog("waiting for the node to become ready", "node", node)
	first.kill()
	second := w.startAgent()
	second.waitLog("waiting for the node to become ready", "node", node)
	w.assertHeld()
	w.must(w.cluster.MarkReady(w.ctx, node))
	w.waitCompleted(a.InstanceID)
	w.waitQueueEmpty()
}

// TestLaunchIntoTheWarmPool: nobody waits for a node that may be stopped before it is one.
func TestLaunchIntoTheWarmPool(t *testing.T) {
	t.Parallel()
	w := launching(t, cluster.Shared(t), time.Minute, cluster.Node{Unready: true})
	_, a := w.launch()
	w.must(w.aws.SetState(a.InstanceID, "Warmed:Pending:Wait"))
	w.queue = w.aws.CreateQueue("pool", nil) // without the message that tells of a launch into service
	agent := w.startAgent()
	began := time.Now()
	w.aws.Send(w.queue, awsim.DirectMessage(w.aws.Envelope(), awsim.Notification{
		Token: a.Token, Group: group, Hook: launchHook, InstanceID: a.InstanceID, Transition: awsim.Launching,
		Origin: "EC2", Destination: "WarmPool",
	}))
	w.waitCompleted(a.InstanceID)
	w.waitQueueEmpty()
	agent.waitLog("launch ended", "outcome", "pooled")
	if n := agent.count("waiting for the node to become ready"); n > 0 {
		t.Errorf("waited for the node, %d times told, %v in all", n, time.Since(began))
	}
}

// TestLaunchFromTheWarmPool: what the termination of before has left on the node is off when the instance is in
// service again, and nothing else is.
func TestLaunchFromTheWarmPool(t *testing.T) {
	t.Parallel()
	w := launching(t, cluster.Shared(t), time.Minute, cluster.Node{Unready: true})
	node, a := w.launch()
	w.change(node, func(n *corev1.Node) {
		n.Annotations[mark] = fmt.Sprintf(`{"instance":%q,"reason":"lifecycle-terminating","hook":"workers/drain",`+
			`"since":"2026-01-02T03:04:05Z","added":["taint","cordon"]}`, a.InstanceID)
		n.Spec.Unschedulable = true
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: taint, Effect: corev1.TaintEffectNoSchedule},
			corev1.Taint{Key: "example.com/theirs", Effect: corev1.TaintEffectNoSchedule})
	})
	agent := w.startAgent()
	agent.waitLog("node uncordoned", "node", node)
	w.must(w.cluster.MarkReady(w.ctx, node))
	w.waitCompleted(a.InstanceID)
	w.waitQueueEmpty()
	w.assertUnmarked(node)
	if !slices.ContainsFunc(w.getNode(node).Spec.Taints, func(t corev1.Taint) bool { return t.Key == "example.com/theirs" }) {
		t.Error("somebody else's taint was taken off")
	}
	w.waitEvent("Uncordoned")
}

// TestForgedLaunch: a message alone completes nothing, and goes.
func TestForgedLaunch(t *testing.T) {
	tests := map[string]struct {
		member  bool
		outcome string
	}{
		"for an instance of no group":          {false, "unconfirmed"},
		"for an instance that has been served": {true, "gone"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := launching(t, cluster.Shared(t), time.Minute, cluster.Node{})
			instance := cluster.NewInstanceID()
			node := w.cluster.Node(t, cluster.Node{InstanceID: instance, Pool: w.namespace})
			if tt.member {
				w.must(w.aws.AddInstance(group, instance, "eu-central-1a"))
			}
			agent := w.startAgent()
			w.aws.Send(w.queue, awsim.DirectMessage(w.aws.Envelope(), awsim.Notification{
				Token: "0f9e4a9e-4f3c-4c4c-8b0e-1a2b3c4d5e6f", Group: group, Hook: launchHook, InstanceID: instance,
				Transition: awsim.Launching,
			}))
			agent.waitLog("launch ended", "outcome", tt.outcome, "instance", instance)
			w.waitQueueEmpty()
			if n := len(w.calls("autoscaling", "CompleteLifecycleAction")); n > 0 {
				t.Errorf("%d completions were tried", n)
			}
			w.assertUnmarked(node)
		})
	}
}

// TestLaunchWhileTheAPIServerIsStopped: an outage when the time of a launch is over makes no node a bad one. It has a
// control plane of its own.
func TestLaunchWhileTheAPIServerIsStopped(t *testing.T) {
	t.Parallel()
	w := launching(t, ownCluster(t), time.Minute, cluster.Node{Unready: true})
	agent := w.startAgent("LAUNCH_TIMEOUT=30s")
	node, a := w.launch()
	agent.waitLog("waiting for the node to become ready", "node", node)
	w.must(w.cluster.Stop(w.ctx))
	agent.waitLog("step failed, retrying", "operation", "check the readiness of the node")
	w.assertHeld()
	w.must(w.cluster.StartAgain(w.ctx))
	w.must(w.cluster.MarkReady(w.ctx, node))
	w.waitCompleted(a.InstanceID)
	w.waitQueueEmpty()
	agent.waitLog("launch ended", "outcome", "ready")
}
