package main

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/node-drainer/node-drainer/test/cluster"
	"github.com/node-drainer/node-drainer/test/harness"
)

// What the agent sets on a node. It is not imported from the product, so that a change is found.
const (
	markAnnotation   = "node-drainer.io/termination"
	terminatingTaint = "node-drainer.io/terminating"
	drainCondition   = "node-drainer.io/Drained"
)

// recorder records what the watches of pods and nodes show, through outages of the API server.
type recorder struct {
	guarded map[string]bool // Apps with a budget.

	mu    sync.Mutex
	pods  map[string]*pod // By UID.
	nodes map[string]*node
	last  map[string]*corev1.Node // Current nodes by name.
	gaps  []span                  // In which pods may have appeared and disappeared unseen.
}

// record begins to watch, and returns when everything has been listed once.
func record(ctx context.Context, client kubernetes.Interface, guarded map[string]bool) (*recorder, error) {
	r := &recorder{
		guarded: guarded, pods: map[string]*pod{}, nodes: map[string]*node{}, last: map[string]*corev1.Node{},
	}
	core := client.CoreV1().RESTClient()
	return r, errors.Join(
		harness.Follow(ctx, harness.Source{Client: core, Resource: "pods", Missed: r.missed}, r.pod),
		harness.Follow(ctx, harness.Source{Client: core, Resource: "nodes"}, r.node))
}

func (r *recorder) missed(from, to time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gaps = append(r.gaps, span{from, to})
}

func (r *recorder) pod(o *corev1.Pod, gone bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, p := time.Now(), r.pods[string(o.UID)]
	if p == nil {
		p = &pod{
			Namespace: o.Namespace, Name: o.Name, UID: string(o.UID), Guarded: r.guarded[o.Labels[cluster.AppLabel]],
			Seen: span{From: now},
		}
		if g := o.Spec.TerminationGracePeriodSeconds; g != nil {
			p.Grace = time.Duration(*g) * time.Second
		}
		r.pods[p.UID] = p
	}
	if p.Node == "" && o.Spec.NodeName != "" {
		p.Node, p.Bound = o.Spec.NodeName, now
	}
	switch {
	case gone:
		p.Seen.To = now
	case o.DeletionTimestamp != nil && p.SignaledAt.IsZero():
		p.SignaledAt = now
	}
}

func (r *recorder) node(o *corev1.Node, gone bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, n := time.Now(), r.nodes[string(o.UID)]
	if n == nil {
		n = &node{Name: o.Name, InstanceID: harness.InstanceOf(o.Name)}
		r.nodes[string(o.UID)] = n
	}
	if gone {
		n.Gone = now
		delete(r.last, o.Name)
		return
	}
	r.last[o.Name] = o
	if m, ok := readMark(o, now); ok {
		if k := len(n.Marks); k == 0 || !n.Marks[k-1].Deadline.Equal(m.Deadline) {
			n.Marks = append(n.Marks, m)
		}
	}
}

func readMark(o *corev1.Node, now time.Time) (mark, bool) {
	text, ok := o.Annotations[markAnnotation]
	m := mark{Seen: now}
	if !ok || json.Unmarshal([]byte(text), &m) != nil {
		return m, false
	}
	m.Seen = now
	return m, true
}

// daemonSetStalled reports whether a node has had no pod of the DaemonSet for so long that the controller
// must have stalled: after an outage it may wait for five minutes for the watch to show a pod that it has
// created.
func (r *recorder) daemonSetStalled() bool {
	const timeout = 20 * time.Second
	r.mu.Lock()
	defer r.mu.Unlock()
	covered := map[string]bool{}
	for _, p := range r.pods {
		if p.Seen.To.IsZero() && strings.HasPrefix(p.Name, daemonSet+"-") {
			covered[p.Node] = true
		}
	}
	for name, o := range r.last {
		if !covered[name] && time.Since(o.CreationTimestamp.Time) > timeout {
			return true
		}
	}
	return false
}

// leftovers returns what the agents have left on nodes that are not terminating.
func (r *recorder) leftovers(terminating func(instanceID string) bool) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []string
	for name, o := range r.last {
		if left := left(o); left != "" && !terminating(harness.InstanceOf(name)) {
			all = append(all, name+": "+left)
		}
	}
	slices.Sort(all)
	return all
}

// left returns what the agents have set on a node, or "".
func left(o *corev1.Node) string {
	text := ""
	if _, ok := o.Annotations[markAnnotation]; ok {
		text += " annotation"
	}
	if _, ok := o.Labels[corev1.LabelNodeExcludeBalancers]; ok {
		text += " label"
	}
	if o.Spec.Unschedulable {
		text += " cordon"
	}
	if slices.ContainsFunc(o.Spec.Taints, func(t corev1.Taint) bool { return t.Key == terminatingTaint }) {
		text += " taint"
	}
	isOurs := func(c corev1.NodeCondition) bool { return c.Type == drainCondition }
	if slices.ContainsFunc(o.Status.Conditions, isOurs) {
		text += " condition"
	}
	return text
}

// seen returns all pods and nodes that the watches have shown, and when pods may have appeared
// and disappeared unseen.
func (r *recorder) seen() (pods []pod, nodes []node, gaps []span) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.pods {
		pods = append(pods, *p)
	}
	for _, n := range r.nodes {
		n := *n
		n.Marks = slices.Clone(n.Marks)
		nodes = append(nodes, n)
	}
	return pods, nodes, slices.Clone(r.gaps)
}
