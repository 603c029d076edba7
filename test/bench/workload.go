package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/node-drainer/node-drainer/test/cluster"
	"github.com/node-drainer/node-drainer/test/harness"
)

const (
	// parallel is how many nodes or pods are created or removed at the same time.
	parallel = 16
	// podsPerNode is how many pods fit on a node.
	podsPerNode = 1000
)

// createNodes adds nodes of the pool, and returns when they are ready.
func (r *round) createNodes(ctx context.Context, names []string) error {
	return each(ctx, names, func(ctx context.Context, name string) error {
		return r.cluster.AddNode(ctx, cluster.Node{
			InstanceID: harness.InstanceOf(name), Pool: r.namespace, Pods: podsPerNode,
		})
	})
}

// each calls do for all, some of them in parallel.
func each[T any](ctx context.Context, all []T, do func(context.Context, T) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for _, one := range all {
		group.Go(func() error { return do(ctx, one) })
	}
	return group.Wait()
}

// deploy creates the scenario's pods while the nodes to drain are the only ones, then the other nodes, then
// the budgets. It returns when every pod is ready and counted by its budget.
func (r *round) deploy(ctx context.Context) error {
	all := r.scenario.workloads()
	for _, w := range all {
		err := r.cluster.Deploy(ctx, cluster.Deployment{
			Namespace: r.namespace, Name: w.Name, Replicas: int32(w.Replicas),
			Pods: podsOf(r.namespace, r.scenario.Stop),
		})
		if err != nil {
			return err
		}
	}
	total := r.scenario.pods()
	err := r.seen.wait(ctx, "the pods to be ready", func() bool { return r.seen.ready >= total })
	if err != nil {
		return err
	}
	if err := r.createNodes(ctx, r.spare); err != nil {
		return err
	}
	return r.createBudgets(ctx, all)
}

// podsOf returns pods of a realistic size, since it is part of the cost in memory and in requests.
func podsOf(pool string, stop time.Duration) cluster.Pods {
	return cluster.Pods{
		Pool: pool, Stop: stop, GracePeriod: max(stop+10*time.Second, 30*time.Second),
		Change: func(t *corev1.PodTemplateSpec) {
			const variables = 20
			for i := range variables {
				t.Spec.Containers[0].Env = append(t.Spec.Containers[0].Env, corev1.EnvVar{
					Name: fmt.Sprintf("SETTING_%d", i), Value: strings.Repeat("value ", 5),
				})
			}
		},
	}
}

func (r *round) createBudgets(ctx context.Context, all []workload) error {
	for _, w := range all {
		if w.Budget == "" {
			continue
		}
		if err := r.cluster.MaxUnavailable(ctx, r.namespace, w.Name, w.Budget); err != nil {
			return err
		}
		err := r.seen.wait(ctx, "budget "+w.Name+" to count its pods", func() bool {
			return int(r.seen.healthy[w.Name]) >= w.Replicas
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// free makes every budget allow everything.
func (r *round) free(ctx context.Context) error {
	patch := []byte(`{"spec":{"maxUnavailable":"100%"}}`)
	return each(ctx, r.scenario.workloads(), func(ctx context.Context, w workload) error {
		if w.Budget == "" {
			return nil
		}
		_, err := r.client.PolicyV1().PodDisruptionBudgets(r.namespace).
			Patch(ctx, w.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	})
}

// fill puts the scenario's background pods on the other nodes, and returns when they are ready. They are
// created with a node name, which is faster than scheduling them.
func (r *round) fill(ctx context.Context) error {
	if r.scenario.Background == 0 {
		return nil
	}
	rest := r.namespace + "-rest"
	if err := harness.CreateNamespace(ctx, r.client, rest); err != nil {
		return err
	}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	seen, err := observe(watching, r.client, rest, nil)
	if err != nil {
		return err
	}
	numbers := make([]int, r.scenario.Background)
	for i := range numbers {
		numbers[i] = i
	}
	pods := podsOf("", r.scenario.Stop)
	err = each(ctx, numbers, func(ctx context.Context, i int) error {
		pods := pods
		change := pods.Change
		pods.Change = func(t *corev1.PodTemplateSpec) {
			change(t)
			t.Spec.NodeName = r.spare[i%len(r.spare)]
		}
		return r.cluster.Pod(ctx, rest, fmt.Sprintf("rest-%d", i), pods)
	})
	if err != nil {
		return err
	}
	return seen.wait(ctx, "the other pods to be ready", func() bool { return seen.ready == len(numbers) })
}

// cleanUp removes the pods and the nodes of the round, so that every round begins alike.
func (r *round) cleanUp(ctx context.Context) error {
	quick, all := metav1.DeleteOptions{GracePeriodSeconds: new(int64)}, metav1.ListOptions{}
	apps, core := r.client.AppsV1(), r.client.CoreV1()
	err := apps.Deployments(r.namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, all)
	for err == nil {
		err = errors.Join(
			apps.ReplicaSets(r.namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, all),
			core.Pods(r.namespace).DeleteCollection(ctx, quick, all))
		if err != nil {
			break
		}
		// A controller whose watch lags behind may create another pod.
		timeout, cancel := context.WithTimeout(ctx, time.Second)
		empty := r.seen.wait(timeout, "the pods to be deleted", func() bool { return len(r.seen.pods) == 0 })
		cancel()
		if empty == nil {
			break
		}
		err = ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("clean up the round: %w", err)
	}
	return each(ctx, append(r.spare, r.draining...), func(ctx context.Context, name string) error {
		_, err := r.cluster.RemoveNode(ctx, name)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
}

// fastClient returns a client without a limit on requests that spends as little as possible on decoding.
func fastClient(config *rest.Config) (*kubernetes.Clientset, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	return kubernetes.NewForConfig(config)
}
