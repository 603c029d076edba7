package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const controllers = "kube-controller-manager"

// mend starts parts of the control plane again that have ended by themselves, as a kubelet would.
func (p *play) mend(ctx context.Context, r *recorder) {
	for n := 0; pause(ctx, time.Second); n++ {
		p.apiServer.Lock()
		if n%5 == 0 {
			p.remind(ctx)
		}
		if n%20 == 0 && r.neglected() {
			_ = p.cluster.Restart(ctx, controllers) // Else the next time.
			p.count(mended)
		}
		if did, err := p.cluster.Mend(ctx); did && err == nil {
			p.count(mended)
		}
		p.apiServer.Unlock()
	}
}

// remind has kwok look again at pods that it has forgotten, as it does with one that was bound to a node
// before it knew the node: they would never become Ready, or never go.
func (p *play) remind(ctx context.Context) {
	const overdue = 5 * time.Second
	pods := p.cluster.Client().CoreV1().Pods(shop)
	list, err := pods.List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName!=", ResourceVersion: "0"})
	if err != nil {
		return // The next one may succeed.
	}
	for _, pod := range list.Items {
		starts := pod.Status.Phase == corev1.PodPending && time.Since(pod.CreationTimestamp.Time) > 2*overdue
		ends := pod.DeletionTimestamp != nil && time.Since(pod.DeletionTimestamp.Time) > overdue
		if starts || ends {
			patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"node-drainer.test/nudged":%q}}}`, time.Now())
			_, _ = pods.Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		}
	}
}
