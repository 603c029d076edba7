package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// run runs everything side by side until ctx ends or one part fails. A replica that stands by has its caches
// filled and knows whether it could reach the queue, so that it can go on at once where a leader stopped.
func (r rooms) run(ctx context.Context, listener net.Listener, handler http.Handler) error {
	watching, stopWatching := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWatching()
	g, ctx := errgroup.WithContext(ctx)
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	g.Go(func() error { return ignore(server.Serve(listener), http.ErrServerClosed) })
	g.Go(func() error { r.nodes.Run(watching); return nil })
	g.Go(func() error { r.drainer.Run(watching); return nil })
	g.Go(func() error { r.launches.Run(watching); return nil })
	g.Go(func() error { return ignore(r.consumer.Connect(ctx), context.Canceled) })
	g.Go(func() error {
		defer stopWatching()
		defer func() { _ = server.Close() }()
		if err := r.nodes.WaitForSync(ctx); err != nil {
			return ignore(err, context.Canceled)
		}
		return ignore(r.elector.Run(ctx, func(leading context.Context) error {
			err := r.lead(leading)
			if ctx.Err() != nil {
				r.flush() // before the next leader has something to tell
			}
			return err
		}), context.Canceled)
	})
	return g.Wait()
}

// lead does the work of the leader until ctx ends. It returns when nothing of it is under way any more: the
// messages have been given back, and what is to be shown on nodes has been written.
func (r rooms) lead(ctx context.Context) error {
	showing, stopShowing := context.WithCancel(context.WithoutCancel(ctx))
	var conditions sync.WaitGroup
	conditions.Go(func() { r.nodes.Conditions.Run(showing, r.observer) })
	defer conditions.Wait()
	defer stopShowing()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return r.consumer.Run(ctx, r.agent.Handle) })
	g.Go(func() error { return r.agent.Run(ctx) })
	return g.Wait()
}

func ignore(err, expected error) error {
	if errors.Is(err, expected) {
		return nil
	}
	return err
}

// Ready returns the role of this replica, or what is still missing before it can take its part.
func (r rooms) Ready() (role string, err error) {
	switch {
	case !r.nodes.Synced():
		return "", errors.New("the Nodes have not been listed yet: is the API server reachable, " +
			"and are nodes allowed to be listed and watched?")
	case !r.drainer.Synced():
		return "", errors.New("the PodDisruptionBudgets or VolumeAttachments have not been listed yet: " +
			"are they allowed to be listed and watched?")
	case !r.launches.Synced():
		return "", errors.New("the DaemonSets have not been listed yet: are they allowed to be listed " +
			"and watched? LAUNCH_DAEMONSETS=false does without")
	case !r.consumer.Ready():
		return "", errors.New("the queue's attributes could not be read yet: check QUEUE_URL, AWS_REGION " +
			"and the permissions")
	}
	return r.elector.Role(), r.elector.Ready()
}

// Healthy returns what only a new process can help.
func (r rooms) Healthy() error { return r.elector.Healthy() }
