package main

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/node-drainer/node-drainer/test/cluster"
	"github.com/node-drainer/node-drainer/test/harness"
)

const daemonSet = "logs"

// view is the state of the pods at one moment.
type view struct {
	Total    int  // Pods of the Deployment that were on the node at the start.
	Gone     int  // Of those, deleted.
	Stopping int  // Of those, terminating.
	Ready    int  // Pods of the Deployment that are ready, on any node.
	Fewest   int  // The fewest that were ready at any time.
	Stays    bool // The DaemonSet's pod is on the node, and not terminating.
}

// pods follows the pods by a watch. Every change is checked, so that no short violation of a budget is
// missed.
type pods struct {
	node    string
	changed chan struct{}

	mu      sync.Mutex
	now     map[string]*corev1.Pod // By UID.
	leaving map[string]bool        // UIDs of the pods that must leave the node.
	fewest  int
}

// watchPods returns when the pods have been listed once. It follows them until ctx ends.
func watchPods(ctx context.Context, c *cluster.Cluster, node string) (*pods, error) {
	p := &pods{
		node: node, changed: make(chan struct{}, 1), now: map[string]*corev1.Pod{}, leaving: map[string]bool{},
	}
	source := harness.Source{Client: c.Client().CoreV1().RESTClient(), Resource: "pods", Namespace: shop}
	if err := harness.Follow(ctx, source, p.set); err != nil {
		return nil, fmt.Errorf("list the pods: %w", err)
	}
	return p, p.begin()
}

// begin records the pods on the node, which must leave it.
func (p *pods) begin() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for uid, pod := range p.now {
		if pod.Labels[cluster.AppLabel] == shop && pod.Spec.NodeName == p.node {
			p.leaving[uid] = true
		}
	}
	p.fewest = p.ready()
	if len(p.leaving) == 0 || p.fewest < replicas {
		return fmt.Errorf("%d pods on node %s, %d ready: too few to begin", len(p.leaving), p.node, p.fewest)
	}
	return nil
}

func (p *pods) set(pod *corev1.Pod, deleted bool) {
	p.mu.Lock()
	if deleted {
		delete(p.now, string(pod.UID))
	} else {
		p.now[string(pod.UID)] = pod
	}
	p.fewest = min(p.fewest, p.ready())
	p.mu.Unlock()
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

func (p *pods) ready() int {
	n := 0
	for _, pod := range p.now {
		if pod.Labels[cluster.AppLabel] == shop && cluster.IsPodReady(pod) {
			n++
		}
	}
	return n
}

// view returns the current state.
func (p *pods) view() view {
	p.mu.Lock()
	defer p.mu.Unlock()
	v := view{Total: len(p.leaving), Gone: len(p.leaving), Ready: p.ready(), Fewest: p.fewest}
	for uid, pod := range p.now {
		switch {
		case p.leaving[uid]:
			v.Gone--
			if pod.DeletionTimestamp != nil {
				v.Stopping++
			}
		case pod.Labels[cluster.AppLabel] == daemonSet && pod.Spec.NodeName == p.node:
			v.Stays = pod.DeletionTimestamp == nil
		}
	}
	return v
}
