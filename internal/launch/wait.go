package launch

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	informers "k8s.io/client-go/informers/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/node-drainer/node-drainer/internal/retry"
)

// wait watches one Node, and the pods on it.
type wait struct {
	*Waiter
	name    string
	node    cache.SharedIndexInformer
	pods    cache.SharedIndexInformer // nil if DaemonSets are not waited for
	changed chan struct{}
	stop    context.CancelFunc
	workers sync.WaitGroup
}

// watch watches the named Node and its pods, and returns when they have been listed.
func (w *Waiter) watch(ctx context.Context, name string) (*wait, error) {
	one := &wait{Waiter: w, name: name, changed: make(chan struct{}, 1)}
	one.node = informers.NewFilteredNodeInformer(w.client, 0, cache.Indexers{}, func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
	})
	watched := []cache.SharedIndexInformer{one.node}
	synced := []cache.DoneChecker{one.node.HasSyncedChecker()}
	if w.sets != nil {
		one.pods = informers.NewFilteredPodInformer(w.client, metav1.NamespaceAll, 0, cache.Indexers{},
			func(o *metav1.ListOptions) { o.FieldSelector = onNode(name) })
		watched = append(watched, one.pods)
		synced = append(synced, one.pods.HasSyncedChecker(), w.seen.HasSyncedChecker())
	}
	for _, informer := range watched {
		if _, err := notify(informer, strip, one.wakeUp); err != nil {
			return nil, fmt.Errorf("watch node %s and its pods: %w", name, err)
		}
	}
	watching, stop := context.WithCancel(ctx)
	one.stop = stop
	for _, informer := range watched {
		one.workers.Go(func() { retry.Watch(watching, informer) })
	}
	w.waits.Store(one, nil)
	if !cache.WaitFor(ctx, "", synced...) {
		one.end()
		return nil, context.Cause(ctx)
	}
	return one, nil
}

func (o *wait) end() {
	o.stop()
	o.waits.Delete(o)
	o.workers.Wait()
}

func (o *wait) wakeUp() {
	select {
	case o.changed <- struct{}{}:
	default:
	}
}

// missing returns what the Node still needs, from the watches.
func (o *wait) missing() []string {
	var node *corev1.Node
	if obj, ok, _ := o.node.GetStore().GetByKey(o.name); ok {
		node, _ = obj.(*corev1.Node)
	}
	var pods []*corev1.Pod
	if o.pods != nil {
		pods, _ = corelisters.NewPodLister(o.pods.GetIndexer()).List(labels.Everything()) // which never fails
	}
	return o.rules.missing(node, o.daemonSets(), pods)
}

// strip keeps the fields of a Node or a pod that the rules read.
func strip(obj any) (any, error) {
	switch one := obj.(type) {
	case *corev1.Node:
		kept := &corev1.Node{ObjectMeta: identity(one.ObjectMeta)}
		kept.Labels = one.Labels
		kept.Spec.Taints, kept.Spec.Unschedulable = one.Spec.Taints, one.Spec.Unschedulable
		kept.Status.Conditions = one.Status.Conditions
		return kept, nil
	case *corev1.Pod:
		kept := &corev1.Pod{ObjectMeta: identity(one.ObjectMeta)}
		kept.Status.Conditions = one.Status.Conditions
		return kept, nil
	}
	return obj, nil
}
