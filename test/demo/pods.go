package main

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/node-drainer/node-drainer/test/cluster"
)

const daemon = "logs" // The DaemonSet.

// view is what is true of the pods at one moment.
type view struct {
	Total    int  // Pods of the Deployment that were on the node in the beginning.
	Gone     int  // Of those, gone.
	Stopping int  // Of those, on their way out.
	Ready    int  // Pods of the Deployment that are ready now, wherever they are.
	Fewest   int  // The fewest that were ever ready.
	Stays    bool // The DaemonSet's pod is on the node, and nobody has asked it to go.
}

// pods follows the pods by a watch: each change of a pod is one sample, so a budget that is broken
// for a moment only is seen.
type pods struct {
	node    string
	changed chan struct{}

	mu     sync.Mutex
	now    map[string]*corev1.Pod // By UID.
	moving map[string]bool        // UIDs of the pods that have to go.
	fewest int
}

// watchPods returns when the pods have been listed once. It follows them until ctx ends.
func watchPods(ctx context.Context, c *cluster.Cluster, node string) (*pods, error) {
	p := &pods{
		node: node, changed: make(chan struct{}, 1), now: map[string]*corev1.Pod{}, moving: map[string]bool{},
	}
	factory := informers.NewSharedInformerFactoryWithOptions(c.Client(), 0, informers.WithNamespace(shop))
	informer := factory.Core().V1().Pods().Informer()
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    p.set,
		UpdateFunc: func(_, obj any) { p.set(obj) },
		DeleteFunc: p.remove,
	})
	if err != nil {
		return nil, err
	}
	factory.StartWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
		return nil, fmt.Errorf("list the pods: %w", context.Cause(ctx))
	}
	return p, p.begin()
}

// begin takes what is on the node now for what has to go.
func (p *pods) begin() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for uid, pod := range p.now {
		if pod.Labels[cluster.AppLabel] == shop && pod.Spec.NodeName == p.node {
			p.moving[uid] = true
		}
	}
	p.fewest = p.ready()
	if len(p.moving) == 0 || p.fewest < replicas {
		return fmt.Errorf("%d pods on node %s, %d ready: too few to begin", len(p.moving), p.node, p.fewest)
	}
	return nil
}

func (p *pods) set(obj any) {
	if pod, ok := obj.(*corev1.Pod); ok {
		p.sample(func() { p.now[string(pod.UID)] = pod })
	}
}

func (p *pods) remove(obj any) {
	if last, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = last.Obj
	}
	if pod, ok := obj.(*corev1.Pod); ok {
		p.sample(func() { delete(p.now, string(pod.UID)) })
	}
}

func (p *pods) sample(change func()) {
	p.mu.Lock()
	change()
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

// view returns what is true now.
func (p *pods) view() view {
	p.mu.Lock()
	defer p.mu.Unlock()
	v := view{Total: len(p.moving), Gone: len(p.moving), Ready: p.ready(), Fewest: p.fewest}
	for uid, pod := range p.now {
		switch {
		case p.moving[uid]:
			v.Gone--
			if pod.DeletionTimestamp != nil {
				v.Stopping++
			}
		case pod.Labels[cluster.AppLabel] == daemon && pod.Spec.NodeName == p.node:
			v.Stays = pod.DeletionTimestamp == nil
		}
	}
	return v
}
