package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/node-drainer/node-drainer/test/cluster"
	"github.com/node-drainer/node-drainer/test/harness"
)

// observer records, from watches, when the pods, nodes and budgets of one round change.
type observer struct {
	mu       sync.Mutex
	changed  chan struct{} // Closed and renewed at each change.
	draining map[string]bool

	pods      map[types.UID]seenPod
	apps      map[string]string // The workload of each pod that ever was, by name.
	ready     int
	left      int // Pods on the nodes to drain.
	emptiedAt time.Time

	marked    map[string]time.Time
	healthy   map[string]int32 // Pods that each budget has counted.
	allowed   map[string]int32
	crossings []crossing
}

// seenPod is what the observer knows of a pod.
type seenPod struct{ ready, draining bool }

// crossing is a moment at which a budget began or ceased to allow an eviction.
type crossing struct {
	Budget string
	At     time.Time
	Open   bool
}

// observe begins to watch the namespace and its nodes, whose pool has the name of the namespace.
func observe(
	ctx context.Context, client kubernetes.Interface, namespace string, draining []string,
) (*observer, error) {
	o := &observer{
		changed: make(chan struct{}), draining: map[string]bool{}, pods: map[types.UID]seenPod{},
		apps: map[string]string{}, marked: map[string]time.Time{}, healthy: map[string]int32{},
		allowed: map[string]int32{},
	}
	for _, name := range draining {
		o.draining[name] = true
	}
	core, policy := client.CoreV1().RESTClient(), client.PolicyV1().RESTClient()
	pods := harness.Source{Client: core, Resource: "pods", Namespace: namespace}
	nodes := harness.Source{Client: core, Resource: "nodes", Labels: cluster.PoolLabel + "=" + namespace}
	budgets := harness.Source{Client: policy, Resource: "poddisruptionbudgets", Namespace: namespace}
	return o, errors.Join(
		harness.Follow(ctx, pods, o.pod),
		harness.Follow(ctx, nodes, o.node),
		harness.Follow(ctx, budgets, o.budget))
}

// shrinkPod clears what the benchmark does not read, to save memory.
func shrinkPod(p *corev1.Pod) {
	p.Annotations, p.ManagedFields = nil, nil
	p.Spec = corev1.PodSpec{NodeName: p.Spec.NodeName}
	p.Status = corev1.PodStatus{Conditions: p.Status.Conditions}
}

// update changes the record, and wakes wait.
func (o *observer) update(change func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	change()
	close(o.changed)
	o.changed = make(chan struct{})
}

func (o *observer) pod(p *corev1.Pod, gone bool) {
	now := time.Now()
	shrinkPod(p)
	o.update(func() {
		o.apps[p.Name] = p.Labels[cluster.AppLabel]
		before := o.pods[p.UID]
		after := seenPod{ready: cluster.IsPodReady(p), draining: o.draining[p.Spec.NodeName]}
		if gone {
			after = seenPod{}
			delete(o.pods, p.UID)
		} else {
			o.pods[p.UID] = after
		}
		o.ready += count(after.ready) - count(before.ready)
		o.left += count(after.draining) - count(before.draining)
		if before.draining && !after.draining {
			o.emptiedAt = now
		}
	})
}

func count(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

func (o *observer) node(n *corev1.Node, gone bool) {
	now := time.Now()
	o.update(func() {
		if _, known := o.marked[n.Name]; !known && !gone && o.draining[n.Name] && isMarked(n) {
			o.marked[n.Name] = now
		}
	})
}

// isMarked reports whether the node was made unschedulable, by a cordon or by a taint that is not
// Kubernetes' own.
func isMarked(n *corev1.Node) bool {
	for _, t := range n.Spec.Taints {
		if t.Effect == corev1.TaintEffectNoSchedule && !strings.HasPrefix(t.Key, "node.kubernetes.io/") {
			return true
		}
	}
	return n.Spec.Unschedulable
}

func (o *observer) budget(b *policyv1.PodDisruptionBudget, gone bool) {
	now := time.Now()
	o.update(func() {
		if gone || b.Status.ObservedGeneration < b.Generation {
			return
		}
		before, known := o.allowed[b.Name]
		after := b.Status.DisruptionsAllowed
		o.allowed[b.Name], o.healthy[b.Name] = after, b.Status.CurrentHealthy
		if known && (before > 0) != (after > 0) {
			o.crossings = append(o.crossings, crossing{Budget: b.Name, At: now, Open: after > 0})
		}
	})
}

// wait returns when done is true; done may read all of the observer.
func (o *observer) wait(ctx context.Context, what string, done func() bool) error {
	for {
		o.mu.Lock()
		ok, changed := done(), o.changed
		now := fmt.Sprintf("%d pods exist, %d are ready, %d are on the nodes to drain",
			len(o.pods), o.ready, o.left)
		o.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("wait for %s (%s): %w", what, now, context.Cause(ctx))
		}
	}
}
