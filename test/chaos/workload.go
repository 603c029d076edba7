package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/node-drainer/node-drainer/test/cluster"
)

const (
	daemonSet = "shipper"
	// replicas is how many pods a Deployment has.
	replicas = 8
)

// deploy creates pods of many kinds, about five per node, and returns when they are ready.
func (w *fixture) deploy(ctx context.Context, nodes int) error {
	err := w.cluster.DaemonSet(ctx, shop, daemonSet, cluster.Pods{
		Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
	})
	if err != nil {
		return err
	}
	count := map[string]int{}
	for i := range nodes / 2 {
		name := fmt.Sprintf("app-%d", i)
		count[name] = replicas
		err := w.cluster.Deploy(ctx, cluster.Deployment{
			Namespace: shop, Name: name, Replicas: replicas, Pods: podsOf(i),
		})
		if err != nil {
			return err
		}
	}
	for i := range 3 {
		name := fmt.Sprintf("store-%d", i)
		count[name] = 4
		if err := w.cluster.StatefulSet(ctx, shop, name, 4, podsOf(i)); err != nil {
			return err
		}
	}
	count["stubborn"] = 2
	err = w.cluster.Deploy(ctx, cluster.Deployment{
		Namespace: shop, Name: "stubborn", Replicas: 2, Pods: podsOf(1),
	})
	if err != nil {
		return err
	}
	for name, n := range count {
		if err := w.cluster.WaitReady(ctx, shop, cluster.Selector(name), n); err != nil {
			return err
		}
	}
	return w.budgets(ctx, nodes)
}

// podsOf returns pods that differ in stop time, grace period and priority.
func podsOf(i int) cluster.Pods {
	p := cluster.Pods{
		Stop:        time.Duration(i%6) * 500 * time.Millisecond,
		GracePeriod: []time.Duration{5, 10, 20, 30}[i%4] * time.Second,
	}
	if i%7 == 3 {
		p.PriorityClass = "system-cluster-critical"
	}
	return p
}

// budgets gives two of three Deployments and each StatefulSet a budget, and one Deployment a budget that
// never allows a disruption.
func (w *fixture) budgets(ctx context.Context, nodes int) error {
	for i := range nodes / 2 {
		var err error
		name := fmt.Sprintf("app-%d", i)
		switch i % 3 {
		case 1:
			w.guarded[name], err = true, w.cluster.MaxUnavailable(ctx, shop, name, "1")
		case 2:
			w.guarded[name], err = true, w.cluster.MinAvailable(ctx, shop, name, "75%")
		}
		if err != nil {
			return err
		}
	}
	for i := range 3 {
		name := fmt.Sprintf("store-%d", i)
		w.guarded[name] = true
		if err := w.cluster.MaxUnavailable(ctx, shop, name, "1"); err != nil {
			return err
		}
	}
	w.guarded["stubborn"] = true
	return w.cluster.MinAvailable(ctx, shop, "stubborn", "2")
}
