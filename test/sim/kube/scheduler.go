package kube

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corehelpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
)

// scheduler binds pods. It has its own view of nodes, and of the pods on them. Pods that it has to bind it knows at
// once.
type scheduler struct {
	*loop
	nodes   []*corev1.Node // by name
	pods    map[string]int // on each node
	next    time.Time      // when the last change that is not shown yet is shown
	pending []*corev1.Pod  // that fit no node
}

// see calls change when the scheduler's view has reached the present state.
func (c *scheduler) see(change func()) {
	due := time.Now().Add(c.timing.SchedulerLag)
	if due.Before(c.next) {
		due = c.next
	}
	c.next = due
	if !due.After(time.Now()) {
		change()
		return
	}
	c.server.clock.at(due, change)
}

// viewNode has the scheduler see a change of a node.
func (c *scheduler) viewNode(change *Change) {
	c.see(func() {
		if change.New == nil {
			c.setNode(change.Old.GetName(), nil)
			return
		}
		node := change.New.(*corev1.Node) //nolint:forcetypeassert // Only nodes are viewed.
		c.setNode(node.Name, node)
		if change.Old == nil || !sameForPods(change.Old.(*corev1.Node), node) { //nolint:forcetypeassert // Nodes.
			c.retry()
		}
	})
}

func (c *scheduler) setNode(name string, node *corev1.Node) {
	i, found := slices.BinarySearchFunc(c.nodes, name, func(n *corev1.Node, name string) int {
		return cmp.Compare(n.Name, name)
	})
	switch {
	case node == nil && found:
		c.nodes = slices.Delete(c.nodes, i, i+1)
	case node != nil && found:
		c.nodes[i] = node
	case node != nil:
		c.nodes = slices.Insert(c.nodes, i, node)
	}
}

// viewPod has the scheduler see that a pod occupies its node no more. It knows at once what it has bound.
func (c *scheduler) viewPod(change *Change) {
	before, after := occupied(change.Old), occupied(change.New)
	if before == after {
		return
	}
	if after != "" {
		c.pods[after]++
	}
	if before != "" {
		c.see(func() {
			c.pods[before]--
			c.retry()
		})
	}
}

// occupied returns the node on which a pod needs room.
func occupied(o Object) string {
	pod, isPod := o.(*corev1.Pod)
	if !isPod || isTerminal(pod) {
		return ""
	}
	return pod.Spec.NodeName
}

// retry has the scheduler try the pods again that fit no node.
func (c *scheduler) retry() {
	pending := c.pending
	c.pending = nil
	for _, p := range pending {
		c.enqueue("scheduler", p, c.timing.Schedule, c.schedule)
	}
}

// schedule binds a pod to the node that fits and has the fewest pods, and rather not to one with a PreferNoSchedule
// taint. Among equals chance decides.
func (c *scheduler) schedule(name types.NamespacedName) {
	pod := c.server.pod(name)
	if pod == nil || pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil {
		return
	}
	best := c.best(pod)
	if len(best) == 0 {
		if !slices.ContainsFunc(c.pending, func(p *corev1.Pod) bool { return p.UID == pod.UID }) {
			c.pending = append(c.pending, pod)
		}
		c.report(pod)
		return
	}
	node := best[c.server.random.IntN(len(best))].Name
	update(&c.server.store, "scheduler", name, func(p *corev1.Pod) {
		p.Spec.NodeName = node
		setCondition(p, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue})
	})
}

// report writes that a pod fits no node, unless it says so already.
func (c *scheduler) report(pod *corev1.Pod) {
	refused := corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
	}
	if slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Reason == refused.Reason }) {
		return
	}
	update(&c.server.store, "scheduler", nameOf(pod), func(p *corev1.Pod) { setCondition(p, refused) })
}

// best returns the nodes that fit a pod and have the lowest rank.
func (c *scheduler) best(pod *corev1.Pod) (best []*corev1.Node) {
	lowest := 0
	for _, n := range c.nodes {
		if !c.hasRoom(n) || !fits(&pod.Spec, pod.Spec.Tolerations, n) {
			continue
		}
		rank := c.rank(pod, n)
		switch {
		case len(best) == 0 || rank < lowest:
			best, lowest = []*corev1.Node{n}, rank
		case rank == lowest:
			best = append(best, n)
		}
	}
	return best
}

// avoided is more than any number of pods on a node.
const avoided = 1 << 20

// rank is lower for the better of two nodes.
func (c *scheduler) rank(pod *corev1.Pod, n *corev1.Node) int {
	rank := c.pods[n.Name]
	for _, t := range n.Spec.Taints {
		if t.Effect == corev1.TaintEffectPreferNoSchedule && !tolerates(pod.Spec.Tolerations, t) {
			rank += avoided
		}
	}
	return rank
}

// hasRoom reports whether a node can have another pod. Without a limit of its own it can.
func (c *scheduler) hasRoom(n *corev1.Node) bool {
	limit, limited := n.Status.Allocatable[corev1.ResourcePods]
	return !limited || int64(c.pods[n.Name]) < limit.Value()
}

// fits reports whether a pod can be placed on a node: its name, its labels, and its taints. A node that is
// unschedulable is one with that taint.
func fits(spec *corev1.PodSpec, tolerations []corev1.Toleration, n *corev1.Node) bool {
	if spec.NodeName != "" && spec.NodeName != n.Name {
		return false
	}
	unschedulable := corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}
	if n.Spec.Unschedulable && !tolerates(tolerations, unschedulable) {
		return false
	}
	if _, repelled := corehelpers.FindMatchingUntoleratedTaint(klog.Background(), n.Spec.Taints, tolerations,
		func(t *corev1.Taint) bool { return t.Effect != corev1.TaintEffectPreferNoSchedule }, false); repelled {
		return false
	}
	if len(spec.NodeSelector) == 0 && spec.Affinity == nil {
		return true
	}
	matches, _ := nodeaffinity.GetRequiredNodeAffinity(&corev1.Pod{Spec: *spec}).Match(n)
	return matches
}

func tolerates(tolerations []corev1.Toleration, taint corev1.Taint) bool {
	return corehelpers.TolerationsTolerateTaint(klog.Background(), tolerations, &taint, false)
}

// sameForPods reports whether a change of a node changes nothing for the pods that fit.
func sameForPods(a, b *corev1.Node) bool {
	return a.Spec.Unschedulable == b.Spec.Unschedulable &&
		slices.EqualFunc(a.Spec.Taints, b.Spec.Taints, func(a, b corev1.Taint) bool {
			return a.Key == b.Key && a.Value == b.Value && a.Effect == b.Effect
		})
}

// pin has a pod fit one node only.
func pin(p *corev1.Pod, node string) {
	p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchFields: []corev1.NodeSelectorRequirement{{
				Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{node},
			}},
		}}},
	}}
}

// daemonNode returns the node of a pod of a DaemonSet, which is pinned before it is bound.
func daemonNode(p *corev1.Pod) string {
	if p.Spec.NodeName != "" || p.Spec.Affinity == nil {
		return p.Spec.NodeName
	}
	terms := p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	return terms[0].MatchFields[0].Values[0]
}

// daemonTolerations returns those that the DaemonSet controller adds to every pod.
func daemonTolerations() []corev1.Toleration {
	exists := func(key string, effect corev1.TaintEffect) corev1.Toleration {
		return corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: effect}
	}
	return []corev1.Toleration{
		exists(corev1.TaintNodeNotReady, corev1.TaintEffectNoExecute),
		exists(corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute),
		exists(corev1.TaintNodeDiskPressure, corev1.TaintEffectNoSchedule),
		exists(corev1.TaintNodeMemoryPressure, corev1.TaintEffectNoSchedule),
		exists(corev1.TaintNodePIDPressure, corev1.TaintEffectNoSchedule),
		exists(corev1.TaintNodeUnschedulable, corev1.TaintEffectNoSchedule),
	}
}
