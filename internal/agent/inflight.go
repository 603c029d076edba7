package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/node-drainer/node-drainer/internal/event"
)

var (
	// errUnconfirmed: AWS has contradicted the event, which is dropped.
	errUnconfirmed = errors.New("AWS does not confirm the event")
	// errManyCopies: so many messages report an event that this one waits in the queue for its end.
	errManyCopies = errors.New("many messages report the event")
)

// mostCopies bounds how many copies of an event wait for its end. AWS sends a few; somebody who forges them could
// otherwise take the place of all other messages for as long as a drain lasts.
const mostCopies = 10

// messageDelay is how long a message usually takes to arrive at most. The margin of deadlines covers it.
const messageDelay = 10 * time.Second

// inflight knows which events are being handled. The zero value is ready.
type inflight struct {
	mu    sync.Mutex
	byKey map[string][]*inflightEvent // in the order in which their handling began
}

type inflightEvent struct {
	event  event.Event
	cancel context.CancelCauseFunc
	copies int           // that wait for its end
	done   chan struct{} // closed when err is set
	err    error
}

// covers reports whether the handling of the event is that of the other one, too: the other one is no earlier.
func (i *inflightEvent) covers(other event.Event) bool {
	end := other.Deadline
	return end.IsZero() || !i.event.Deadline.IsZero() && !end.Before(i.event.Deadline)
}

// keyOf is the same for all copies of an event. An instance may launch twice with one hook: into the warm
// pool, and later from there into service. Messages without a destination, and resyncs, mean the latter.
func keyOf(e event.Event) string {
	toPool := e.Kind == event.LifecycleLaunching && e.Destination == event.PlaceWarmPool
	return fmt.Sprint(e.Kind, " ", e.InstanceID, " ", e.Hook.Group, "/", e.Hook.Name, " ", toPool)
}

// do runs handle once for all copies of the event that arrive while it runs, and returns its error for each, but nil
// instead of errUnconfirmed. A copy with an earlier deadline is handled as well: the first one may have been forged, or
// made from a mark that has none. So is one of another time, after errUnconfirmed: AWS may only now confirm it.
func (f *inflight) do(ctx context.Context, e event.Event, handle func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	for {
		one, first := f.begin(e, cancel)
		switch {
		case one == nil:
			return errManyCopies
		case first:
			one.err = handle(ctx)
			f.end(one)
		default:
			<-one.done
		}
		switch isUnconfirmed := errors.Is(one.err, errUnconfirmed); {
		case isUnconfirmed && !first && !e.At.Equal(one.event.At):
		case isUnconfirmed:
			return nil
		default:
			return one.err
		}
	}
}

// begin returns the event whose handling is that of e, and whether the caller is to handle it; nil if more than
// mostCopies wait for that.
func (f *inflight) begin(e event.Event, cancel context.CancelCauseFunc) (one *inflightEvent, first bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := keyOf(e)
	for _, one := range f.byKey[key] {
		if one.covers(e) && one.copies == mostCopies {
			return nil, false
		} else if one.covers(e) {
			one.copies++
			return one, false
		}
	}
	one = &inflightEvent{event: e, cancel: cancel, done: make(chan struct{})}
	if f.byKey == nil {
		f.byKey = map[string][]*inflightEvent{}
	}
	f.byKey[key] = append(f.byKey[key], one)
	return one, true
}

// end records that the handling of the event has ended.
func (f *inflight) end(one *inflightEvent) {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := keyOf(one.event)
	f.byKey[key] = slices.DeleteFunc(f.byKey[key], func(other *inflightEvent) bool { return other == one })
	if len(f.byKey[key]) == 0 {
		delete(f.byKey, key)
	}
	close(one.done)
}

// find returns the copies of the event that are being handled.
func (f *inflight) find(e event.Event) []*inflightEvent {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.byKey[keyOf(e)])
}

// beganLater reports whether copies of the event are being handled, and all of them say that it began later, by more
// than a message usually takes to arrive.
func (f *inflight) beganLater(e event.Event) bool {
	copies := f.find(e)
	return len(copies) > 0 && !slices.ContainsFunc(copies, func(one *inflightEvent) bool {
		return one.event.At.Sub(e.At) <= messageDelay
	})
}

// has reports whether the event is being handled.
func (f *inflight) has(e event.Event) bool { return len(f.find(e)) > 0 }

// cancel stops the handling of the event, if there is any, and returns when it has stopped.
func (f *inflight) cancel(e event.Event, cause error) {
	for _, one := range f.find(e) {
		one.cancel(cause)
		<-one.done
	}
}

// cancelEarlier stops the handling of those events of the instance that are no launches and happened before e, and
// returns when it has stopped.
func (f *inflight) cancelEarlier(e event.Event, cause error) {
	for _, one := range f.ofInstance(e.InstanceID) {
		if one.event.Kind != event.LifecycleLaunching && one.event.At.Before(e.At) {
			one.cancel(cause)
			<-one.done
		}
	}
}

func (f *inflight) ofInstance(id string) (events []*inflightEvent) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, copies := range f.byKey {
		if copies[0].event.InstanceID == id {
			events = append(events, copies...)
		}
	}
	return events
}

// instances returns the ids of the instances whose events are being handled.
func (f *inflight) instances() map[string]bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	ids := make(map[string]bool, len(f.byKey))
	for _, copies := range f.byKey {
		ids[copies[0].event.InstanceID] = true
	}
	return ids
}
