//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/cluster"
)

// patience is how long a test waits for what must come. It is no measure of speed, and longer than the two minutes
// for which the disruption controller counts a pod as disrupted whose eviction was granted and then broken off: what
// an agent that is killed amid its requests can leave behind.
const patience = 4 * time.Minute

// patient is a context for the waits of one test: one that waits for ever takes no other test along.
func patient(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// eventually asks until nothing is wrong any more, of what cannot be watched.
func eventually(t testing.TB, most time.Duration, wrong func() string) {
	t.Helper()
	deadline := time.After(most)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		what := wrong()
		if what == "" {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("still after %v: %s", most, what)
		}
	}
}

const (
	group = "workers"
	hook  = "drain"
)

// world is what a test plays in: its own AWS, and its own nodes and namespace of the shared control plane.
type world struct {
	t          testing.TB
	ctx        context.Context
	aws        *awsim.Server
	cluster    *cluster.Cluster
	namespace  string
	kubeconfig string // of the agent
	viewer     string // of the trigger, which only looks
	user       string // of the agent
	queue      string
	nodes      map[string]bool
	mayKill    bool // pods may be left on a node when its hook completes
}

// newWorld makes a world with a queue, and a group that has no instances and no hooks.
func newWorld(t testing.TB) *world {
	t.Helper()
	return newWorldOn(t, cluster.Shared(t))
}

func newWorldOn(t testing.TB, c *cluster.Cluster) *world {
	t.Helper()
	w := &world{t: t, ctx: t.Context(), cluster: c, nodes: map[string]bool{}}
	w.namespace = w.cluster.Namespace(t)
	aws, err := awsim.New(awsim.Options{
		Machines: w.cluster.Machines(cluster.Node{Pool: w.namespace}),
		Seed:     rand.Uint64(), // of the instance ids, which become names of nodes that all tests see
	})
	w.must(err)
	t.Cleanup(w.removeNodes)
	w.aws = aws
	t.Cleanup(func() {
		w.assertNothingKilled()
		if t.Failed() {
			w.dump()
		}
		w.must(aws.Close())
	})
	w.install(renderAccess)
	w.user = cluster.UserName(w.namespace, agentAccount)
	w.kubeconfig, w.viewer = w.token(agentAccount), w.token(triggerAccount)
	w.queue = aws.CreateQueue("node-drainer", nil)
	w.must(aws.CreateGroup(awsim.Group{
		Name: group, Max: 100, Tags: map[string]string{"kubernetes.io/cluster/demo": "owned"},
	}))
	return w
}

// dump shows how the cluster is, when a test has failed.
func (w *world) dump() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, what := range [][]string{
		{"nodes", "--selector", cluster.PoolLabel + "=" + w.namespace},
		{"deployments,replicasets,pods,poddisruptionbudgets", "--namespace", w.namespace},
		{"events", "--namespace", w.namespace, "--sort-by", ".metadata.creationTimestamp"},
	} {
		out, err := w.cluster.Kubectl(ctx, append([]string{"get", "--output", "wide"}, what...)...)
		w.t.Logf("%s: %v\n%s", what[0], err, out)
	}
}

// hooked is newWorld with a terminating hook that sends to the queue.
func hooked(t testing.TB, heartbeatTimeout time.Duration) *world {
	t.Helper()
	w := newWorld(t)
	w.hook(heartbeatTimeout)
	return w
}

// hook gives the group a terminating hook that sends to the queue.
func (w *world) hook(heartbeatTimeout time.Duration) {
	w.t.Helper()
	w.must(w.aws.PutHook(group, awsim.Hook{
		Name: hook, HeartbeatTimeout: heartbeatTimeout, NotificationTargetARN: w.aws.QueueARN(w.queue),
	}))
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// node adds a node to the cluster and its instance to the group, and returns their names.
func (w *world) node() (name, instanceID string) {
	w.t.Helper()
	instanceID = cluster.NewInstanceID()
	name = w.cluster.Node(w.t, cluster.Node{InstanceID: instanceID, Pool: w.namespace})
	w.nodes[name] = true
	w.must(w.aws.AddInstance(group, instanceID, "eu-central-1a"))
	return name, instanceID
}

// deploy runs n pods of a Deployment, at first all on the node, and waits until they are ready.
func (w *world) deploy(name, node string, n int32, pods cluster.Pods) {
	w.t.Helper()
	pods.Pool, pods.Prefer = w.namespace, node
	w.must(w.cluster.Deploy(w.ctx, cluster.Deployment{Namespace: w.namespace, Name: name, Replicas: n, Pods: pods}))
	w.waitPodsReady(name, int(n))
	if got := len(w.podsOn(node)); got < int(n) {
		w.t.Fatalf("%d of %d pods are on node %s", got, n, node)
	}
}

// waitPodsReady waits until n pods of the workload are ready.
func (w *world) waitPodsReady(name string, n int) {
	w.t.Helper()
	w.must(w.cluster.WaitReady(patient(w.t), w.namespace, cluster.Selector(name), n))
}

// waitRequests waits until an action of Auto Scaling has been called n times.
func (w *world) waitRequests(action string, n int) {
	w.t.Helper()
	w.must(w.aws.WaitRequests(patient(w.t), "autoscaling", action, n))
}

// podsOn returns the names of the pods on the node.
func (w *world) podsOn(node string) []string {
	w.t.Helper()
	list, err := w.cluster.Client().CoreV1().Pods(w.namespace).List(w.ctx,
		metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
	w.must(err)
	var names []string
	for _, p := range list.Items {
		names = append(names, p.Name)
	}
	return names
}

func (w *world) terminate(instanceID string) {
	w.t.Helper()
	w.must(w.aws.Terminate(instanceID, true))
}

// waitClosed waits until every lifecycle action of the instance is over, and returns the last one's record.
func (w *world) waitClosed(instanceID string) awsim.Action {
	w.t.Helper()
	a, err := w.aws.WaitClosed(patient(w.t), instanceID)
	w.must(err)
	return a
}

// waitCompleted is waitClosed for an action that the agent must have completed with CONTINUE, once.
func (w *world) waitCompleted(instanceID string) awsim.Action {
	w.t.Helper()
	a := w.waitClosed(instanceID)
	if a.ClosedBy != awsim.ByCompletion || a.Result != "CONTINUE" {
		w.t.Errorf("the action was closed by %q with %q, want a completion with CONTINUE", a.ClosedBy, a.Result)
	}
	return a
}

// waitQueueEmpty waits until every message has been deleted.
func (w *world) waitQueueEmpty() {
	w.t.Helper()
	if err := w.aws.WaitDrained(patient(w.t), w.queue); err != nil {
		w.t.Fatalf("messages are left in the queue: %+v: %v", w.aws.Queue(w.queue), err)
	}
}

// getNode reads the node from the API server.
func (w *world) getNode(name string) *corev1.Node {
	w.t.Helper()
	n, err := w.cluster.Client().CoreV1().Nodes().Get(w.ctx, name, metav1.GetOptions{})
	w.must(err)
	return n
}

// assertNothingKilled holds for every test: no terminating hook completes while a pod that should have moved is on the
// node. On a node that launches there may be pods, as soon as it is Ready.
func (w *world) assertNothingKilled() {
	for _, a := range w.aws.Ledger() {
		if a.Transition == awsim.Launching {
			continue
		}
		if a.PodsError != "" {
			w.t.Errorf("%s: the pods at its close are not known: %s", a.InstanceID, a.PodsError)
		}
		if !w.mayKill && (len(a.PodsAtClose) > 0 || len(a.Killed) > 0) {
			w.t.Errorf("the action of %s was closed by %q with pods on the node: %q, killed: %q",
				a.InstanceID, a.ClosedBy, a.PodsAtClose, a.Killed)
		}
	}
}

// requests returns the agent's requests to the API server, those that match the verb and the resource.
func (w *world) requests(verb, resource string) []cluster.Request {
	w.t.Helper()
	all, err := w.cluster.Requests(w.t.Context(), w.user)
	w.must(err)
	return slices.DeleteFunc(all, func(r cluster.Request) bool {
		name, sub, _ := strings.Cut(resource, "/")
		return r.Verb != verb || r.Resource != name || r.Subresource != sub
	})
}

// evicted returns the names of the pods whose eviction the API server accepted, in order, each as often as it was.
func (w *world) evicted() []string {
	w.t.Helper()
	var names []string
	for _, r := range w.requests("create", "pods/eviction") {
		if r.Code == http.StatusCreated {
			names = append(names, r.Name)
		}
	}
	return names
}

// assertEvictedOnce holds if every pod of before was evicted once, and no other pod: none was followed to its new
// place, or evicted again after a restart. A pod that a scheduler which lags behind has put on the node again, after
// it was marked, is another matter.
func (w *world) assertEvictedOnce(before []string) {
	w.t.Helper()
	got, want := slices.Sorted(slices.Values(w.evicted())), slices.Sorted(slices.Values(before))
	if slices.Equal(got, want) {
		return
	}
	bound := w.bound()
	from := map[string]bool{}
	for _, pod := range before {
		from[bound[pod]] = true
	}
	rest := slices.DeleteFunc(slices.Clone(got), func(pod string) bool {
		return !slices.Contains(before, pod) && from[bound[pod]]
	})
	if !slices.Equal(rest, want) {
		w.t.Errorf("evicted:\n%q\nwant each pod of the node once:\n%q", got, want)
	}
}

// bound is the node that the scheduler put each pod on, by its own Events.
func (w *world) bound() map[string]string {
	w.t.Helper()
	events, err := w.cluster.Client().CoreV1().Events(w.namespace).List(w.ctx, metav1.ListOptions{
		FieldSelector: "reason=Scheduled",
	})
	w.must(err)
	nodes := map[string]string{}
	for _, e := range events.Items {
		words := strings.Fields(e.Message) // Successfully assigned NAMESPACE/POD to NODE
		nodes[e.InvolvedObject.Name] = words[len(words)-1]
	}
	return nodes
}

// assertEvictedAmidOutage is assertEvicted, less one pod: the ReplicaSet controller, back from an outage of the API
// server with an old picture, may count a pod too many and delete it by itself.
func (w *world) assertEvictedAmidOutage(before []string) {
	w.t.Helper()
	got := slices.Compact(slices.Sorted(slices.Values(w.evicted())))
	for _, pod := range got {
		if !slices.Contains(before, pod) {
			w.t.Errorf("%s was evicted, which was not on the node", pod)
		}
	}
	if len(got) < len(before)-1 {
		w.t.Errorf("evicted: %q of %q", got, before)
	}
}

// isMarked tells whether anything of ours is on the node.
func isMarked(n *corev1.Node) bool {
	_, annotated := n.Annotations[mark]
	_, excluded := n.Labels[corev1.LabelNodeExcludeBalancers]
	return annotated || excluded || n.Spec.Unschedulable || slices.ContainsFunc(n.Spec.Taints,
		func(t corev1.Taint) bool { return t.Key == taint })
}

// assertUnmarked holds if nothing of ours is on the node.
func (w *world) assertUnmarked(name string) {
	w.t.Helper()
	if n := w.getNode(name); isMarked(n) {
		w.t.Errorf("something was left on node %s: annotations %v, labels %v, taints %v, unschedulable %v",
			name, n.Annotations, n.Labels, n.Spec.Taints, n.Spec.Unschedulable)
	}
}

// calls returns the times of the calls of an action of a service.
func (w *world) calls(service, action string) []time.Time {
	var at []time.Time
	for _, c := range w.aws.Calls(service, action) {
		at = append(at, c.At)
	}
	return at
}

// watchReady watches the pods of a workload, and returns a function that tells the lowest number of ready pods,
// not counting those that are being deleted, that there ever was.
func (w *world) watchReady(name string) (lowest func() int) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.ctx)
	var least atomic.Int64
	least.Store(math.MaxInt64)
	begun, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		var once sync.Once
		_ = w.cluster.WaitPods(ctx, w.namespace, cluster.Selector(name), func(pods []*corev1.Pod) bool {
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
	w.t.Cleanup(stop)
	<-begun
	return func() int {
		stop()
		return int(least.Load())
	}
}

// waitEvent waits until a Kubernetes Event with the reason has been recorded for an object of this test.
func (w *world) waitEvent(reason string) {
	w.t.Helper()
	watch, err := w.cluster.Client().CoreV1().Events("").Watch(patient(w.t), metav1.ListOptions{
		FieldSelector: "reason=" + reason, ResourceVersion: "0",
	})
	w.must(err)
	defer watch.Stop()
	for e := range watch.ResultChan() {
		event, ok := e.Object.(*corev1.Event)
		if !ok {
			continue
		}
		if event.InvolvedObject.Namespace == w.namespace || w.nodes[event.InvolvedObject.Name] {
			return
		}
	}
	w.t.Errorf("there is no Event %s", reason)
}

// assertEvicted holds if every pod of before was evicted, and no other pod. A process that was killed, or was cut
// off from the API server, may have asked twice for one pod; never for one in its new place.
func (w *world) assertEvicted(before []string) {
	w.t.Helper()
	var asked []string
	for _, r := range w.requests("create", "pods/eviction") {
		if r.Code != http.StatusTooManyRequests {
			asked = append(asked, r.Name)
		}
	}
	got := slices.Compact(slices.Sorted(slices.Values(asked)))
	if want := slices.Sorted(slices.Values(before)); !slices.Equal(got, want) {
		w.t.Errorf("evicted:\n%q\nwant the pods of the node:\n%q", got, want)
	}
}

// waitState waits until Auto Scaling shows the instance in the state.
func (w *world) waitState(instanceID, state string) {
	w.t.Helper()
	w.must(w.aws.WaitState(patient(w.t), instanceID, state))
}

// waitNode waits until done is true of the node.
func (w *world) waitNode(name string, done func(*corev1.Node) bool) {
	w.t.Helper()
	watch, err := w.cluster.Client().CoreV1().Nodes().Watch(patient(w.t), metav1.ListOptions{
		FieldSelector: "metadata.name=" + name, ResourceVersion: "0",
	})
	w.must(err)
	defer watch.Stop()
	for e := range watch.ResultChan() {
		if n, ok := e.Object.(*corev1.Node); ok && done(n) {
			return
		}
	}
	w.t.Fatalf("node %s is not as it should become within %v", name, patience)
}

// waitReceived waits until SQS has handed out so many messages.
func (w *world) waitReceived(n int) {
	w.t.Helper()
	eventually(w.t, patience, func() string {
		if got := w.aws.Queue(w.queue).Received; got < n {
			return fmt.Sprintf("SQS has handed out %d messages, want %d", got, n)
		}
		return ""
	})
}
