package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/node-drainer/node-drainer/test/cluster"
)

const (
	home = "node-drainer" // The namespace of the contestants' ServiceAccounts.
	// roundTimeout bounds a round: a drain that takes so long will not end.
	roundTimeout = 20 * time.Minute
	// lateTimeout is how long pods may be left after a contestant has said that it is done. Beyond what our own
	// watch is late, that is time for nothing: what is left then has been left behind.
	lateTimeout = 5 * time.Second
)

// round is one drain by one contestant, with nodes, pods and accounts of its own.
type round struct {
	scenario   scenario
	contestant string
	number     int
	last       bool   // Of the control plane, which then takes all with it.
	id         string // Of this round in the whole run.
	namespace  string

	cluster     *cluster.Cluster
	client      kubernetes.Interface
	binaries    string
	agentBinary string
	tell        func(format string, args ...any)

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
			err = r.clear(ctx)
		}
		if err != nil {
			err = fmt.Errorf("%s, round %d of %s: %w", r.scenario.Name, r.number, r.contestant, err)
		}
	}()
	begun := time.Now()
	if err := r.prepare(ctx); err != nil {
		return f, err
	}
	if err := c.prepare(ctx); err != nil {
		return f, err
	}
	r.tell("ready after %.0f s, draining%s", time.Since(begun).Seconds(), r.usually())
	start, finished, err := r.drain(ctx, c)
	if err != nil {
		return f, err
	}
	f, err = r.measure(ctx, c.used(), start, finished)
	if err == nil {
		r.tell("drained %d pods in %.1f s, with %d requests", f.Pods, f.Makespan, f.Requests)
	}
	return f, err
}

// usually tells how long the drain takes, if that is known.
func (r *round) usually() string {
	if d := r.scenario.Usually[r.contestant]; d > 0 {
		return fmt.Sprintf(" (usually %.0f s)", d.Seconds())
	}
	return ""
}

// prepare returns when all pods are ready, and all is as it must be before the clock starts.
func (r *round) prepare(ctx context.Context) error {
	r.namespace = r.id
	for range r.scenario.Nodes {
		r.draining = append(r.draining, cluster.NodeName(cluster.NewInstanceID()))
	}
	for range r.scenario.spare() {
		r.spare = append(r.spare, cluster.NodeName(cluster.NewInstanceID()))
	}
	r.tell("making %d nodes of %d pods, %d nodes that stay, %d other pods (usually %.0f s)", len(r.draining),
		r.scenario.PodsPerNode, len(r.spare), r.scenario.Background, r.scenario.making().Seconds())
	if err := r.makeNamespace(ctx, r.namespace); err != nil {
		return err
	}
	var err error
	if r.seen, err = observe(ctx, r.client, r.namespace, r.draining); err != nil {
		return err
	}
	if err := r.makeNodes(ctx, r.draining); err != nil {
		return err
	}
	if err := r.deploy(ctx); err != nil {
		return err
	}
	return r.fill(ctx)
}

// drain has the contestant do it. It returns when that was asked for, and when the contestant was done.
func (r *round) drain(ctx context.Context, c contestant) (start, finished time.Time, err error) {
	if before := r.seen.read().Left; before != r.scenario.pods() {
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

// freeLater frees the budgets of a scenario that blocks its pods, when it is time.
func (r *round) freeLater(ctx context.Context) error {
	if r.scenario.Blocked == 0 {
		return nil
	}
	timer := time.NewTimer(r.scenario.Blocked)
	defer timer.Stop()
	select {
	case <-timer.C:
		return r.free(ctx)
	case <-ctx.Done():
		return nil
	}
}

// awaitEmpty fails if pods have been left behind.
func (r *round) awaitEmpty(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, lateTimeout,
		errors.New("the contestant has said that it was done, and has left pods behind"))
	defer cancel()
	return r.seen.wait(ctx, "the nodes to be empty", func() bool { return r.seen.left == 0 })
}

// measure makes figures of what was seen.
func (r *round) measure(ctx context.Context, used usage, start, finished time.Time) (figures, error) {
	requests, err := r.cluster.Requests(ctx, cluster.UserName(home, r.id))
	if err != nil {
		return figures{}, fmt.Errorf("read the audit log: %w", err)
	}
	if len(requests) == 0 {
		return figures{}, errors.New("the audit log has no requests of the contestant")
	}
	s, pods := r.seen.read(), r.scenario.pods()
	if len(s.Marked) < len(r.draining) {
		return figures{}, fmt.Errorf("only %d of %d nodes have been marked", len(s.Marked), len(r.draining))
	}
	return figures{
		Scenario: r.scenario.Name, Contestant: r.contestant, Round: r.number,
		Nodes: len(r.draining), Pods: pods, ClusterPods: pods + r.scenario.Background,
		Makespan:       s.LastGone.Sub(start).Seconds(),
		Finished:       finished.Sub(start).Seconds(),
		Marked:         slices.MaxFunc(s.Marked, time.Time.Compare).Sub(start).Seconds(),
		requestFigures: countRequests(requests, start, pods),
		releaseFigures: countReleases(releases(s.Crossings, requests, s.Apps)),
		usageFigures:   countUsage(used, pods),
	}, nil
}

// account makes the contestant's ServiceAccount, by which its requests are told apart.
func (r *round) account(ctx context.Context, rules ...rbacv1.PolicyRule) error {
	var err error
	r.kubeconfig, err = r.cluster.ServiceAccount(ctx, home, r.id, rules, nil)
	return err
}

// file returns a path for a file of the round.
func (r *round) file(name string) string { return r.cluster.Dir() + "/" + r.id + "-" + name }

// stopAll ends all processes.
func stopAll(processes []*process) error {
	errs := make(chan error, len(processes))
	for _, p := range processes {
		go func() { errs <- p.stop() }()
	}
	var err error
	for range processes {
		err = errors.Join(err, <-errs)
	}
	return err
}
