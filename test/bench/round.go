package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/node-drainer/node-drainer/internal/retry"
	"github.com/node-drainer/node-drainer/test/cluster"
	"github.com/node-drainer/node-drainer/test/harness"
	"github.com/node-drainer/node-drainer/test/redispods"
)

const (
	accountNamespace = "node-drainer" // Of the contestants' ServiceAccounts.
	// roundTimeout bounds a round: a drain that takes so long never ends.
	roundTimeout = 20 * time.Minute
	// lateTimeout is how long the observer's watch may lag behind a contestant that reports to be done. A pod
	// that is on the nodes after that was left behind.
	lateTimeout = 5 * time.Second
)

// round is one drain by one contestant, with nodes, pods and accounts of its own.
type round struct {
	scenario   scenario
	contestant string
	number     int
	last       bool   // Of the scenario: its control plane is stopped next, so nothing is cleaned up.
	id         string // Of this round in the whole run.
	namespace  string

	cluster                     *cluster.Cluster
	client                      kubernetes.Interface
	binaries                    string
	agentBinary, handoverBinary string
	progress                    func(format string, args ...any)

	redis           *redispods.Pods // nil in scenarios without
	draining, spare []string
	seen            *observer
	kubeconfig      string // Of the contestant.
}

// run prepares the nodes and the pods, has the contestant drain, and returns what that took.
func (r *round) run(ctx context.Context) (f figures, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, roundTimeout,
		fmt.Errorf("a round takes no longer than %v", roundTimeout))
	defer cancel()
	c := r.newContestant()
	defer func() {
		if err = errors.Join(err, c.stop()); err == nil && !r.last {
			err = r.cleanUp(ctx)
		}
		if err != nil {
			err = fmt.Errorf("%s, round %d of %s: %w", r.scenario.Name, r.number, r.contestant, err)
		}
	}()
	start := time.Now()
	if err := r.prepare(ctx); err != nil {
		return f, err
	}
	if err := c.prepare(ctx); err != nil {
		return f, err
	}
	r.progress("ready after %.0f s, draining", time.Since(start).Seconds())
	asked, finished, err := r.drain(ctx, c)
	if err != nil {
		return f, err
	}
	f, err = r.measure(ctx, c.used(), asked, finished)
	if err == nil {
		r.progress("drained %d pods in %.1f s, with %d requests", f.Pods, f.Makespan, f.Requests)
	}
	return f, err
}

// prepare creates the nodes and the pods, and returns when all pods are ready.
func (r *round) prepare(ctx context.Context) error {
	r.namespace = r.id
	for range r.scenario.Nodes {
		r.draining = append(r.draining, cluster.NodeName(cluster.NewInstanceID()))
	}
	for range r.scenario.spare() {
		r.spare = append(r.spare, cluster.NodeName(cluster.NewInstanceID()))
	}
	r.progress("creating %d nodes of %d pods, %d other nodes, %d other pods", len(r.draining),
		r.scenario.PodsPerNode, len(r.spare), r.scenario.Background)
	if err := harness.CreateNamespace(ctx, r.client, r.namespace); err != nil {
		return err
	}
	var err error
	if r.seen, err = observe(ctx, r.client, r.namespace, r.draining); err != nil {
		return err
	}
	if err := r.createNodes(ctx, r.draining); err != nil {
		return err
	}
	if err := r.deploy(ctx); err != nil {
		return err
	}
	return r.fill(ctx)
}

// drain lets the contestant drain. It returns when the drain was requested and when the contestant was done.
func (r *round) drain(ctx context.Context, c contestant) (start, finished time.Time, err error) {
	r.seen.mu.Lock()
	before := r.seen.left
	r.seen.mu.Unlock()
	if before != r.scenario.pods() {
		return start, finished, fmt.Errorf("%d pods are on the nodes, not %d", before, r.scenario.pods())
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	freed := make(chan struct{})
	start = time.Now()
	go func() {
		defer close(freed)
		if err := r.freeLater(ctx); err != nil {
			cancel(fmt.Errorf("free the budgets: %w", err))
		}
	}()
	if err = c.start(ctx); err == nil {
		err = c.wait(ctx)
	}
	finished = time.Now()
	if err == nil {
		err = r.awaitEmpty(ctx)
	}
	cancel(nil)
	<-freed
	return start, finished, err
}

// freeLater makes the budgets allow everything after the time for which the scenario blocks its pods.
func (r *round) freeLater(ctx context.Context) error {
	if r.scenario.Blocked == 0 || !retry.Sleep(ctx, r.scenario.Blocked) {
		return nil
	}
	return r.free(ctx)
}

// awaitEmpty fails if pods have been left behind.
func (r *round) awaitEmpty(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, lateTimeout,
		errors.New("the contestant reported that it was done, and left pods on the nodes"))
	defer cancel()
	return r.seen.wait(ctx, "the nodes to be empty", func() bool { return r.seen.left == 0 })
}

// measure computes the figures of the round.
func (r *round) measure(ctx context.Context, used usage, start, finished time.Time) (figures, error) {
	requests, err := r.cluster.Requests(ctx, cluster.UserName(accountNamespace, r.id))
	if err != nil {
		return figures{}, fmt.Errorf("read the audit log: %w", err)
	}
	if len(requests) == 0 {
		return figures{}, errors.New("the audit log has no requests of the contestant")
	}
	r.seen.mu.Lock()
	defer r.seen.mu.Unlock()
	pods, marked := r.scenario.pods(), slices.Collect(maps.Values(r.seen.marked))
	if len(marked) < len(r.draining) {
		return figures{}, fmt.Errorf("only %d of %d nodes have been cordoned", len(marked), len(r.draining))
	}
	return figures{
		Scenario: r.scenario.Name, Contestant: r.contestant, Round: r.number,
		Nodes: len(r.draining), Pods: pods, ClusterPods: pods + r.scenario.Background,
		Makespan:       r.seen.emptiedAt.Sub(start).Seconds(),
		Finished:       finished.Sub(start).Seconds(),
		Marked:         slices.MaxFunc(marked, time.Time.Compare).Sub(start).Seconds(),
		requestFigures: countRequests(requests, start, pods),
		releaseFigures: countReleases(releases(r.seen.crossings, requests, r.seen.apps)),
		usageFigures:   countUsage(used, pods),
	}, nil
}

// account creates the contestant's ServiceAccount, by which the audit log names its requests.
func (r *round) account(ctx context.Context, rules ...rbacv1.PolicyRule) error {
	var err error
	r.kubeconfig, err = r.cluster.ServiceAccount(ctx, accountNamespace, r.id, rules, nil)
	return err
}
