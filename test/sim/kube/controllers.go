package kube

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The annotations of a pod, usually of a template, that say how its containers behave.
const (
	WorkAnnotation   = "sim/work"   // how long it works after SIGTERM, for example 90s; 1 s without it
	StartAnnotation  = "sim/start"  // how long it takes to become Ready; Timing.Start without it
	RunAnnotation    = "sim/run"    // how long it runs until it succeeds; forever without it
	BrokenAnnotation = "sim/broken" // "true": it never becomes Ready
	// FinalizeAnnotation is how long after its deletion something takes the finalizers from it.
	FinalizeAnnotation = "sim/finalize"
	// DetachAnnotation is how long its volumes stay attached when it has left.
	DetachAnnotation = "sim/detach"
)

// Timing is how long the parts of the cluster take. Each time varies at random by up to Jitter of itself.
type Timing struct {
	Replace      time.Duration // from a change until a controller creates pods
	Schedule     time.Duration // from a pod's creation until it is bound to a node
	SchedulerLag time.Duration // how old the scheduler's view of nodes, and of the pods on them, is
	Start        time.Duration // from the binding until the pod is Ready
	Report       time.Duration // from the end of a pod's containers until the kubelet removes the pod
	Count        time.Duration // from a change until the disruption controller has counted it
	Taint        time.Duration // from a change of a node until its taints follow
	NodeReady    time.Duration // from the registration of a node, or its restart, until it is Ready
	NodeLost     time.Duration // without a kubelet until the node is unreachable
	RuntimeLost  time.Duration // without a container runtime until the kubelet reports that the node is not Ready
	Collect      time.Duration // until the pods of a Node that is gone are removed
	Jitter       float64
}

// DefaultTiming is that of an ordinary cluster.
func DefaultTiming() Timing {
	return Timing{
		Replace: 100 * time.Millisecond, Schedule: 100 * time.Millisecond, Start: 5 * time.Second, Report: time.Second,
		Count: 200 * time.Millisecond, Taint: 100 * time.Millisecond, NodeReady: 10 * time.Second,
		NodeLost: 40 * time.Second, RuntimeLost: 4 * time.Minute, Collect: time.Minute, Jitter: 0.5,
	}
}

// Controllers act on the objects of a server.
type Controllers struct {
	*loop
	workloads  workloads
	scheduler  scheduler
	kubelets   kubelets
	nodes      nodeLifecycle
	disruption disruption
	storage    storage
}

// loop is what all controllers use.
type loop struct {
	server  *Server
	timing  Timing
	due     map[key]*timer
	stopped bool
}

// key is an object that a controller will look at.
type key struct {
	controller string
	name       types.NamespacedName
}

// Run starts the controllers. They stop with Stop.
func (s *Server) Run(t Timing) *Controllers {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &loop{server: s, timing: t, due: map[key]*timer{}}
	c := &Controllers{
		loop: l, workloads: workloads{l, map[types.UID]*jobState{}}, nodes: nodeLifecycle{l}, disruption: disruption{l},
		storage:   storage{l},
		scheduler: scheduler{loop: l, pods: map[string]int{}},
		kubelets:  kubelets{loop: l, running: map[string]*kubelet{}, pods: map[types.UID]*containers{}},
	}
	c.kubelets.lost = c.nodes.lose
	s.onChange = append(s.onChange, c.changed)
	for _, r := range resources() {
		for _, e := range *s.tables[r.name] {
			c.changed(&Change{Resource: r.name, New: e.Object, new: e, At: time.Now()})
		}
	}
	return c
}

// Stop stops the controllers for good.
func (c *Controllers) Stop() {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	c.stopped = true
}

// SetSchedulerLag changes how old the scheduler's view is, from the next change on.
func (c *Controllers) SetSchedulerLag(lag time.Duration) {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	c.timing.SchedulerLag = lag
}

// vary returns a time that is up to Jitter shorter or longer.
func (c *loop) vary(d time.Duration) time.Duration {
	return d + time.Duration(float64(d)*c.timing.Jitter*(2*c.server.random.Float64()-1))
}

// after calls reconcile after d, unless the controllers are stopped.
func (c *loop) after(d time.Duration, reconcile func()) *timer {
	return c.server.clock.after(d, func() {
		if !c.stopped {
			reconcile()
		}
	})
}

// enqueue calls reconcile after about d, unless that is due already.
func (c *loop) enqueue(controller string, o Object, d time.Duration, reconcile func(types.NamespacedName)) {
	k := key{controller, nameOf(o)}
	if c.due[k] == nil {
		c.due[k] = c.after(c.vary(d), func() {
			delete(c.due, k)
			reconcile(k.name)
		})
	}
}

// changed has the controllers act on a change.
func (c *Controllers) changed(change *Change) {
	if c.stopped {
		return
	}
	o := change.New
	if o == nil {
		o = change.Old
	}
	switch o := o.(type) {
	case *corev1.Pod:
		c.podChanged(change, o)
	case *corev1.Node:
		c.nodeChanged(change, o)
	case *policyv1.PodDisruptionBudget:
		c.enqueue("disruption", o, c.timing.Count, c.disruption.count)
	default:
		c.workloads.reconcile(o)
	}
}

// podChanged has the owner of a pod, the scheduler or the kubelet, and the budgets of the pod follow.
func (c *Controllers) podChanged(change *Change, pod *corev1.Pod) {
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		c.workloads.ownerOf(pod.Namespace, owner)
	}
	for _, b := range c.server.budgetsOf(pod) {
		c.enqueue("disruption", b, c.timing.Count, c.disruption.count)
	}
	c.scheduler.viewPod(change)
	c.storage.follow(pod, change.New == nil)
	if pod.DeletionTimestamp != nil && len(pod.Finalizers) > 0 && change.New != nil {
		c.enqueue("finalizer", pod, annotated(pod, FinalizeAnnotation, time.Second), c.finalize)
	}
	switch {
	case change.New == nil:
		c.kubelets.forget(pod)
		c.nodes.forget(pod)
	case pod.Spec.NodeName == "":
		c.enqueue("scheduler", pod, c.timing.Schedule, c.scheduler.schedule)
	default:
		c.kubelets.runPod(pod)
		if change.Old == nil || change.Old.(*corev1.Pod).Spec.NodeName == "" { //nolint:forcetypeassert // Pods.
			c.nodes.collectFrom(pod.Spec.NodeName)
			c.nodes.enqueueEvictions(pod.Spec.NodeName)
		}
	}
}

// finalize takes the finalizers from a pod that is deleted, which ends one whose grace period is over.
func (c *Controllers) finalize(name types.NamespacedName) {
	e := c.server.get("pods", name)
	if e == nil || e.GetDeletionTimestamp() == nil {
		return
	}
	if *e.Object.(*corev1.Pod).DeletionGracePeriodSeconds == 0 { //nolint:forcetypeassert // The table has pods.
		c.server.put("finalizer", e.kind, e, nil)
		return
	}
	update(&c.server.store, "finalizer", name, func(p *corev1.Pod) { p.Finalizers = nil })
}

// nodeChanged has the scheduler, the kubelet, the DaemonSets and the taints of a node follow.
func (c *Controllers) nodeChanged(change *Change, node *corev1.Node) {
	c.scheduler.viewNode(change)
	if change.New == nil {
		c.kubelets.nodeRemoved(node)
		c.nodes.collectFrom(node.Name)
		return
	}
	if c.kubelets.running[node.Name] == nil {
		c.kubelets.register(node)
	}
	c.enqueue("node-lifecycle", node, c.timing.Taint, c.nodes.taint)
	c.nodes.enqueueEvictions(node.Name)
	if change.Old != nil && sameForPods(change.Old.(*corev1.Node), node) { //nolint:forcetypeassert // Nodes.
		return
	}
	for _, set := range all[*appsv1.DaemonSet](c.server.tables["daemonsets"]) {
		c.workloads.reconcile(set)
	}
}

// StopKubelet is the death of a machine: its kubelet reports nothing more, and its containers are gone. After
// Timing.NodeLost the node is unreachable.
func (c *Controllers) StopKubelet(node string) {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	c.kubelets.stop(node)
}

// HangRuntime has the container runtime of a machine hang for good: what runs there runs on, and nothing starts or
// ends. After Timing.RuntimeLost the kubelet reports that the node is not Ready. Nobody reports that of its pods, as
// the node lifecycle controller does of the pods of a lost node. It reports whether a kubelet runs there, whose runtime
// did not hang before.
func (c *Controllers) HangRuntime(node string) bool {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	return c.kubelets.hang(node)
}

// StartKubelet starts the kubelet of a machine that was stopped: the node becomes Ready, and its pods start again.
func (c *Controllers) StartKubelet(node string) {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	c.kubelets.start(node, "")
}

// Restart has a machine boot again, with another boot ID, and perhaps another root volume.
func (c *Controllers) Restart(node, bootID string) {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	c.kubelets.stop(node)
	c.kubelets.start(node, bootID)
}
