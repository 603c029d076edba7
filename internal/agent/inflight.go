package agent

import (
	"context"
	"fmt"
	"sync"

	"github.com/node-drainer/node-drainer/pkg/event"
)

// inflight knows which events are being handled. The zero value is ready.
type inflight struct {
	mu    sync.Mutex
	byKey map[string]*inflightEvent
}

type inflightEvent struct {
	instanceID string
	cancel     context.CancelCauseFunc
	done       chan struct{} // closed when err is set
	err        error
}

// keyOf is the same for all copies of an event. An instance may launch twice with one hook: into the warm
// pool, and later from there into service. Messages without a destination, and resyncs, mean the latter.
func keyOf(e event.Event) string {
	toPool := e.Kind == event.LifecycleLaunching && e.Destination == event.PlaceWarmPool
	return fmt.Sprint(e.Kind, " ", e.InstanceID, " ", e.Hook.Group, "/", e.Hook.Name, " ", toPool)
}

// do runs handle once for all copies of the event that arrive while it runs, and returns its error for each.
func (f *inflight) do(ctx context.Context, e event.Event, handle func(context.Context) error) error {
	f.mu.Lock()
	if one := f.byKey[keyOf(e)]; one != nil {
		f.mu.Unlock()
		<-one.done
		return one.err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	one := &inflightEvent{instanceID: e.InstanceID, cancel: cancel, done: make(chan struct{})}
	if f.byKey == nil {
		f.byKey = map[string]*inflightEvent{}
	}
	f.byKey[keyOf(e)] = one
	f.mu.Unlock()

	one.err = handle(ctx)
	f.mu.Lock()
	delete(f.byKey, keyOf(e))
	f.mu.Unlock()
	close(one.done)
	return one.err
}

// find returns the event if it is being handled, else nil.
func (f *inflight) find(e event.Event) *inflightEvent {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.byKey[keyOf(e)]
}

// has reports whether the event is being handled.
func (f *inflight) has(e event.Event) bool { return f.find(e) != nil }

// cancel stops the handling of the event, if there is any, and returns when it has stopped.
func (f *inflight) cancel(e event.Event, cause error) {
	if one := f.find(e); one != nil {
		one.cancel(cause)
		<-one.done
	}
}

// instances returns the ids of the instances whose events are being handled.
func (f *inflight) instances() map[string]bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	ids := make(map[string]bool, len(f.byKey))
	for _, one := range f.byKey {
		ids[one.instanceID] = true
	}
	return ids
}
