package agent

import (
	"context"
	"sync"
	"time"

	"github.com/node-drainer/node-drainer/internal/retry"
)

const (
	// barrierQuiet is how long no further node must have been announced before the barrier opens.
	barrierQuiet = 200 * time.Millisecond
	// barrierLimit is the longest wait, and barrierPoll the pause between two checks.
	barrierLimit, barrierPoll = time.Second, 10 * time.Millisecond
)

// markBarrier lets drains wait until all nodes of a burst of terminations are cordoned: Auto Scaling
// terminates instances in bursts, and a pod that is evicted too early may be scheduled onto a node that
// terminates next. The zero value is ready.
type markBarrier struct {
	mu      sync.Mutex
	pending int       // nodes that are announced and not yet cordoned
	last    time.Time // when the last one was announced
}

// announce says that a node is about to be cordoned. The caller calls the returned function after the cordon.
func (b *markBarrier) announce() (cordoned func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pending++
	b.last = time.Now()
	return sync.OnceFunc(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.pending--
	})
}

// wait returns when every announced node is cordoned and none was announced for barrierQuiet, or after
// barrierLimit, or when ctx ends.
func (b *markBarrier) wait(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, barrierLimit)
	defer cancel()
	for !b.isOpen() && retry.Sleep(ctx, barrierPoll) {
	}
}

func (b *markBarrier) isOpen() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.pending == 0 && time.Since(b.last) >= barrierQuiet
}
