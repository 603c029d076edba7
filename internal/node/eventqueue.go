package node

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"

	"github.com/node-drainer/node-drainer/internal/retry"
)

const (
	// eventTimeout bounds each request for an Event.
	eventTimeout = 10 * time.Second
	// eventAge is for how long an Event is tried. The API server deletes Events after an hour (--event-ttl).
	eventAge = time.Hour
	// firstEventPause and longestEventPause bound the pauses while the API server takes no Events.
	firstEventPause, longestEventPause = 250 * time.Millisecond, 15 * time.Second
)

// Why Events are not written.
var (
	errTooManyEvents = errors.New("too many Events wait to be written")
	errEventTooOld   = errors.New("the API server has not taken the Event for an hour")
	errRepeatedEvent = errors.New("too many Events about one object")
	errEventsClosed  = errors.New("the process stops")
)

// eventQueue writes Events one after the other. It repeats what fails, unless the API server has refused the Event
// itself; meanwhile the others take their turns.
type eventQueue struct {
	api        typedcorev1.EventInterface
	most       int
	correlator *record.EventCorrelator

	mu       sync.Mutex
	observer EventObserver
	waiting  []queuedEvent
	closed   bool
	added    chan struct{} // receives after an Event was added, and after close
}

type queuedEvent struct {
	*corev1.Event        // as it is written, once it is correlated
	patch         []byte // of the Event that it repeats
	correlated    bool
}

func newEventQueue(api typedcorev1.EventInterface, most int, options record.CorrelatorOptions) *eventQueue {
	return &eventQueue{
		api: api, most: most, correlator: record.NewEventCorrelatorWithOptions(options), added: make(chan struct{}, 1),
	}
}

func (q *eventQueue) observe(o EventObserver) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.observer = o
}

// add appends the Event unless too many wait.
func (q *eventQueue) add(e *corev1.Event) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed:
		q.drop(e, errEventsClosed)
	case len(q.waiting) >= q.most:
		q.drop(e, errTooManyEvents)
	default:
		q.waiting = append(q.waiting, queuedEvent{Event: e})
		q.wakeUp()
	}
}

// drop must be called with mu locked.
func (q *eventQueue) drop(e *corev1.Event, err error) {
	if q.observer != nil {
		q.observer.EventDropped(strings.ToLower(e.InvolvedObject.Kind), e.InvolvedObject.Name, e.Reason, err)
	}
}

func (q *eventQueue) wakeUp() {
	select {
	case q.added <- struct{}{}:
	default:
	}
}

// close has run return when no Event waits.
func (q *eventQueue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.wakeUp()
}

// next removes the first Event, and reports whether there was one.
func (q *eventQueue) next() (e queuedEvent, ok, closed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		q.waiting = nil
		return e, false, q.closed
	}
	e = q.waiting[0]
	q.waiting = q.waiting[1:]
	return e, true, q.closed
}

// run writes Events until ctx ends, or none waits after close.
func (q *eventQueue) run(ctx context.Context) {
	defer q.dropAll()
	pauses := retry.Backoff(firstEventPause, longestEventPause)
	for ctx.Err() == nil {
		e, ok, closed := q.next()
		switch {
		case ok && q.write(ctx, e):
			pauses = retry.Backoff(firstEventPause, longestEventPause)
		case ok:
			retry.Sleep(ctx, pauses.Step())
		case closed:
			return
		default:
			select {
			case <-q.added:
			case <-ctx.Done():
			}
		}
	}
}

// dropAll drops what could not be written in time.
func (q *eventQueue) dropAll() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, e := range q.waiting {
		q.drop(e.Event, errEventsClosed)
	}
	q.waiting = nil
}

// write writes the Event, or drops it. It returns false if it has put it back, because the API server does not take
// any Event now.
func (q *eventQueue) write(ctx context.Context, e queuedEvent) (done bool) {
	if !e.correlated && !q.correlate(&e) {
		return true
	}
	written, err := q.send(ctx, e)
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case err == nil:
		q.correlator.UpdateState(written)
	case apierrors.IsAlreadyExists(err): // written by an attempt whose answer was lost
	case isRefused(err):
		q.drop(e.Event, err)
	case time.Since(e.LastTimestamp.Time) >= eventAge:
		q.drop(e.Event, errors.Join(errEventTooOld, err))
	default:
		q.waiting = append(q.waiting, e)
		return false
	}
	return true
}

// correlate finds out whether the Event repeats an earlier one. It returns false if there were too many like it.
func (q *eventQueue) correlate(e *queuedEvent) bool {
	result, err := q.correlator.EventCorrelate(e.Event)
	if err != nil || result.Skip {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.drop(e.Event, errors.Join(errRepeatedEvent, err))
		return false
	}
	*e = queuedEvent{result.Event, result.Patch, true}
	return true
}

// send creates the Event, or counts the one that it repeats.
func (q *eventQueue) send(ctx context.Context, e queuedEvent) (*corev1.Event, error) {
	ctx, cancel := context.WithTimeout(ctx, eventTimeout)
	defer cancel()
	if e.Count > 1 {
		written, err := q.api.PatchWithEventNamespaceWithContext(ctx, e.Event, e.patch)
		if !apierrors.IsNotFound(err) {
			return written, err
		}
	}
	e.ResourceVersion = ""
	return q.api.CreateWithEventNamespaceWithContext(ctx, e.Event)
}

// isRefused reports whether the API server will not take the Event later either, for example because its namespace is
// being deleted, or a webhook denies it.
func isRefused(err error) bool {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) {
		return false // no answer
	}
	code := status.Status().Code
	return code >= http.StatusBadRequest && code < http.StatusInternalServerError &&
		code != http.StatusTooManyRequests && code != http.StatusRequestTimeout && code != http.StatusUnauthorized
}
