package agent

import (
	"context"
	"errors"
	"sync"

	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/pkg/queue"
)

// Handle does what the message requires, and returns when that is complete. After nil the message can be
// deleted; after an error it must be delivered again. In a dry run Handle returns only when ctx ends.
func (a *Agent) Handle(ctx context.Context, m queue.Message) error {
	events, err := event.Parse(m.Body)
	if err != nil {
		a.observer.MessageRefused(m, event.Reason(err), err)
		return queue.Reject(err)
	}
	m.Body = nil // it may be long, and the events are handled for as long as a drain takes
	for i, e := range events {
		a.observer.EventReceived(m, e)
		a.records.setReceived(e)
		events[i] = dated(m, e)
	}
	err = a.handleAll(ctx, events)
	if a.cfg.DryRun {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	return err
}

// handleEvent passes the event to the type that handles its kind.
func (a *Agent) handleEvent(ctx context.Context, e event.Event) error {
	a.resyncer.departures.announce(e)
	switch e.Kind {
	case event.TestNotification, event.Notice:
		a.observer.EventIgnored(e, "requires no action")
		return nil
	case event.LifecycleTerminating, event.LifecycleLaunching:
		return a.handleHook(ctx, e)
	case event.ScheduledChangeCanceled:
		return a.notices.cancel(ctx, e)
	}
	return a.notices.handle(ctx, e)
}

func (a *Agent) handleHook(ctx context.Context, e event.Event) error {
	if !a.groups.HandlesHook(e.Hook.Name) {
		a.observer.EventIgnored(e, "the hook is not in HOOK_NAMES")
		return nil
	}
	return a.records.handle(ctx, e)
}

// forEach calls do for all items in parallel, and returns their errors when all calls have returned.
func forEach[T any](items []T, do func(T) error) error {
	errs := make([]error, len(items))
	var calls sync.WaitGroup
	for i, item := range items {
		calls.Go(func() { errs[i] = do(item) })
	}
	calls.Wait()
	return errors.Join(errs...)
}
