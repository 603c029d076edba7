//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/cluster"
)

// waitTimeout bounds each wait of a test. It does not measure speed. It is longer than the two minutes for which the
// disruption controller counts a pod as disrupted whose eviction was allowed and then not carried out, which an agent
// that is killed can cause.
const waitTimeout = 4 * time.Minute

const (
	group = "workers"
	hook  = "drain"
)

// fixture is what one test has for itself: a simulated AWS, and nodes and a namespace of the shared control plane.
type fixture struct {
	t          testing.TB
	ctx        context.Context
	aws        *awsim.Server
	cluster    *cluster.Cluster
	machines   *cluster.Machines // the nodes of the instances that the group launches
	namespace  string
	program    string // that is the agent
	kubeconfig string // of the agent
	viewer     string // of the trigger, which may only read
	user       string // of the agent
	queue      string
	nodes      map[string]bool
	mayKill    bool   // pods may be left on a node when its hook completes
	refused    string // the action that programs may call although deploy/iam does not allow it; empty is none
}

// newFixture returns a fixture with a queue, and a group without instances and hooks.
func newFixture(t testing.TB) *fixture {
	t.Helper()
	return newFixtureOn(t, shared(t), cluster.Node{})
}

// newFixtureOn is newFixture on a control plane, with nodes of the template for the instances that the group launches.
func newFixtureOn(t testing.TB, c *cluster.Cluster, template cluster.Node) *fixture {
	t.Helper()
	f := newFixtureWithoutGroup(t, c, template)
	f.must(f.aws.CreateGroup(awsim.Group{Name: group, Max: 100, Tags: owned}))
	return f
}

// owned are the tags of the groups of the agent's cluster.
var owned = map[string]string{"kubernetes.io/cluster/demo": "owned"}

func newFixtureWithoutGroup(t testing.TB, c *cluster.Cluster, template cluster.Node) *fixture {
	t.Helper()
	f := &fixture{t: t, ctx: t.Context(), cluster: c, program: agentBinary, nodes: map[string]bool{}}
	f.namespace = f.cluster.Namespace(t)
	template.Pool = f.namespace
	f.machines = c.Machines(template)
	// The instance ids become names of nodes in the shared cluster.
	aws, err := awsim.New(awsim.Options{Machines: f.machines, Seed: rand.Uint64()})
	f.must(err)
	t.Cleanup(f.removeNodes)
	f.aws = aws
	t.Cleanup(func() {
		f.assertNothingKilled()
		if t.Failed() {
			f.dump()
		}
		f.must(aws.Close())
	})
	f.install(renderAccess)
	f.user = cluster.UserName(f.namespace, agentAccount)
	f.kubeconfig, f.viewer = f.token(agentAccount), f.token(triggerAccount)
	f.queue = aws.CreateQueue("node-drainer", nil)
	return f
}

// dump logs the objects of a test that has failed.
func (f *fixture) dump() {
	ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
	defer cancel()
	for _, what := range [][]string{
		{"nodes", "--selector", cluster.PoolLabel + "=" + f.namespace},
		{"deployments,replicasets,pods,poddisruptionbudgets", "--namespace", f.namespace},
		{"events", "--namespace", f.namespace, "--sort-by", ".metadata.creationTimestamp"},
	} {
		out, err := f.cluster.Kubectl(ctx, append([]string{"get", "--output", "wide"}, what...)...)
		f.t.Logf("%s: %v\n%s", what[0], err, out)
	}
}

// hookTimeout is the heartbeat timeout of hooks. A minute is the shortest one for which the agent sends heartbeats in
// time on a busy machine, so tests that are not about heartbeats have more.
const hookTimeout = 5 * time.Minute

// newFixtureWithHook is newFixture with a terminating hook that sends to the queue.
func newFixtureWithHook(t testing.TB) *fixture {
	t.Helper()
	f := newFixture(t)
	f.addHook(hookTimeout)
	return f
}

// addHook gives the group a terminating hook that sends to the queue.
func (f *fixture) addHook(heartbeatTimeout time.Duration) {
	f.t.Helper()
	f.must(f.aws.PutHook(group, awsim.Hook{
		Name: hook, HeartbeatTimeout: heartbeatTimeout, NotificationTargetARN: f.aws.QueueARN(f.queue),
	}))
}

func (f *fixture) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// node adds a node to the cluster and its instance to the group, and returns their names.
func (f *fixture) node() (name, instanceID string) {
	f.t.Helper()
	instanceID = cluster.NewInstanceID()
	name = f.cluster.Node(f.t, cluster.Node{InstanceID: instanceID, Pool: f.namespace})
	f.nodes[name] = true
	f.must(f.aws.AddInstance(group, instanceID, "eu-central-1a"))
	return name, instanceID
}

// deploy runs n pods of a Deployment, at first all on the node, and waits until they are ready.
func (f *fixture) deploy(name, node string, n int32, pods cluster.Pods) {
	f.t.Helper()
	pods.Pool, pods.Prefer = f.namespace, node
	f.must(f.cluster.Deploy(f.ctx, cluster.Deployment{Namespace: f.namespace, Name: name, Replicas: n, Pods: pods}))
	f.waitPodsReady(name, int(n))
	if got := len(f.podsOn(node)); got < int(n) {
		f.t.Fatalf("%d of %d pods are on node %s", got, n, node)
	}
}

// waitPodsReady waits until n pods of the workload are ready.
func (f *fixture) waitPodsReady(name string, n int) {
	f.t.Helper()
	f.must(f.cluster.WaitReady(waits(f.t), f.namespace, cluster.Selector(name), n))
}

// waitRequests waits until an action of Auto Scaling has been called n times.
func (f *fixture) waitRequests(action string, n int) {
	f.t.Helper()
	f.must(f.aws.WaitRequests(waits(f.t), "autoscaling", action, n))
}

// podsOn returns the names of the pods on the node.
func (f *fixture) podsOn(node string) []string {
	f.t.Helper()
	return f.podNames(metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
}

// podsOf returns the names of the pods of a workload.
func (f *fixture) podsOf(name string) []string {
	f.t.Helper()
	return f.podNames(metav1.ListOptions{LabelSelector: cluster.Selector(name)})
}

func (f *fixture) podNames(o metav1.ListOptions) (names []string) {
	f.t.Helper()
	list, err := f.cluster.Client().CoreV1().Pods(f.namespace).List(f.ctx, o)
	f.must(err)
	for _, p := range list.Items {
		names = append(names, p.Name)
	}
	return names
}

func (f *fixture) terminate(instanceID string) {
	f.t.Helper()
	f.must(f.aws.Terminate(instanceID, true))
}

// waitClosed waits until every lifecycle action of the instance is over, and returns the last one's record.
func (f *fixture) waitClosed(instanceID string) awsim.Action {
	f.t.Helper()
	a, err := f.aws.WaitClosed(waits(f.t), instanceID)
	f.must(err)
	return a
}

// waitCompleted is waitClosed for an action that the agent must have completed with CONTINUE, once.
func (f *fixture) waitCompleted(instanceID string) awsim.Action {
	f.t.Helper()
	a := f.waitClosed(instanceID)
	if a.ClosedBy != awsim.ByCompletion || a.Result != "CONTINUE" {
		f.t.Errorf("the action was closed by %q with %q, want a completion with CONTINUE", a.ClosedBy, a.Result)
	}
	return a
}

// waitHandled is waitCompleted, and waits until every message has been deleted.
func (f *fixture) waitHandled(instanceID string) awsim.Action {
	f.t.Helper()
	a := f.waitCompleted(instanceID)
	f.waitQueueEmpty()
	return a
}

// waitQueueEmpty waits until every message has been deleted.
func (f *fixture) waitQueueEmpty() {
	f.t.Helper()
	if err := f.aws.WaitDrained(waits(f.t), f.queue); err != nil {
		f.t.Fatalf("messages are left in the queue: %+v: %v", f.aws.Queue(f.queue), err)
	}
}

// getNode reads the node from the API server.
func (f *fixture) getNode(name string) *corev1.Node {
	f.t.Helper()
	n, err := f.cluster.Client().CoreV1().Nodes().Get(f.ctx, name, metav1.GetOptions{})
	f.must(err)
	return n
}

// watchReady watches the pods of a workload, and returns a function that returns the lowest number of ready pods
// since then. Pods that are being deleted do not count.
func (f *fixture) watchReady(name string) (lowest func() int) {
	f.t.Helper()
	ctx, cancel := context.WithCancel(f.ctx)
	var least atomic.Int64
	least.Store(math.MaxInt64)
	begun, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		var once sync.Once
		_ = f.cluster.WaitPods(ctx, f.namespace, cluster.Selector(name), func(pods []*corev1.Pod) bool {
			ready := 0
			for _, p := range pods {
				if cluster.IsPodReady(p) {
					ready++
				}
			}
			least.Store(min(least.Load(), int64(ready)))
			once.Do(func() { close(begun) })
			return false
		})
	}()
	stop := func() {
		cancel()
		<-done
	}
	f.t.Cleanup(stop)
	<-begun
	return func() int {
		stop()
		return int(least.Load())
	}
}

// waitEvent waits until a Kubernetes Event with the reason has been recorded for an object of this test.
func (f *fixture) waitEvent(reason string) {
	f.t.Helper()
	watch, err := f.cluster.Client().CoreV1().Events("").Watch(waits(f.t), metav1.ListOptions{
		FieldSelector: "reason=" + reason, ResourceVersion: "0",
	})
	f.must(err)
	defer watch.Stop()
	for e := range watch.ResultChan() {
		event, ok := e.Object.(*corev1.Event)
		if !ok {
			continue
		}
		if event.InvolvedObject.Namespace == f.namespace || f.nodes[event.InvolvedObject.Name] {
			return
		}
	}
	f.t.Errorf("there is no Event %s", reason)
}

// waitState waits until Auto Scaling shows the instance in the state.
func (f *fixture) waitState(instanceID, state string) {
	f.t.Helper()
	f.must(f.aws.WaitState(waits(f.t), instanceID, state))
}

// waitNode waits until done is true of the node.
func (f *fixture) waitNode(name string, done func(*corev1.Node) bool) {
	f.t.Helper()
	watch, err := f.cluster.Client().CoreV1().Nodes().Watch(waits(f.t), metav1.ListOptions{
		FieldSelector: "metadata.name=" + name, ResourceVersion: "0",
	})
	f.must(err)
	defer watch.Stop()
	for e := range watch.ResultChan() {
		if n, ok := e.Object.(*corev1.Node); ok && done(n) {
			return
		}
	}
	f.t.Fatalf("node %s is not in the expected state after %v", name, waitTimeout)
}

// waitReceived waits until SQS has handed out so many messages.
func (f *fixture) waitReceived(n int) {
	f.t.Helper()
	eventually(f.t, waitTimeout, func() string {
		if got := f.aws.Queue(f.queue).Received; got < n {
			return fmt.Sprintf("SQS has handed out %d messages, want %d", got, n)
		}
		return ""
	})
}
