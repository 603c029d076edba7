package agent

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/internal/retry"
)

// arrivalInterval is how often the agent looks whether an instance has registered that a message names beside others.
const arrivalInterval = 5 * time.Second

// mostAwaited bounds how many messages wait for the Nodes of their instances.
const mostAwaited = 300

// awaitedNodes has an element for each message whose instances may register as Nodes.
type awaitedNodes chan struct{}

// begin reports whether one more message may wait. Then the caller calls end.
func (a awaitedNodes) begin() bool {
	select {
	case a <- struct{}{}:
		return true
	default:
		return false
	}
}

func (a awaitedNodes) end() { <-a }

// handleAll handles the events of one message. Only AWS Health names several instances, and a forged message may name
// thousands that are none of this cluster: they wait together for their Nodes, and only their ids are kept.
func (a *Agent) handleAll(ctx context.Context, events []event.Event) error {
	if len(events) == 1 {
		return a.handleEvent(ctx, events[0])
	}
	var registered, rest []event.Event
	var awaited event.Event
	var ids []string
	for _, e := range events {
		switch {
		case a.isRegistered(e.InstanceID):
			registered = append(registered, e)
		case e.Kind == event.ScheduledChange:
			awaited, ids = e, append(ids, e.InstanceID)
		default:
			rest = append(rest, e)
		}
	}
	var arrivals sync.WaitGroup
	var errs [3]error
	arrivals.Go(func() { errs[0] = a.awaitNodes(ctx, awaited, ids) })
	for _, e := range rest { // without a Node, none of them waits
		errs[1] = errors.Join(errs[1], a.handleEvent(ctx, e))
	}
	errs[2] = forEach(registered, func(e event.Event) error { return a.handleEvent(ctx, e) })
	arrivals.Wait()
	return errors.Join(errs[:]...)
}

// awaitNodes handles the event for each of the instances that registers as a Node in the time that it has, and ignores
// it for the others.
func (a *Agent) awaitNodes(ctx context.Context, e event.Event, ids []string) error {
	of := func(id string) event.Event {
		one := e
		one.InstanceID = id
		return one
	}
	var mu sync.Mutex
	var errs []error
	var handling sync.WaitGroup
	end, done := a.awaitUntil(e, ids)
	defer done()
	for len(ids) > 0 && time.Now().Before(end) && retry.Sleep(ctx, min(arrivalInterval, time.Until(end))) {
		ids = slices.DeleteFunc(ids, func(id string) bool {
			if !a.isRegistered(id) {
				return false
			}
			handling.Go(func() {
				err := a.handleEvent(ctx, of(id))
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			})
			return true
		})
	}
	for _, id := range ids {
		if ctx.Err() == nil {
			a.observer.EventIgnored(of(id), notOurNode)
		}
	}
	handling.Wait()
	return errors.Join(append(errs, context.Cause(ctx))...)
}

// awaitUntil returns until when awaitNodes waits. The caller calls done after that.
func (a *Agent) awaitUntil(e event.Event, ids []string) (end time.Time, done func()) {
	if len(ids) == 0 || a.cfg.Events.Action(e.Kind) == event.Ignore || !a.notices.awaited.begin() {
		return time.Time{}, func() {}
	}
	return registrationEnds(e, a.cfg.RegistrationTimeout), a.notices.awaited.end
}

// isRegistered reports whether the instance has a Node, whichever agent's that is.
func (a *Agent) isRegistered(instanceID string) bool {
	n, ok := a.nodes.Find(instanceID)
	return ok || n.Unselected
}
