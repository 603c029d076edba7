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
	// remindAfter is how long kwok may be late: so busy is no machine that it means to go on with a pod.
	remindAfter = 5 * time.Second
)

// Remind has kwok look again at pods that it has forgotten, as it does with one that was bound to a node
// before it knew the node: they would never become Ready, or never go.
func (c *Cluster) Remind(ctx context.Context) error {
	pods, err := c.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{
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
		if _, e := c.client.CoreV1().Pods(p.Namespace).Patch(ctx, p.Name, types.MergePatchType, patch,
			metav1.PatchOptions{}); e != nil {
			err = e // The next time, if it is still there.
		}
	}
	return err
}

// remindOften has kwok reminded until it is stopped.
func (c *Cluster) remindOften() (rest func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() {
		wait.UntilWithContext(ctx, func(ctx context.Context) {
			_ = c.Remind(ctx) // Else the next time.
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
	case !reminded.IsZero(): // Its start has begun again.
		due = reminded.Add(said(p, "start", time.Second))
	}
	return now.Sub(due) > remindAfter && now.Sub(reminded) > remindAfter
}

// said is what the pod says of how long its process takes.
func said(p *corev1.Pod, what string, otherwise time.Duration) time.Duration {
	seconds, err := strconv.ParseFloat(p.Annotations["node-drainer.test/"+what], 64)
	if err != nil {
		return otherwise
	}
	return time.Duration(seconds * float64(time.Second))
}
