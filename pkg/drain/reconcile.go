package drain

import (
	"context"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/node-drainer/node-drainer/pkg/handover"
)

// How often and how long the group of an evicted pod is reconciled: the pod must have moved first.
const (
	reconcilePause, reconcileTimeout = 3 * time.Second, 5 * time.Minute
	maxPendingReconciles             = 256 // groups; more are left as they are
)

// pendingReconcile is a group of which a pod was evicted.
type pendingReconcile struct {
	pod        handover.Pod
	reconciler handover.Reconciler
}

// reconcileLater has the group of a pod that is evicted reconciled in the background, if its kind has work left then.
// Neither the drain nor the end of the hook waits for that.
func (d *Drainer) reconcileLater(pod Pod) {
	reconciler, ok := d.rules.Kinds[pod.HandOver.Kind].Releaser.(handover.Reconciler)
	if !ok || pod.HandOver.Pod == nil {
		return
	}
	select {
	case d.pendingReconciles <- pendingReconcile{*pod.HandOver.Pod, reconciler}:
	default:
	}
}

// reconcileAll reconciles groups until ctx ends. What is left then is forgotten: the groups work without it.
func (d *Drainer) reconcileAll(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	for {
		select {
		case <-ctx.Done():
			return
		case group := <-d.pendingReconciles:
			all.Go(func() { d.reconcile(ctx, group) })
		}
	}
}

// reconcile calls the kind again and again until nothing is left to do.
func (d *Drainer) reconcile(ctx context.Context, group pendingReconcile) {
	ctx, cancel := context.WithTimeout(ctx, reconcileTimeout)
	defer cancel()
	var answer handover.Answer
	for !answer.Go {
		select {
		case <-ctx.Done():
			return
		case <-time.After(jittered(max(answer.Again, reconcilePause))):
		}
		answer = d.reconcileOnce(ctx, group)
	}
}

// reconcileOnce calls the kind with a pod of the group that stays, if the evicted pod is gone and no pod of the
// namespace is asked meanwhile. An error is no more than a reason to call again.
func (d *Drainer) reconcileOnce(ctx context.Context, group pendingReconcile) handover.Answer {
	namespace := group.pod.Namespace
	if !d.turns.take(namespace) {
		return handover.Answer{}
	}
	defer d.turns.end(namespace)
	pods, err := d.listPods(ctx, namespace)
	if err != nil {
		return handover.Answer{}
	}
	request, ok := group.request(pods)
	if !ok {
		return handover.Answer{}
	}
	answer, err := group.reconciler.Reconcile(ctx, request)
	answer.Go = answer.Go && err == nil
	return answer
}

// request returns a request with a pod of the group that stays; false if there is none, or if the evicted pod is still
// there.
func (p pendingReconcile) request(pods []handover.Pod) (handover.Request, bool) {
	request := handover.Request{Deadline: time.Now().Add(reconcileTimeout)}
	for _, pod := range pods {
		isMember := pod.Ready && pod.Stays && !pod.Deleting && isAlike(pod, p.pod)
		switch {
		case pod.UID == p.pod.UID:
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
