package notify

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/node-drainer/node-drainer/internal/retry"
)

const (
	// window is how long the notifier waits for more drains after the first one of a message.
	window = time.Second
	// maxQueued is how many drains wait for a message at most, while the URL does not answer.
	maxQueued = 1000
	// maxKnown is how many drains are remembered, so that each is reported once.
	maxKnown = 10_000
	// stopTime bounds the requests after the end of Run's context.
	stopTime = 2 * time.Second

	attempts     = 5 // of each message
	firstPause   = time.Second
	longestPause = time.Minute
)

// Observer records what becomes of messages.
type Observer interface {
	// NotificationSent records that a message about so many drains was accepted; recovered, that the one before failed.
	NotificationSent(drains int, recovered bool)
	// NotificationFailed records that a message was given up; changed, that the one before did not fail so. The error
	// contains no more of the URL than its host.
	NotificationFailed(drains int, err error, changed bool)
}

// Notifier posts messages. Create it with New, and start it with Run.
type Notifier struct {
	settings
	cluster string
	poster  poster
	pending chan struct{} // has an element if drains are queued

	mu     sync.Mutex
	queued []Drain
	known  map[drainKey]time.Time // since when the nodes are cordoned

	failure string // of the last message; empty if it was accepted
}

type drainKey struct {
	uid    string
	status Status
}

// New returns a Notifier for the cluster that sends its requests through transport. The errors are those of
// cfg.Validate.
func New(cfg Config, cluster string, transport http.RoundTripper) (*Notifier, error) {
	s, err := cfg.parse()
	if err != nil {
		return nil, err
	}
	return &Notifier{
		settings: s, cluster: cluster, poster: newPoster(cfg, s.header, transport),
		pending: make(chan struct{}, 1), known: map[drainKey]time.Time{},
	}, nil
}

// Add queues a drain for the next message, if NOTIFY_WHEN lists its status and it is not known with that status. It
// does not block. It returns false if too many wait already, and drops the drain then.
func (n *Notifier) Add(d Drain) (queued bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	key := drainKey{d.NodeUID, d.Status}
	if since, ok := n.known[key]; ok && since.Equal(d.Since) || !slices.Contains(n.when, d.Status) {
		return true
	}
	if len(n.queued) == maxQueued {
		return false
	}
	if len(n.known) == maxKnown {
		clear(n.known) // at worst a drain is reported twice
	}
	n.known[key] = d.Since
	n.queued = append(n.queued, d)
	select {
	case n.pending <- struct{}{}:
	default:
	}
	return true
}

// Run posts messages until ctx ends. Then it tries once to post what is queued, for at most two seconds.
func (n *Notifier) Run(ctx context.Context, o Observer) {
	requests, stop := retry.Grace(ctx, stopTime)
	defer stop()
	for ctx.Err() == nil {
		select {
		case <-n.pending:
			retry.Sleep(ctx, window)
		case <-ctx.Done():
		}
		n.post(ctx, requests, o)
	}
	n.post(ctx, requests, o)
}

// post posts what is queued, in one message. Pauses end with ctx, and requests with the other context.
func (n *Notifier) post(ctx, requests context.Context, o Observer) {
	drains := n.take()
	if len(drains) == 0 {
		return
	}
	body, err := render(n.template, newMessage(n.cluster, drains))
	if err == nil {
		err = n.poster.try(ctx, requests, body)
	}
	before := n.failure
	if err != nil {
		n.failure = err.Error()
		o.NotificationFailed(len(drains), err, n.failure != before)
		return
	}
	n.failure = ""
	o.NotificationSent(len(drains), before != "")
}

func (n *Notifier) take() []Drain {
	n.mu.Lock()
	defer n.mu.Unlock()
	drains := n.queued
	n.queued = nil
	return drains
}
