// Package launch waits until a new Node is ready for pods: it is registered, Ready and schedulable, its
// startup taints are removed, and the DaemonSets that belong on it run there.
package launch

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	appsinformers "k8s.io/client-go/informers/apps/v1"
	"k8s.io/client-go/kubernetes"
	appslisters "k8s.io/client-go/listers/apps/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/node-drainer/node-drainer/internal/retry"
)

// readTimeout bounds the reads of one call of Missing.
const readTimeout = 15 * time.Second

// Waiter waits for Nodes to become ready for pods. Make it with New, and Run it.
type Waiter struct {
	client kubernetes.Interface
	rules  rules
	sets   cache.SharedIndexInformer // DaemonSets; nil if they are not waited for
	seen   cache.ResourceEventHandlerRegistration
	waits  sync.Map // the keys are those *wait that are under way
}

// New returns a Waiter.
func New(client kubernetes.Interface, cfg Config) (*Waiter, error) {
	w := &Waiter{client: client, rules: newRules(cfg)}
	if !cfg.DaemonSets {
		return w, nil
	}
	w.sets = appsinformers.NewDaemonSetInformer(client, metav1.NamespaceAll, 0, cache.Indexers{})
	var err error
	if w.seen, err = notify(w.sets, stripDaemonSet, w.wakeUp); err != nil {
		return nil, fmt.Errorf("watch DaemonSets: %w", err)
	}
	return w, nil
}

// notify sets the transform of an informer, and has it call changed for each change that matters.
func notify(
	i cache.SharedIndexInformer, transform cache.TransformFunc, changed func(),
) (cache.ResourceEventHandlerRegistration, error) {
	if err := i.SetTransform(transform); err != nil {
		return nil, err
	}
	return i.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { changed() },
		UpdateFunc: func(before, now any) {
			if !same(before, now) {
				changed()
			}
		},
		DeleteFunc: func(any) { changed() },
	})
}

// Run watches the DaemonSets of the cluster until ctx ends.
func (w *Waiter) Run(ctx context.Context) {
	if w.sets == nil {
		<-ctx.Done()
		return
	}
	retry.Watch(ctx, w.sets)
}

// Synced reports whether the DaemonSets have been listed.
func (w *Waiter) Synced() bool { return w.sets == nil || w.seen.HasSynced() }

// Wait returns nil when the watch shows the named Node as ready for pods, or the cause of ctx's end. It calls
// report with what is missing, first and whenever that has changed.
func (w *Waiter) Wait(ctx context.Context, node string, report func(missing []string)) error {
	one, err := w.watch(ctx, node)
	if err != nil {
		return err
	}
	defer one.end()
	var before []string
	for {
		missing := one.missing()
		if len(missing) == 0 {
			return nil
		}
		if !slices.Equal(missing, before) {
			report(missing)
			before = missing
		}
		select {
		case <-one.changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Missing returns what the named Node still needs to be ready for pods, empty if nothing, and which of it are
// DaemonSets that are Ready on no node. It reads from the API server, not from a watch, and returns an error if
// that does not answer.
func (w *Waiter) Missing(ctx context.Context, name string) (missing, readyNowhere []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	node, err := w.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return []string{Unregistered}, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read node %s: %w", name, err)
	}
	if w.sets == nil {
		return w.rules.missing(node, nil, nil), nil, nil
	}
	pods, podsErr := w.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
		FieldSelector: onNode(name),
	})
	sets, setsErr := w.client.AppsV1().DaemonSets(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err := errors.Join(podsErr, setsErr); err != nil {
		return nil, nil, fmt.Errorf("list the pods of node %s, and the DaemonSets: %w", name, err)
	}
	all, on := pointers(sets.Items), pointers(pods.Items)
	return w.rules.missing(node, all, on), w.rules.readyNowhere(node, all, on), nil
}

func pointers[T any](items []T) []*T {
	out := make([]*T, len(items))
	for i := range items {
		out[i] = &items[i]
	}
	return out
}

// wakeUp makes every wait check again.
func (w *Waiter) wakeUp() {
	for one := range w.waits.Range {
		one.(*wait).wakeUp() //nolint:forcetypeassert // the keys are waits
	}
}

// daemonSets returns the DaemonSets of the cluster, from the watch.
func (w *Waiter) daemonSets() []*appsv1.DaemonSet {
	if w.sets == nil {
		return nil
	}
	sets, _ := appslisters.NewDaemonSetLister(w.sets.GetIndexer()).List(labels.Everything()) // which never fails
	return sets
}

func onNode(node string) string { return fields.OneTermEqualSelector("spec.nodeName", node).String() }

// stripDaemonSet keeps the fields of a DaemonSet that decide on which nodes it runs.
func stripDaemonSet(obj any) (any, error) {
	ds, ok := obj.(*appsv1.DaemonSet)
	if !ok {
		return obj, nil
	}
	spec := ds.Spec.Template.Spec
	kept := &appsv1.DaemonSet{ObjectMeta: identity(ds.ObjectMeta)}
	kept.Labels = ds.Labels
	if value, ok := ds.Annotations[IgnoreAnnotation]; ok {
		kept.Annotations = map[string]string{IgnoreAnnotation: value}
	}
	kept.Spec.Template.Spec = corev1.PodSpec{
		NodeName: spec.NodeName, NodeSelector: spec.NodeSelector, Affinity: nodeAffinityOf(spec.Affinity),
		Tolerations: spec.Tolerations, HostNetwork: spec.HostNetwork, PriorityClassName: spec.PriorityClassName,
	}
	return kept, nil
}

// same reports whether two stripped states of a DaemonSet are equal but for their version. Those of other objects
// are not.
func same(before, now any) bool {
	a, ok := before.(*appsv1.DaemonSet)
	b, too := now.(*appsv1.DaemonSet)
	if !ok || !too {
		return false
	}
	was := *a
	was.ResourceVersion = b.ResourceVersion
	return reflect.DeepEqual(was, *b)
}

func nodeAffinityOf(a *corev1.Affinity) *corev1.Affinity {
	if a == nil || a.NodeAffinity == nil {
		return nil
	}
	required := a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	return &corev1.Affinity{
		NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: required},
	}
}

func identity(m metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: m.Namespace, Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion,
		DeletionTimestamp: m.DeletionTimestamp, OwnerReferences: m.OwnerReferences,
	}
}
