package agent

import (
	"context"
	"sync"
	"time"

	"github.com/node-drainer/node-drainer/internal/node"
)

const (
	// barrierQuiet is how long no further node must have been announced before the barrier opens.
	barrierQuiet = 200 * time.Millisecond
	// barrierLimit is the longest wait.
	barrierLimit = time.Second
)

// markBarrier lets drains wait until all nodes of a burst of terminations are cordoned: Auto Scaling
// terminates instances in bursts, and a pod that is evicted too early may be scheduled onto a node that
// terminates next. The zero value is ready.
type markBarrier struct {
	mu      sync.Mutex
	pending int           // nodes that are announced and not yet cordoned
	last    time.Time     // when the last one was announced
	none    chan struct{} // closed when no node is pending; nil if no drain waits for that
}

// announce says that a node is about to be cordoned. The caller calls the returned function after the cordon.
func (b *markBarrier) announce() (cordoned func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pending++
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
	if b.pending--; b.pending == 0 && b.none != nil {
		close(b.none)
		b.none = nil
	}
}

// wait returns when every announced node is cordoned and none was announced for barrierQuiet, or after
// barrierLimit, or when ctx ends.
func (b *markBarrier) wait(ctx context.Context) {
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

// state returns a channel that is closed when no node is pending any more, or, if none is, nil and how long
// it must stay so.
func (b *markBarrier) state() (none <-chan struct{}, quiet time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.pending == 0 {
		return nil, time.Until(b.last.Add(barrierQuiet))
	}
	if b.none == nil {
		b.none = make(chan struct{})
	}
	return b.none, 0
}
