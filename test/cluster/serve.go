package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
)

// Never is how long kwok, which knows nothing of the processes of PodServer, takes to call their pods ready or gone.
const Never = time.Hour

// PodServer does for the pods of a selector what kwok only pretends: processes run in them.
type PodServer struct {
	Workloads
	Namespace, Selector string
	// Start starts the process of a pod, and returns the IP address of the pod.
	Start func(ctx context.Context, pod *corev1.Pod) (ip string, err error)
	// Stop stops the process of a pod that is being deleted.
	Stop func(ctx context.Context, pod *corev1.Pod) error
}

// Run starts the process of each pod that is bound to a node, and reports the pod ready; it stops the process when the
// pod is being deleted, and removes the pod. It does one at a time, until ctx ends, and returns what has failed.
func (s PodServer) Run(ctx context.Context) error {
	var problems []error
	running := map[string]types.UID{} // by name
	err := s.WaitPods(ctx, s.Namespace, s.Selector, func(pods []*corev1.Pod) bool {
		for _, pod := range pods {
			err := s.sync(ctx, pod, running)
			if err != nil && ctx.Err() == nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
				problems = append(problems, fmt.Errorf("pod %s: %w", pod.Name, err))
			}
		}
		return false
	})
	if ctx.Err() == nil {
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

func (s PodServer) sync(ctx context.Context, pod *corev1.Pod, running map[string]types.UID) error {
	switch {
	case pod.Spec.NodeName == "", pod.DeletionTimestamp == nil && running[pod.Name] == pod.UID:
		return nil
	case pod.DeletionTimestamp == nil:
		ip, err := s.Start(ctx, pod)
		if err != nil {
			return err
		}
		running[pod.Name] = pod.UID
		return s.report(ctx, pod.Name, ip)
	case running[pod.Name] == pod.UID:
		if err := s.Stop(ctx, pod); err != nil {
			return err
		}
	}
	return s.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: new(int64), Preconditions: &metav1.Preconditions{UID: &pod.UID},
	})
}

// report writes that a pod is ready.
func (s PodServer) report(ctx context.Context, name, ip string) error {
	pods := s.client.CoreV1().Pods(s.Namespace)
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		now, err := pods.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		now.Status = corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}},
			Conditions: []corev1.PodCondition{{
				Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now(),
			}},
		}
		_, err = pods.UpdateStatus(ctx, now, metav1.UpdateOptions{})
		return err
	})
}
