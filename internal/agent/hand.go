package agent

import (
	"context"
	"fmt"
	"sync"

	"golang.org/x/sync/singleflight"

	"github.com/node-drainer/node-drainer/pkg/event"
)

// hand knows the events that are being served. The zero value is ready.
type hand struct {
	flights singleflight.Group

	mu   sync.Mutex
	held map[string]*holding // by key
}

// holding is one event in hand.
type holding struct {
	instanceID string
	cancel     context.CancelCauseFunc
	done       chan struct{}
}

// key is the same for all copies of an event. An instance may launch twice by one hook, into the warm pool
// and into service; a message that says nothing of it, and a sweep, mean the latter.
func key(e event.Event) string {
	pooled := e.Kind == event.LifecycleLaunching && e.Destination == event.PlaceWarmPool
	return fmt.Sprint(e.Kind, " ", e.InstanceID, " ", e.Hook.Group, "/", e.Hook.Name, " ", pooled)
}

// take runs serve once for all copies of the event that are taken while it runs.
func (h *hand) take(ctx context.Context, e event.Event, serve func(context.Context) error) error {
	_, err, _ := h.flights.Do(key(e), func() (any, error) {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		held := &holding{instanceID: e.InstanceID, cancel: cancel, done: make(chan struct{})}
		h.set(key(e), held)
		defer h.drop(key(e), held)
		return nil, serve(ctx)
	})
	return err
}

func (h *hand) set(key string, held *holding) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.held == nil {
		h.held = map[string]*holding{}
	}
	h.held[key] = held
}

func (h *hand) drop(key string, held *holding) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.held, key)
	close(held.done)
}

// has tells whether the event is in hand.
func (h *hand) has(e event.Event) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.held[key(e)] != nil
}

// instances are those of the events in hand.
func (h *hand) instances() map[string]bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make(map[string]bool, len(h.held))
	for _, held := range h.held {
		all[held.instanceID] = true
	}
	return all
}

// stop ends what is done about the event, if it is in hand, and returns when that has ended.
func (h *hand) stop(e event.Event, cause error) {
	h.mu.Lock()
	held := h.held[key(e)]
	h.mu.Unlock()
	if held != nil {
		held.cancel(cause)
		<-held.done
	}
}
