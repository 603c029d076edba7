package drain

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/node-drainer/node-drainer/internal/retry"
	"github.com/node-drainer/node-drainer/pkg/handover"
)

// How often and how long the group of an evicted pod is reconciled: the pod must have moved first.
const (
	reconcilePause, reconcileTimeout = 3 * time.Second, 5 * time.Minute
	maxPendingReconciles             = 256 // groups; more are left as they are
	// turnTimeout bounds what is done while a namespace's turn is held, so that an API server or a pod without an answer
	// does not keep others from being asked.
	turnTimeout = 2 * readTimeout
)

// reconciles are the groups of which a pod was evicted, one for each group: all of its pods need one loop.
type reconciles struct {
	mu      sync.Mutex
	pending []*pendingReconcile
	added   chan struct{} // receives after a group was added
}

// pendingReconcile is a group of which pods were evicted. The lock of reconciles guards it, except what does not
// change.
type pendingReconcile struct {
	pod        handover.Pod // one of them
	reconciler handover.Reconciler

	evicted map[string]struct{} // their UIDs
	until   time.Time
	started bool
}

// add adds a pod that was evicted.
func (r *reconciles) add(pod handover.Pod, reconciler handover.Reconciler) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.IndexFunc(r.pending, func(one *pendingReconcile) bool {
		return one.pod.Namespace == pod.Namespace && isAlike(one.pod, pod)
	})
	switch {
	case i >= 0:
	case len(r.pending) < maxPendingReconciles:
		i = len(r.pending)
		r.pending = append(r.pending, &pendingReconcile{pod: pod, reconciler: reconciler, evicted: map[string]struct{}{}})
	default:
		return
	}
	r.pending[i].evicted[pod.UID], r.pending[i].until = struct{}{}, time.Now().Add(reconcileTimeout)
	select {
	case r.added <- struct{}{}:
	default:
	}
}

// start returns the groups whose loop is to be started.
func (r *reconciles) start() (groups []*pendingReconcile) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range r.pending {
		if !one.started {
			one.started = true
			groups = append(groups, one)
		}
	}
	return groups
}

// take returns the UIDs of the group's pods that were evicted, and until when it is reconciled. It removes the group,
// and returns false, if that is over, or if done says that nothing was left to do for as many pods.
func (r *reconciles) take(one *pendingReconcile, done int) (evicted map[string]struct{}, until time.Time, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(one.evicted) != done && time.Now().Before(one.until) {
		return maps.Clone(one.evicted), one.until, true
	}
	r.pending = slices.DeleteFunc(r.pending, func(other *pendingReconcile) bool { return other == one })
	return nil, time.Time{}, false
}

// forget removes all groups.
func (r *reconciles) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pending = nil
}

// reconcileLater has the group of a pod that is evicted reconciled in the background, if its kind has work left then.
// Neither the drain nor the end of the hook waits for that.
func (d *Drainer) reconcileLater(pod Pod) {
	reconciler, ok := d.rules.Kinds[pod.HandOver.Kind].Releaser.(handover.Reconciler)
	if ok && pod.HandOver.Pod != nil {
		d.reconciles.add(*pod.HandOver.Pod, reconciler)
	}
}

// ReconcileGroups reconciles groups of which a pod was evicted until ctx ends. What is left then is forgotten: the
// groups work without it. One process at a time may call it: the turns of namespaces, by which no member is asked
// meanwhile, are those of a process.
func (d *Drainer) ReconcileGroups(ctx context.Context) {
	var all sync.WaitGroup
	defer d.reconciles.forget()
	defer all.Wait()
	for {
		for _, group := range d.reconciles.start() {
			all.Go(func() { d.reconcile(ctx, group) })
		}
		select {
		case <-ctx.Done():
			return
		case <-d.reconciles.added:
		}
	}
}

// reconcile calls the kind again and again until nothing is left to do.
func (d *Drainer) reconcile(ctx context.Context, group *pendingReconcile) {
	var answer handover.Answer
	for done := 0; ; {
		evicted, until, ok := d.reconciles.take(group, done)
		if !ok || !retry.Sleep(ctx, jittered(max(answer.Again, reconcilePause))) {
			return
		}
		if answer = d.reconcileOnce(ctx, group, evicted, until); answer.Go {
			done = len(evicted)
		}
	}
}

// reconcileOnce calls the kind with a pod of the group that stays, if the evicted pods are gone and no pod of the
// namespace is asked meanwhile. An error is no more than a reason to call again.
func (d *Drainer) reconcileOnce(
	ctx context.Context, group *pendingReconcile, evicted map[string]struct{}, until time.Time,
) handover.Answer {
	namespace := group.pod.Namespace
	if !d.turns.take(namespace) {
		return handover.Answer{}
	}
	defer d.turns.end(namespace)
	ctx, cancel := context.WithTimeout(ctx, turnTimeout)
	defer cancel()
	pods, err := d.listPods(ctx, namespace)
	if err != nil {
		return handover.Answer{}
	}
	request, ok := group.request(pods, evicted, until)
	if !ok {
		return handover.Answer{}
	}
	answer, err := group.reconciler.Reconcile(ctx, request)
	answer.Go = answer.Go && err == nil
	return answer
}

// request returns a request with a pod of the group that stays; false if there is none, or if an evicted pod is still
// there.
func (p *pendingReconcile) request(
	pods []handover.Pod, evicted map[string]struct{}, until time.Time,
) (handover.Request, bool) {
	request := handover.Request{Deadline: until}
	for _, pod := range pods {
		isMember := pod.Ready && pod.Stays && !pod.Deleting && isAlike(pod, p.pod)
		_, leaves := evicted[pod.UID]
		switch {
		case leaves:
			return handover.Request{}, false
		case isMember && request.Pod.Name == "":
			request.Pod = pod
		default:
			request.Peers = append(request.Peers, pod)
		}
	}
	return request, request.Pod.Name != ""
}

// isAlike reports whether two pods ask for the same hand-over, though one may be preferred, or permit a surge.
func isAlike(a, b handover.Pod) bool {
	isOther := func(name, _ string) bool {
		switch name {
		case handover.PreferAnnotation, handover.HandedOverAnnotation, handover.SurgeAnnotation:
			return true
		}
		return false
	}
	x, y := maps.Clone(a.Annotations), maps.Clone(b.Annotations)
	maps.DeleteFunc(x, isOther)
	maps.DeleteFunc(y, isOther)
	return maps.Equal(x, y)
}

// listPods lists the pods of a namespace, from the API server and not from its cache: a member that is missing must not
// be overlooked.
func (d *Drainer) listPods(ctx context.Context, namespace string) ([]handover.Pod, error) {
	var pods []handover.Pod
	err := d.eachPod(ctx, namespace, metav1.ListOptions{}, func(p *corev1.Pod) {
		pod := handOverPod(p)
		pod.Stays = d.rules.Stays(pod.Node)
		pods = append(pods, *pod)
	})
	return pods, err
}
