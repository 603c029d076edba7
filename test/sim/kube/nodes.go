package kube

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// nodeLifecycle is the controllers that follow the state of nodes: their taints, the evictions of these, and the
// garbage collection of pods whose Node is gone.
type nodeLifecycle struct{ *loop }

// lose marks a node without a kubelet, and its pods, as not Ready.
func (c *nodeLifecycle) lose(node string) {
	const actor = "node lifecycle controller"
	update(&c.server.store, actor, types.NamespacedName{Name: node}, func(n *corev1.Node) {
		setNodeReady(n, corev1.ConditionUnknown, "NodeStatusUnknown")
	})
	for _, p := range c.server.podsOn(node) {
		update(&c.server.store, actor, nameOf(p), func(p *corev1.Pod) {
			if p.Status.Phase == corev1.PodRunning {
				setCondition(p, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse})
			}
		})
	}
}

// taint gives a node the taints of its state: unschedulable, not Ready, unreachable.
func (c *nodeLifecycle) taint(name types.NamespacedName) {
	update(&c.server.store, "node lifecycle controller", name, func(n *corev1.Node) {
		ready := nodeReady(n)
		notReady := ready != corev1.ConditionTrue && ready != corev1.ConditionUnknown
		setTaint(n, corev1.TaintNodeUnschedulable, corev1.TaintEffectNoSchedule, n.Spec.Unschedulable)
		for _, effect := range []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute} {
			setTaint(n, corev1.TaintNodeNotReady, effect, notReady)
			setTaint(n, corev1.TaintNodeUnreachable, effect, ready == corev1.ConditionUnknown)
		}
	})
}

func setTaint(n *corev1.Node, key string, effect corev1.TaintEffect, wanted bool) {
	i := slices.IndexFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key && t.Effect == effect })
	switch {
	case wanted && i < 0:
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Effect: effect, TimeAdded: new(now())})
	case !wanted && i >= 0:
		n.Spec.Taints = slices.Delete(n.Spec.Taints, i, i+1)
	}
}

// enqueueEvictions has the pods of a node deleted that its NoExecute taints evict.
func (c *nodeLifecycle) enqueueEvictions(node string) {
	n := c.server.node(node)
	if n == nil {
		return
	}
	for _, p := range c.server.podsOn(node) {
		c.enqueueEviction(n, p)
	}
}

// eviction is a pod's deletion to come.
type eviction struct {
	key   key
	timer *timer
}

func (c *nodeLifecycle) evictions(pod *corev1.Pod) *eviction {
	k := key{"taint eviction", types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name + "/" + string(pod.UID)}}
	if t := c.due[k]; t != nil {
		return &eviction{k, t}
	}
	return nil
}

// enqueueEviction has a pod deleted when it does not tolerate the NoExecute taints of its node any more.
func (c *nodeLifecycle) enqueueEviction(node *corev1.Node, pod *corev1.Pod) {
	at, evicted := evictionTime(node, pod)
	if before := c.evictions(pod); before != nil {
		if evicted && before.timer.at.Equal(at) {
			return
		}
		c.server.clock.cancel(before.timer)
		delete(c.due, before.key)
	}
	if !evicted || pod.DeletionTimestamp != nil {
		return
	}
	k := key{"taint eviction", types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name + "/" + string(pod.UID)}}
	c.due[k] = c.after(time.Until(at), func() {
		delete(c.due, k)
		e := c.server.get("pods", nameOf(pod))
		if e == nil || e.GetUID() != pod.UID || e.GetDeletionTimestamp() != nil {
			return
		}
		_ = c.server.deleteWithCondition("taint eviction controller", e, metav1.DeleteOptions{}, "DeletionByTaintManager",
			"Taint manager: deleting due to NoExecute taint")
	})
}

// noticed is how long the controllers need to see a new pod.
const noticed = time.Second

// evictionTime returns when a pod has to leave for a NoExecute taint. The seconds for which it tolerates the taint
// begin when the controller sees both. Source: processPodOnNode in pkg/controller/tainteviction of Kubernetes.
func evictionTime(node *corev1.Node, pod *corev1.Pod) (at time.Time, evicted bool) {
	for _, t := range node.Spec.Taints {
		if t.Effect != corev1.TaintEffectNoExecute {
			continue
		}
		since := pod.CreationTimestamp.Add(noticed)
		if t.TimeAdded != nil && since.Before(t.TimeAdded.Time) {
			since = t.TimeAdded.Time
		}
		i := slices.IndexFunc(pod.Spec.Tolerations, func(o corev1.Toleration) bool {
			return tolerates([]corev1.Toleration{o}, t)
		})
		switch {
		case i < 0:
		case pod.Spec.Tolerations[i].TolerationSeconds == nil:
			continue
		default:
			since = since.Add(seconds(*pod.Spec.Tolerations[i].TolerationSeconds))
		}
		if !evicted || since.Before(at) {
			at, evicted = since, true
		}
	}
	return at, evicted
}

// collectFrom removes the pods of a node after a while, if there is no such Node.
func (c *nodeLifecycle) collectFrom(node string) {
	k := key{"pod garbage collector", types.NamespacedName{Name: node}}
	if c.server.node(node) != nil || c.server.byNode[node] == nil || c.due[k] != nil {
		return
	}
	c.due[k] = c.after(c.vary(c.timing.Collect), func() {
		delete(c.due, k)
		if c.server.node(node) != nil {
			return
		}
		for _, p := range c.server.podsOn(node) {
			update(&c.server.store, "pod garbage collector", nameOf(p), func(p *corev1.Pod) {
				if !isTerminal(p) {
					p.Status.Phase = corev1.PodFailed
					setCondition(p, corev1.PodCondition{
						Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByPodGC",
					})
				}
			})
			if e := c.server.get("pods", nameOf(p)); e != nil {
				c.server.remove("pod garbage collector", e)
			}
		}
	})
}

// forget drops the eviction of a pod that is gone.
func (c *nodeLifecycle) forget(pod *corev1.Pod) {
	if t := c.evictions(pod); t != nil {
		c.server.clock.cancel(t.timer)
		delete(c.due, t.key)
	}
}
