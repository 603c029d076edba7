package app

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/node-drainer/node-drainer/internal/observe"
	"github.com/node-drainer/node-drainer/internal/retry"
)

// run runs all components until ctx ends or one fails. Those that only read also run while another replica
// leads, so that this one has filled caches and a checked queue when it becomes the leader.
func (c components) run(ctx context.Context, listener net.Listener, handler http.Handler) error {
	watching, stopWatching := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWatching()
	g, ctx := errgroup.WithContext(ctx)
	server := observe.Server(handler)
	g.Go(func() error { return ignore(server.Serve(listener), http.ErrServerClosed) })
	g.Go(func() error { c.nodes.Run(watching); return nil })
	g.Go(func() error { c.drainer.Run(watching); return nil })
	g.Go(func() error { c.launches.Run(watching); return nil })
	g.Go(func() error { return ignore(c.consumer.Connect(ctx), context.Canceled) })
	if c.unanswered != nil {
		g.Go(func() error { c.reportUnanswered(ctx); return nil })
	}
	g.Go(func() error {
		defer stopWatching()
		defer func() { _ = server.Close() }()
		if err := c.nodes.WaitForSync(ctx); err != nil {
			return ignore(err, context.Canceled)
		}
		return ignore(c.elector.Run(ctx, func(leading context.Context) error {
			return c.lead(leading, func() {
				if ctx.Err() != nil {
					c.flushEvents() // before the Lease is released and the next leader writes Events
				}
			})
		}), context.Canceled)
	})
	return g.Wait()
}

// lead handles messages and resyncs until ctx ends. When it returns, all of that work has stopped: unfinished
// messages are visible in the queue again, node conditions and records of drains are written, and flush has returned,
// which is called meanwhile: together they must not delay the end of the process.
func (c components) lead(ctx context.Context, flush func()) error {
	writing, stopWriting := context.WithCancel(context.WithoutCancel(ctx))
	var writers sync.WaitGroup
	writers.Go(func() { c.nodes.Conditions.Run(writing, c.observer) })
	if c.history != nil {
		writers.Go(func() { c.history.Run(writing, c.observer) })
	}
	defer writers.Wait()
	defer func() { writers.Go(flush) }()
	defer stopWriting()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return c.consumer.Run(ctx, c.agent.Handle) })
	g.Go(func() error { return c.agent.Run(ctx) })
	if c.preflight != nil {
		g.Go(func() error { c.preflight.run(ctx); return nil })
	}
	return g.Wait()
}

// unansweredInterval is how often the agent reports that the API server does not answer.
const unansweredInterval = 15 * time.Second

// reportUnanswered reports for how long the API server has not answered, until ctx ends.
func (c components) reportUnanswered(ctx context.Context) {
	for retry.Sleep(ctx, unansweredInterval) {
		c.observer.KubernetesUnanswered(c.unanswered())
	}
}

// ignore returns nil instead of the expected error.
func ignore(err, expected error) error {
	if errors.Is(err, expected) {
		return nil
	}
	return err
}

// Ready returns this replica's role, or as an error what it still lacks to work or to take over.
func (c components) Ready() (role string, err error) {
	switch {
	case !c.nodes.Synced():
		return "", errors.New("the Nodes have not been listed yet: is the API server reachable, " +
			"and are nodes allowed to be listed and watched?")
	case !c.drainer.Synced():
		return "", errors.New("the PodDisruptionBudgets or VolumeAttachments have not been listed yet: " +
			"are they allowed to be listed and watched?")
	case !c.launches.Synced():
		return "", errors.New("the DaemonSets have not been listed yet: are they allowed to be listed " +
			"and watched? LAUNCH_DAEMONSETS=false does without")
	case !c.consumer.Ready():
		return "", errors.New("the queue's attributes could not be read yet: check QUEUE_URL, AWS_REGION " +
			"and the permissions")
	}
	return c.elector.Role(), c.elector.Ready()
}

// Healthy returns an error if only a restart of the process can help.
func (c components) Healthy() error { return c.elector.Healthy() }
