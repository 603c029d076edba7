package kube

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// kubelets are those of all nodes.
type kubelets struct {
	*loop
	running map[string]*kubelet // by node
	pods    map[types.UID]*containers
	lost    func(node string) // is called when a node is lost
}

// kubelet is that of one node.
type kubelet struct {
	stopped bool
	hung    bool   // its container runtime does not answer
	ready   *timer // the node becomes Ready
	lost    *timer // the node becomes unreachable
}

// containers are those of one pod on its node.
type containers struct {
	next     *timer    // they start, become Ready, succeed or end
	seen     time.Time // when the kubelet saw that the pod is deleted
	killedAt time.Time // when the grace period has passed
	grace    int64     // that killedAt is of
	restarts bool      // the machine has restarted
}

// annotated returns a time in an annotation of a pod, or another.
func annotated(pod *corev1.Pod, annotation string, otherwise time.Duration) time.Duration {
	if d, err := time.ParseDuration(pod.Annotations[annotation]); err == nil {
		return d
	}
	return otherwise
}

// runPod is how the kubelet of a pod's node follows a change of the pod.
func (c *kubelets) runPod(pod *corev1.Pod) {
	k := c.running[pod.Spec.NodeName]
	if k == nil || k.stopped || k.hung {
		return
	}
	one := c.containersOf(pod)
	switch {
	case pod.DeletionTimestamp != nil:
		c.stopPod(pod, one)
	case isTerminal(pod):
		c.server.clock.cancel(one.next)
	case one.next != nil && one.next.index >= 0: // It waits for the next step.
	case pod.Status.Phase == corev1.PodPending || one.restarts:
		one.restarts = false
		one.next = c.after(c.vary(annotated(pod, StartAnnotation, c.timing.Start)), func() { c.startPod(nameOf(pod)) })
	case pod.Annotations[RunAnnotation] != "":
		d := annotated(pod, RunAnnotation, 0)
		one.next = c.after(d, func() { c.endPod(pod, corev1.PodSucceeded) })
	}
}

// containersOf returns the containers of a pod, which the kubelet of its node may not know yet.
func (c *kubelets) containersOf(pod *corev1.Pod) *containers {
	one := c.pods[pod.UID]
	if one == nil {
		one = &containers{}
		c.pods[pod.UID] = one
	}
	return one
}

// startPod has the containers of a pod run.
func (c *kubelets) startPod(name types.NamespacedName) {
	update(&c.server.store, "kubelet", name, func(p *corev1.Pod) {
		if p.Status.Phase == corev1.PodPending {
			p.Status.Phase = corev1.PodRunning
			p.Status.StartTime = new(now())
		}
		status := corev1.ConditionTrue
		if p.Annotations[BrokenAnnotation] == "true" {
			status = corev1.ConditionFalse
		}
		setCondition(p, corev1.PodCondition{Type: corev1.ContainersReady, Status: status})
		setCondition(p, corev1.PodCondition{Type: corev1.PodReady, Status: status})
	})
}

// stopPod stops the containers of a pod that is deleted: they end when they have finished their work, or are killed
// when the grace period has passed. A shorter grace period counts from the time when the kubelet sees it.
func (c *kubelets) stopPod(pod *corev1.Pod, one *containers) {
	if isTerminal(pod) {
		one.next = c.after(c.vary(c.timing.Report), func() { c.removePod(pod) })
		return
	}
	grace := *pod.DeletionGracePeriodSeconds
	if !one.seen.IsZero() && grace >= one.grace {
		return
	}
	if one.seen.IsZero() {
		one.seen = time.Now()
	}
	one.grace, one.killedAt = grace, time.Now().Add(seconds(grace))
	ends := one.seen.Add(annotated(pod, WorkAnnotation, time.Second))
	if pod.Status.Phase == corev1.PodPending || one.restarts {
		ends = time.Now()
	}
	how := corev1.PodSucceeded
	if ends.After(one.killedAt) {
		ends, how = one.killedAt, corev1.PodFailed
	}
	if pod.Annotations[RunAnnotation] != "" {
		how = corev1.PodFailed // Its work is not done.
	}
	c.server.clock.cancel(one.next)
	one.next = c.after(time.Until(ends), func() { c.endPod(pod, how) })
}

// endPod writes that the containers of a pod have ended.
func (c *kubelets) endPod(pod *corev1.Pod, how corev1.PodPhase) {
	reason := "PodCompleted"
	if how == corev1.PodFailed {
		reason = "PodFailed"
	}
	update(&c.server.store, "kubelet", nameOf(pod), func(p *corev1.Pod) {
		if p.UID == pod.UID {
			p.Status.Phase = how
			setCondition(p, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: reason})
		}
	})
}

// removePod removes a deleted pod whose containers have ended.
func (c *kubelets) removePod(pod *corev1.Pod) {
	if e := c.server.get("pods", nameOf(pod)); e != nil && e.GetUID() == pod.UID {
		c.server.remove("kubelet", e)
	}
}

// forget forgets the containers of a pod that is gone.
func (c *kubelets) forget(pod *corev1.Pod) {
	if one := c.pods[pod.UID]; one != nil {
		c.server.clock.cancel(one.next)
		delete(c.pods, pod.UID)
	}
}

// stop is StopKubelet with the lock.
func (c *kubelets) stop(node string) {
	k := c.running[node]
	if k == nil || k.stopped {
		return
	}
	k.stopped = true
	c.server.clock.cancel(k.ready)
	c.server.clock.cancel(k.lost)
	for _, p := range c.server.podsOn(node) {
		if one := c.pods[p.UID]; one != nil {
			c.server.clock.cancel(one.next)
			c.pods[p.UID] = &containers{restarts: true}
		}
	}
	k.lost = c.after(c.timing.NodeLost, func() { c.lost(node) })
}

// hang is HangRuntime with the lock.
func (c *kubelets) hang(node string) bool {
	k := c.running[node]
	if k == nil || k.stopped || k.hung {
		return false
	}
	k.hung = true
	c.server.clock.cancel(k.ready)
	for _, p := range c.server.podsOn(node) {
		if one := c.pods[p.UID]; one != nil {
			c.server.clock.cancel(one.next)
		}
	}
	k.lost = c.after(c.timing.RuntimeLost, func() {
		update(&c.server.store, "kubelet", types.NamespacedName{Name: node}, func(n *corev1.Node) {
			setNodeReady(n, corev1.ConditionFalse, "KubeletNotReady")
		})
	})
	return true
}

// start is StartKubelet and Restart with the lock.
func (c *kubelets) start(node, bootID string) {
	k := c.running[node]
	if k == nil || !k.stopped {
		return
	}
	k.stopped, k.hung = false, false
	c.server.clock.cancel(k.lost)
	update(&c.server.store, "kubelet", types.NamespacedName{Name: node}, func(n *corev1.Node) {
		if bootID != "" {
			n.Status.NodeInfo.BootID = bootID
		}
		setNodeReady(n, corev1.ConditionFalse, "KubeletNotReady")
	})
	c.becomeReady(node)
	for _, p := range c.server.podsOn(node) {
		c.restartPod(p)
	}
}

// restartPod starts the containers of a pod again when the machine has started. Those that never restart have failed.
func (c *kubelets) restartPod(pod *corev1.Pod) {
	if pod.Spec.RestartPolicy == corev1.RestartPolicyNever && pod.Status.Phase == corev1.PodRunning {
		c.endPod(pod, corev1.PodFailed)
	} else if pod.Status.Phase == corev1.PodRunning {
		update(&c.server.store, "kubelet", nameOf(pod), func(p *corev1.Pod) {
			setCondition(p, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse})
		})
	}
	if current := c.server.pod(nameOf(pod)); current != nil {
		c.runPod(current)
	}
}

// becomeReady has a node become Ready after a while.
func (c *kubelets) becomeReady(node string) {
	c.running[node].ready = c.after(c.vary(c.timing.NodeReady), func() {
		update(&c.server.store, "kubelet", types.NamespacedName{Name: node}, func(n *corev1.Node) {
			setNodeReady(n, corev1.ConditionTrue, "KubeletReady")
		})
	})
}

func setNodeReady(n *corev1.Node, status corev1.ConditionStatus, why string) {
	for i := range n.Status.Conditions {
		if c := &n.Status.Conditions[i]; c.Type == corev1.NodeReady {
			if c.Status != status {
				c.Status, c.Reason, c.LastTransitionTime = status, why, now()
			}
			return
		}
	}
	n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{
		Type: corev1.NodeReady, Status: status, Reason: why, LastTransitionTime: now(), LastHeartbeatTime: now(),
	})
}

func nodeReady(n *corev1.Node) corev1.ConditionStatus {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status
		}
	}
	return ""
}

// register starts the kubelet of a new node. One that does not say whether it is Ready becomes so after a while.
func (c *kubelets) register(node *corev1.Node) {
	c.running[node.Name] = &kubelet{}
	if nodeReady(node) == "" {
		update(&c.server.store, "kubelet", nameOf(node), func(n *corev1.Node) {
			setNodeReady(n, corev1.ConditionFalse, "KubeletNotReady")
		})
		c.becomeReady(node.Name)
	}
	for _, p := range c.server.podsOn(node.Name) {
		c.runPod(p)
	}
}

// nodeRemoved ends the kubelet of a Node that is gone.
func (c *kubelets) nodeRemoved(node *corev1.Node) {
	if k := c.running[node.Name]; k != nil {
		c.server.clock.cancel(k.ready)
		c.server.clock.cancel(k.lost)
		delete(c.running, node.Name)
	}
	for _, p := range c.server.podsOn(node.Name) {
		if one := c.pods[p.UID]; one != nil {
			c.server.clock.cancel(one.next)
			c.pods[p.UID] = &containers{} // A Node of the same name may register before they are collected.
		}
	}
}
