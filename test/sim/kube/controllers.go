package kube

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/kubectl/pkg/util/podutils"
)

// Timing is how long the parts of the cluster take.
type Timing struct {
	Replace  time.Duration // from the deletion of a pod until its ReplicaSet creates another
	Schedule time.Duration // until a pod is bound to a node
	NodeView time.Duration // how old the scheduler's view of the nodes is
	Start    time.Duration // from the binding until the pod is Ready
	Stop     func(*corev1.Pod) time.Duration
	Count    time.Duration // until the disruption controller has counted a change
	Collect  time.Duration // until the pods of a Node that is gone are removed
}

// controllers are the parts of a cluster that act on its objects: ReplicaSets, the scheduler, kubelets, the disruption
// controller, and the garbage collector of pods.
type controllers struct {
	server *Server
	timing Timing
	random *rand.Rand

	deleted map[types.UID]time.Time // when a kubelet saw that its pod is deleted
	orphans map[types.UID]time.Time // when the Node of a pod was found to be gone
}

// Run runs the controllers until ctx ends. The seed decides to which node a pod goes.
func (s *Server) Run(ctx context.Context, t Timing, seed uint64) {
	c := &controllers{
		server: s, timing: t, random: rand.New(rand.NewPCG(seed, 0)),
		deleted: map[types.UID]time.Time{}, orphans: map[types.UID]time.Time{},
	}
	go c.loop(ctx, t.Replace, c.replace)
	go c.loop(ctx, t.Schedule, c.schedule)
	go c.loop(ctx, 0, c.runPods)
	go c.loop(ctx, t.Count, c.count)
	go c.loop(ctx, 0, c.collect)
}

// loop calls reconcile so long after each change, and at the time that it returns, if that is not zero.
func (c *controllers) loop(ctx context.Context, lag time.Duration, reconcile func() time.Time) {
	for {
		_, changed := c.server.Changes(c.server.count())
		var due <-chan time.Time
		if next := reconcile(); !next.IsZero() {
			due = time.After(time.Until(next))
		}
		select {
		case <-due:
		case <-changed:
			if sleep(ctx, lag) != nil {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// replace creates the pods that ReplicaSets lack.
func (c *controllers) replace() time.Time {
	pods := List[*corev1.Pod](c.server)
	for _, set := range List[*appsv1.ReplicaSet](c.server) {
		have := 0
		for _, p := range pods {
			if metav1.IsControlledBy(p, set) && p.DeletionTimestamp == nil && !isTerminal(p) {
				have++
			}
		}
		for ; have < int(*set.Spec.Replicas); have++ {
			pod := &corev1.Pod{ObjectMeta: *set.Spec.Template.ObjectMeta.DeepCopy(), Spec: *set.Spec.Template.Spec.DeepCopy()}
			pod.Namespace, pod.Name = set.Namespace, fmt.Sprintf("%s-%d", set.Name, c.server.next())
			pod.OwnerReferences = []metav1.OwnerReference{
				*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("ReplicaSet")),
			}
			pod.Status.Phase = corev1.PodPending
			_ = c.server.Create(pod) // The name is new.
		}
	}
	return time.Time{}
}

// schedule binds pods to nodes that were schedulable as long ago as the scheduler's view is old.
func (c *controllers) schedule() time.Time {
	nodes := c.server.nodesAt(time.Now().Add(-c.timing.NodeView))
	nodes = slices.DeleteFunc(nodes, func(n *corev1.Node) bool {
		return n.Spec.Unschedulable || slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool {
			return t.Effect != corev1.TaintEffectPreferNoSchedule
		})
	})
	if len(nodes) == 0 {
		return time.Now().Add(max(c.timing.NodeView, time.Second))
	}
	for _, p := range List[*corev1.Pod](c.server) {
		if p.Spec.NodeName == "" {
			node := nodes[c.random.IntN(len(nodes))].Name
			Update(c.server, nameOf(p), func(p *corev1.Pod) { p.Spec.NodeName = node })
		}
	}
	return time.Time{}
}

// runPods is the kubelets: they start the pods of their nodes, and stop those that are deleted.
func (c *controllers) runPods() (next time.Time) {
	nodes := map[string]bool{}
	for _, n := range List[*corev1.Node](c.server) {
		nodes[n.Name] = true
	}
	for _, p := range List[*corev1.Pod](c.server) {
		if !nodes[p.Spec.NodeName] {
			continue
		}
		due, act := c.nextOf(p)
		switch {
		case act == nil:
		case !due.After(time.Now()):
			act()
		case next.IsZero() || due.Before(next):
			next = due
		}
	}
	return next
}

// nextOf returns what the kubelet does with a pod next, and when.
func (c *controllers) nextOf(p *corev1.Pod) (time.Time, func()) {
	switch {
	case p.DeletionTimestamp != nil:
		seen, known := c.deleted[p.UID]
		if !known {
			seen = time.Now()
			c.deleted[p.UID] = seen
		}
		ends := seen.Add(c.timing.Stop(p))
		if p.DeletionTimestamp.Time.Before(ends) {
			ends = p.DeletionTimestamp.Time
		}
		return ends, func() { Remove[*corev1.Pod](c.server, nameOf(p)) }
	case p.Status.Phase == corev1.PodPending:
		return c.server.changedAt(p).Add(c.timing.Start), func() {
			Update(c.server, nameOf(p), func(p *corev1.Pod) {
				p.Status.Phase = corev1.PodRunning
				p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
			})
		}
	}
	return time.Time{}, nil
}

// count writes the status of the PodDisruptionBudgets, as the disruption controller does.
func (c *controllers) count() time.Time {
	pods := List[*corev1.Pod](c.server)
	for _, b := range List[*policyv1.PodDisruptionBudget](c.server) {
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err != nil {
			continue
		}
		expected, healthy := c.expected(b, selector), 0
		disrupted := map[string]metav1.Time{}
		for _, p := range pods {
			if p.Namespace != b.Namespace || !selector.Matches(labels.Set(p.Labels)) {
				continue
			}
			at, evicted := b.Status.DisruptedPods[p.Name]
			switch {
			case evicted && p.DeletionTimestamp == nil:
				disrupted[p.Name] = at
			case p.DeletionTimestamp == nil && podutils.IsPodReady(p):
				healthy++
			}
		}
		c.writeStatus(b, expected, healthy, disrupted)
	}
	return time.Time{}
}

// expected returns how many pods the ReplicaSets that a budget protects should have.
func (c *controllers) expected(b *policyv1.PodDisruptionBudget, selector labels.Selector) (n int) {
	for _, set := range List[*appsv1.ReplicaSet](c.server) {
		if set.Namespace == b.Namespace && selector.Matches(labels.Set(set.Spec.Template.Labels)) {
			n += int(*set.Spec.Replicas)
		}
	}
	return n
}

func (c *controllers) writeStatus(
	b *policyv1.PodDisruptionBudget, expected, healthy int, disrupted map[string]metav1.Time,
) {
	desired := expected
	if b.Spec.MinAvailable != nil {
		desired, _ = intstr.GetScaledValueFromIntOrPercent(b.Spec.MinAvailable, expected, true)
	} else if b.Spec.MaxUnavailable != nil {
		most, _ := intstr.GetScaledValueFromIntOrPercent(b.Spec.MaxUnavailable, expected, true)
		desired = max(0, expected-most)
	}
	Update(c.server, nameOf(b), func(b *policyv1.PodDisruptionBudget) {
		b.Status.ObservedGeneration = b.Generation
		b.Status.ExpectedPods, b.Status.CurrentHealthy = int32(expected), int32(healthy)
		b.Status.DesiredHealthy = int32(desired)
		b.Status.DisruptionsAllowed = int32(max(0, healthy-desired))
		b.Status.DisruptedPods = nil
		if len(disrupted) > 0 {
			b.Status.DisruptedPods = disrupted
		}
	})
}

// collect removes pods whose Node is gone.
func (c *controllers) collect() (next time.Time) {
	nodes := map[string]bool{"": true}
	for _, n := range List[*corev1.Node](c.server) {
		nodes[n.Name] = true
	}
	for _, p := range List[*corev1.Pod](c.server) {
		if nodes[p.Spec.NodeName] {
			continue
		}
		found, known := c.orphans[p.UID]
		if !known {
			found = time.Now()
			c.orphans[p.UID] = found
		}
		due := found.Add(c.timing.Collect)
		switch {
		case !due.After(time.Now()):
			Remove[*corev1.Pod](c.server, nameOf(p))
		case next.IsZero() || due.Before(next):
			next = due
		}
	}
	return next
}
