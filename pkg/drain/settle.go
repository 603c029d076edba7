package drain

import (
	"context"
	"maps"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/node-drainer/node-drainer/pkg/handover"
)

// How often and how long the group of an evicted pod is settled: the pod must have moved first.
const (
	settlePause, settleTimeout = 3 * time.Second, 5 * time.Minute
	maxUnsettled               = 256 // groups; more are left as they are
)

// unsettled is a group of which a pod was evicted.
type unsettled struct {
	pod     handover.Pod
	settler handover.Settler
}

// settleLater has the group of a pod that is evicted settled in the background, if its kind has something to settle.
// Neither the drain nor the end of the hook waits for that.
func (d *Drainer) settleLater(pod Pod) {
	settler, ok := d.rules.Kinds[pod.HandOver.Kind].Releaser.(handover.Settler)
	if !ok || pod.HandOver.Pod == nil {
		return
	}
	select {
	case d.unsettled <- unsettled{*pod.HandOver.Pod, settler}:
	default:
	}
}

// settleAll settles groups until ctx ends. What is left then is forgotten: the groups work without it.
func (d *Drainer) settleAll(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	for {
		select {
		case <-ctx.Done():
			return
		case group := <-d.unsettled:
			all.Go(func() { d.settle(ctx, group) })
		}
	}
}

// settle calls the kind again and again until nothing is left to do.
func (d *Drainer) settle(ctx context.Context, group unsettled) {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	var answer handover.Answer
	for !answer.Go {
		select {
		case <-ctx.Done():
			return
		case <-time.After(jittered(max(answer.Again, settlePause))):
		}
		answer = d.settleOnce(ctx, group)
	}
}

// settleOnce calls the kind with a pod of the group that stays, if the evicted pod has gone and no pod of the namespace
// is asked meanwhile. An error is no more than a reason to call again.
func (d *Drainer) settleOnce(ctx context.Context, group unsettled) handover.Answer {
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
	answer, err := group.settler.Settle(ctx, request)
	answer.Go = answer.Go && err == nil
	return answer
}

// request returns a request with a pod of the group that stays; false if there is none, or if the evicted pod is still
// there.
func (u unsettled) request(pods []handover.Pod) (handover.Request, bool) {
	request := handover.Request{Deadline: time.Now().Add(settleTimeout)}
	for _, pod := range pods {
		isMember := pod.Ready && pod.Stays && !pod.Deleting && isAlike(pod, u.pod)
		switch {
		case pod.UID == u.pod.UID:
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
	list, err := d.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	pods := make([]handover.Pod, 0, len(list.Items))
	for i := range list.Items {
		pod := handOverPod(&list.Items[i])
		pod.Stays = d.rules.Stays(pod.Node)
		pods = append(pods, *pod)
	}
	return pods, nil
}
