package cluster

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	remindedAnnotation = "node-drainer.test/reminded"
	// remindAfter is how late kwok may be, even on a busy machine, before it has missed a pod.
	remindAfter = 5 * time.Second
)

// Remind makes kwok process pods again that it has missed, such as a pod that was bound to a node before kwok
// knew the node. These pods would never become Ready, or never terminate.
func (w Workloads) Remind(ctx context.Context) error {
	pods, err := w.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{
		FieldSelector: "spec.nodeName!=", ResourceVersion: "0",
	})
	if err != nil {
		return err
	}
	now := time.Now()
	for _, p := range pods.Items {
		if !forgotten(&p, now) {
			continue
		}
		at := now.Format(time.RFC3339)
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, remindedAnnotation, at)
		if _, e := w.client.CoreV1().Pods(p.Namespace).Patch(ctx, p.Name, types.MergePatchType, patch,
			metav1.PatchOptions{}); e != nil {
			err = e // Retried by the next call.
		}
	}
	return err
}

// remindOften calls Remind again and again until stop is called.
func (w Workloads) remindOften() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() {
		wait.UntilWithContext(ctx, func(ctx context.Context) {
			_ = w.Remind(ctx) // Retried after remindAfter.
		}, remindAfter)
	})
	return func() { cancel(); work.Wait() }
}

// forgotten reports whether the pod should have become Ready, or have been removed, some time ago.
func forgotten(p *corev1.Pod, now time.Time) bool {
	due := p.CreationTimestamp.Add(said(p, "start", time.Second))
	reminded, _ := time.Parse(time.RFC3339, p.Annotations[remindedAnnotation])
	switch {
	case p.DeletionTimestamp != nil && p.DeletionGracePeriodSeconds != nil:
		grace := time.Duration(*p.DeletionGracePeriodSeconds) * time.Second
		due = p.DeletionTimestamp.Add(min(said(p, "stop", 0), grace) - grace)
	case p.Status.Phase != corev1.PodPending:
		return false
	case !reminded.IsZero(): // The pod starts again.
		due = reminded.Add(said(p, "start", time.Second))
	}
	return now.Sub(due) > remindAfter && now.Sub(reminded) > remindAfter
}

// said returns how long the pod's process takes for what, according to the pod's annotation.
func said(p *corev1.Pod, what string, otherwise time.Duration) time.Duration {
	seconds, err := strconv.ParseFloat(p.Annotations["node-drainer.test/"+what], 64)
	if err != nil {
		return otherwise
	}
	return time.Duration(seconds * float64(time.Second))
}
