package agent

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/node-drainer/node-drainer/internal/node"
)

const (
	// barrierQuiet is how long no further node must have been announced before the barrier opens.
	barrierQuiet = 200 * time.Millisecond
	// barrierLimit is the longest wait for nodes that are announced: not all of them are cordoned.
	barrierLimit = time.Second
	// burstLimit is the longest wait while the API server cordons one node after the other, and burstPart the part of the
	// time until the deadline that is used for it.
	burstLimit, burstPart = 10 * time.Second, 20
	// mostCordons is how many nodes are cordoned at the same time. The API server refuses what is more than it can queue.
	mostCordons = 50
)

// markBarrier lets drains wait until all nodes of a burst of terminations are cordoned: Auto Scaling
// terminates instances in bursts, and a pod that is evicted too early may be scheduled onto a node that
// terminates next. The zero value is ready.
type markBarrier struct {
	mu       sync.Mutex
	pending  countdown // nodes that are announced and not yet cordoned
	last     time.Time // when the last one was announced
	inFlight countdown // nodes that are to be cordoned now
	ended    time.Time // when the last one was
	slots    *semaphore.Weighted
}

// countdown counts nodes, and says when none is left. The barrier's mu guards it.
type countdown struct {
	n    int
	none chan struct{} // closed when n becomes 0; nil if nobody waits for that
}

func (c *countdown) done() {
	if c.n--; c.n == 0 && c.none != nil {
		close(c.none)
		c.none = nil
	}
}

// wait returns a channel that is closed when none is left; nil if none is.
func (c *countdown) wait() <-chan struct{} {
	if c.n > 0 && c.none == nil {
		c.none = make(chan struct{})
	}
	return c.none
}

// announce says that a node is about to be cordoned. The caller calls the returned function after the cordon.
func (b *markBarrier) announce() (cordoned func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pending.n++
	b.last = time.Now()
	return sync.OnceFunc(b.cordoned)
}

// announceNode is announce, but drains do not wait for an instance without a Node, which may take minutes to register.
func (b *markBarrier) announceNode(n node.Node) (cordoned func()) {
	if n.Name == "" || n.Unselected {
		return func() {}
	}
	return b.announce()
}

func (b *markBarrier) cordoned() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pending.done()
}

// cordon has do, which cordons a node, wait for its turn.
func (b *markBarrier) cordon(ctx context.Context, do func() error) error {
	b.mu.Lock()
	if b.slots == nil {
		b.slots = semaphore.NewWeighted(mostCordons)
	}
	b.inFlight.n++
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.ended = time.Now()
		b.inFlight.done()
	}()
	if b.slots.Acquire(ctx, 1) != nil {
		return context.Cause(ctx)
	}
	defer b.slots.Release(1)
	return do()
}

// wait returns when no node that terminates now is left to be cordoned, or when that takes too long for a drain that
// has to end by the deadline, or when ctx ends.
func (b *markBarrier) wait(ctx context.Context, deadline time.Time) {
	limit := time.Now().Add(min(burstLimit, time.Until(deadline)/burstPart))
	b.waitForAnnounced(ctx)
	for {
		none, stalls := b.flight()
		left := min(time.Until(stalls), time.Until(limit))
		if none == nil || left <= 0 || ctx.Err() != nil {
			return
		}
		timer := time.NewTimer(left)
		select {
		case <-none:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// flight returns a channel that is closed when no node is being cordoned any more, or nil if none is, and when the API
// server will have cordoned none for too long.
func (b *markBarrier) flight() (none <-chan struct{}, stalls time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.inFlight.wait(), b.ended.Add(barrierLimit)
}

// waitForAnnounced returns when every announced node is cordoned and none was announced for barrierQuiet, or after
// barrierLimit, or when ctx ends.
func (b *markBarrier) waitForAnnounced(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, barrierLimit)
	defer cancel()
	for {
		none, quiet := b.state()
		if none == nil && quiet <= 0 {
			return
		}
		var silence <-chan time.Time
		if none == nil {
			silence = time.After(quiet)
		}
		select {
		case <-none:
		case <-silence:
		case <-ctx.Done():
			return
		}
	}
}

// state returns a channel that is closed when no node is pending any more, or nil if none is, and how long it must stay
// so.
func (b *markBarrier) state() (none <-chan struct{}, quiet time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.pending.wait(), time.Until(b.last.Add(barrierQuiet))
}
