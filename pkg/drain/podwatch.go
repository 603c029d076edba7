package drain

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/wait"
	informers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/node-drainer/node-drainer/internal/kube"
	"github.com/node-drainer/node-drainer/internal/retry"
)

// lastList bounds the pause between two lists of a node's pods, which doubles while the watch is behind or
// the API server does not answer.
const lastList = 10 * time.Second

// lastListTimeout bounds a list that begins when the drain is over whatever it shows, and podsPerPage is how many pods
// a page of a list has.
const (
	lastListTimeout = 5 * time.Second
	podsPerPage     = 100
)

// podWatch knows the pods of a node by a watch, corrected by lists: a watch may be behind, or cut off while
// the API server answers other requests.
type podWatch struct {
	drainer  *Drainer
	node     string
	informer cache.SharedIndexInformer
	suspect  atomic.Bool         // the API server has said that a pod is gone, and the watch may still show it
	unshown  map[string]*record  // pods that a list has shown and the watch does not show yet, by UID
	gone     map[string]struct{} // pods that the watch shows and a later list has not shown, by UID
	nextList time.Time           // no list before this
	failures int                 // of lists, one after the other
	pauses   wait.Backoff        // between lists
}

// newPodWatch returns a podWatch that calls changed when a pod changes in a way that matters, and added before that if
// the pod has come since the first list.
func newPodWatch(d *Drainer, node string, changed func(), added func(*record)) (*podWatch, error) {
	w := &podWatch{
		drainer: d, node: node, unshown: map[string]*record{}, gone: map[string]struct{}{},
		pauses: retry.Backoff(firstRetry, lastList),
	}
	w.informer = informers.NewFilteredPodInformer(d.client, metav1.NamespaceAll, 0, cache.Indexers{},
		func(o *metav1.ListOptions) { o.FieldSelector = onNode(node) })
	_, err := setUp(w.informer, "the pods of node "+node, d.rules.transform, cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, listed bool) {
			if rec, ok := obj.(*record); ok && !listed {
				added(rec)
			}
			changed()
		},
		UpdateFunc: func(before, now any) {
			if !equalRecords(before, now) {
				changed()
			}
		},
		DeleteFunc: func(any) { changed() },
	})
	return w, err
}

// AwaitPod returns nil when a pod is on the node, which was cordoned at the time since, that must leave it and that an
// earlier drain has not known, nor told its controller to keep away; or the cause of ctx's end. A list verifies what
// the watch shows, which may be behind.
func (d *Drainer) AwaitPod(ctx context.Context, node string, since time.Time, earlier *Owners) error {
	changed := make(chan struct{}, 1)
	w, err := newPodWatch(d, node, func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}, func(*record) {})
	if err != nil {
		return err
	}
	watching, stop := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() { retry.Watch(watching, w.informer) })
	defer watch.Wait()
	defer stop()
	owners := earlier.clone()
	isNew := func(rec *record) bool { return owners.isNew(rec, since) }
	for !slices.ContainsFunc(w.list(), isNew) || !w.mayHave(ctx, isNew) {
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// mayHave reports whether a list shows a pod that matches. It returns true if the API server does not answer: the
// drain that follows lists the pods again.
func (w *podWatch) mayHave(ctx context.Context, matches func(*record) bool) bool {
	records, err := w.fetch(ctx, readTimeout)
	return err != nil && ctx.Err() == nil || slices.ContainsFunc(records, matches)
}

func onNode(node string) string { return fields.OneTermEqualSelector("spec.nodeName", node).String() }

// list returns the pods that the watch shows, as corrected by the last list.
func (w *podWatch) list() []*record {
	shown := w.shown()
	records := make([]*record, 0, len(shown)+len(w.unshown))
	for uid, rec := range shown {
		delete(w.unshown, uid)
		if _, gone := w.gone[uid]; !gone {
			records = append(records, rec)
		}
	}
	deleteMissing(w.gone, shown)
	return slices.AppendSeq(records, maps.Values(w.unshown))
}

// shown returns what the watch shows, by UID.
func (w *podWatch) shown() map[string]*record {
	objs := w.informer.GetStore().List()
	shown := make(map[string]*record, len(objs))
	for _, obj := range objs {
		if rec, ok := obj.(*record); ok {
			shown[rec.pod.UID] = rec
		}
	}
	return shown
}

// claims returns the PersistentVolumeClaims of the pods that stay on the node, as NAMESPACE/NAME.
func (w *podWatch) claims() []string {
	var claims []string
	for _, rec := range w.shown() {
		for _, c := range rec.claims {
			claims = append(claims, rec.Namespace+"/"+c)
		}
	}
	return claims
}

// isBehind reports whether the watch is known, or suspected, to be behind.
func (w *podWatch) isBehind() bool { return w.suspect.Load() || len(w.unshown) > 0 }

// relist lists the pods from the API server, not from its cache, and corrects what the watch shows. A list that fails
// gets more time at the next try, but it does not last longer than until the end of the drain, or for lastListTimeout
// if that has come: an API server before Kubernetes 1.31 reads all pods of the cluster from etcd for it.
func (w *podWatch) relist(ctx context.Context, end time.Time) ([]*record, error) {
	before := w.shown()
	timeout := min(readTimeout<<min(w.failures, 2), max(time.Until(end), lastListTimeout))
	records, err := w.fetch(ctx, timeout)
	if err == nil && w.correct(before, records) {
		w.pauses = retry.Backoff(firstRetry, lastList)
	}
	if w.failures++; err == nil {
		w.failures = 0
	}
	w.nextList = time.Now().Add(w.pauses.Step())
	return records, err
}

// correct records where the watch differs from the list, and reports whether it agrees. A pod that the watch
// showed before the list and the list does not is gone. One that the watch shows only since may be newer than
// the list.
func (w *podWatch) correct(before map[string]*record, records []*record) (agrees bool) {
	w.suspect.Store(false)
	shown := w.shown()
	clear(w.unshown)
	for _, rec := range records {
		delete(before, rec.pod.UID)
		if _, ok := shown[rec.pod.UID]; !ok {
			w.unshown[rec.pod.UID] = rec
		}
	}
	for uid := range before {
		w.gone[uid] = struct{}{}
	}
	return len(w.unshown)+len(before) == 0
}

func (w *podWatch) fetch(ctx context.Context, timeout time.Duration) (records []*record, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err = w.drainer.eachPod(ctx, metav1.NamespaceAll, metav1.ListOptions{FieldSelector: onNode(w.node)},
		func(p *corev1.Pod) { records = append(records, w.drainer.rules.record(p)) })
	if err != nil {
		return nil, fmt.Errorf("list the pods of node %s: %w", w.node, err)
	}
	return records, nil
}

// eachPod is kube.EachPod, in pages of podsPerPage.
func (d *Drainer) eachPod(
	ctx context.Context, namespace string, o metav1.ListOptions, use func(*corev1.Pod),
) error {
	o.Limit = podsPerPage
	return kube.EachPod(ctx, d.client, namespace, o, use)
}
