//go:build e2e

package e2e

import (
	"bytes"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/cluster"
)

// assertNothingKilled holds for every test: no terminating hook completes while a pod that should have moved is on the
// node, but for that of EKS, and no pod runs when the machine ends. On a node that launches there may be pods, as soon as
// it is Ready.
func (f *fixture) assertNothingKilled() {
	for _, a := range f.aws.Ledger() {
		if a.Transition == awsim.Launching {
			continue
		}
		if a.PodsError != "" {
			f.t.Errorf("%s: the pods at its close are not known: %s", a.InstanceID, a.PodsError)
		}
		left := len(a.PodsAtClose) > 0 && a.Hook != awsim.EKSTerminateHook
		if !f.mayKill && (left || len(a.Killed) > 0) {
			f.t.Errorf("the action of %s was closed by %q with pods on the node: %q, killed: %q",
				a.InstanceID, a.ClosedBy, a.PodsAtClose, a.Killed)
		}
	}
}

// assertEvictedOnce expects that every pod of before was evicted once, and no other pod. It allows one exception: the
// scheduler may have bound another pod to the node before it saw the taint.
func (f *fixture) assertEvictedOnce(before []string) {
	f.t.Helper()
	got, want := slices.Sorted(slices.Values(f.evicted())), slices.Sorted(slices.Values(before))
	if slices.Equal(got, want) {
		return
	}
	bound := f.bound()
	from := map[string]bool{}
	for _, pod := range before {
		from[bound[pod]] = true
	}
	rest := slices.DeleteFunc(slices.Clone(got), func(pod string) bool {
		return !slices.Contains(before, pod) && from[bound[pod]]
	})
	if !slices.Equal(rest, want) {
		f.t.Errorf("evicted:\n%q\nwant each pod of the node once:\n%q", got, want)
	}
}

// assertEvictedDuringOutage is assertEvicted, less one pod: the ReplicaSet controller, back from an outage of the API
// server whose cache is stale, may count a pod too many and delete it by itself.
func (f *fixture) assertEvictedDuringOutage(before []string) {
	f.t.Helper()
	got := slices.Compact(slices.Sorted(slices.Values(f.evicted())))
	for _, pod := range got {
		if !slices.Contains(before, pod) {
			f.t.Errorf("%s was evicted, which was not on the node", pod)
		}
	}
	if len(got) < len(before)-1 {
		f.t.Errorf("evicted: %q of %q", got, before)
	}
}

// assertUnmarked expects that no taint, label, annotation or cordon of the agent is on the node.
func (f *fixture) assertUnmarked(name string) {
	f.t.Helper()
	if n := f.getNode(name); isMarked(n) {
		f.t.Errorf("something was left on node %s: annotations %v, labels %v, taints %v, unschedulable %v",
			name, n.Annotations, n.Labels, n.Spec.Taints, n.Spec.Unschedulable)
	}
}

// assertEvicted expects that every pod of before was evicted, and no other pod. An agent that was killed, or had lost the
// API server, may have evicted a pod twice.
func (f *fixture) assertEvicted(before []string) {
	f.t.Helper()
	var evicted []string
	for _, r := range f.requests("create", "pods/eviction") {
		if r.Code != http.StatusTooManyRequests {
			evicted = append(evicted, r.Name)
		}
	}
	got := slices.Compact(slices.Sorted(slices.Values(evicted)))
	if want := slices.Sorted(slices.Values(before)); !slices.Equal(got, want) {
		f.t.Errorf("evicted:\n%q\nwant the pods of the node:\n%q", got, want)
	}
}

// isMarked reports whether a taint, label, annotation or cordon of the agent is on the node.
func isMarked(n *corev1.Node) bool {
	_, annotated := n.Annotations[mark]
	_, excluded := n.Labels[corev1.LabelNodeExcludeBalancers]
	return annotated || excluded || n.Spec.Unschedulable || slices.ContainsFunc(n.Spec.Taints,
		func(t corev1.Taint) bool { return t.Key == taint })
}

// bound returns the node that each pod was bound to, by the scheduler's Events.
func (f *fixture) bound() map[string]string {
	f.t.Helper()
	events, err := f.cluster.Client().CoreV1().Events(f.namespace).List(f.ctx, metav1.ListOptions{
		FieldSelector: "reason=Scheduled",
	})
	f.must(err)
	nodes := map[string]string{}
	for _, e := range events.Items {
		words := strings.Fields(e.Message) // Successfully assigned NAMESPACE/POD to NODE
		nodes[e.InvolvedObject.Name] = words[len(words)-1]
	}
	return nodes
}

// evicted returns the names of the pods whose eviction the API server accepted, in order, each as often as it was.
func (f *fixture) evicted() []string {
	f.t.Helper()
	var names []string
	for _, r := range f.requests("create", "pods/eviction") {
		if r.Code == http.StatusCreated {
			names = append(names, r.Name)
		}
	}
	return names
}

// requests returns the agent's requests to the API server, those that match the verb and the resource.
func (f *fixture) requests(verb, resource string) []cluster.Request {
	f.t.Helper()
	all, err := f.cluster.Requests(f.t.Context(), f.user)
	f.must(err)
	return slices.DeleteFunc(all, func(r cluster.Request) bool {
		return r.Verb != verb || r.FullResource() != resource
	})
}

// calls returns the times of the calls of an action of a service.
func (f *fixture) calls(service, action string) []time.Time {
	var at []time.Time
	for _, c := range f.aws.Calls(service, action) {
		at = append(at, c.At)
	}
	return at
}

// assertReleased expects that the agent has made its message visible. It judges the call and not the queue: a receive that
// is canceled in this moment may still take the message, in SQS too, until its visibility timeout.
func (f *fixture) assertReleased(p *agentProcess) {
	f.t.Helper()
	visible := slices.ContainsFunc(f.aws.Calls("sqs", "ChangeMessageVisibilityBatch"), func(c awsim.Call) bool {
		return c.Code == "" && bytes.Contains(c.Body, []byte(`"VisibilityTimeout":0`))
	})
	if !visible || p.Count("message handled", "outcome", "released") != 1 {
		f.t.Error("the agent has not made its message visible")
	}
}
