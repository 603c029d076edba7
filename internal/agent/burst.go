package agent

import (
	"context"
	"sync"
	"time"
)

const (
	// burstQuiet is how long no new termination must have come in before pods are moved: Auto Scaling
	// terminates in bursts, and a pod that is evicted amid one may land on a node that goes next.
	burstQuiet = 200 * time.Millisecond
	// burstLimit bounds that wait.
	burstLimit = time.Second
)

// burst knows which nodes are about to be marked, so that all of a burst are before the first pod moves. The
// zero value is ready.
type burst struct {
	mu      sync.Mutex
	marking int           // nodes that are about to be marked
	last    time.Time     // when the last one was taken up
	settled chan struct{} // closed when none is left; nil if nobody waits
}

// begin notes that a node is about to be marked, until the returned function is called.
func (b *burst) begin() (marked func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.marking++
	b.last = time.Now()
	return b.end
}

func (b *burst) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.marking--; b.marking == 0 && b.settled != nil {
		close(b.settled)
		b.settled = nil
	}
}

// wait returns when every node of the burst has been marked, or after burstLimit, or when ctx ends.
func (b *burst) wait(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, burstLimit)
	defer cancel()
	for {
		until, settled := b.look()
		if settled == nil && !time.Now().Before(until) {
			return
		}
		var quiet <-chan time.Time
		if settled == nil {
			quiet = time.After(time.Until(until))
		}
		select {
		case <-settled:
		case <-quiet:
		case <-ctx.Done():
			return
		}
	}
}

// look returns when it will have been quiet for long enough, or, while a node is being marked, a channel that
// is closed when that is done.
func (b *burst) look() (until time.Time, settled <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.marking == 0 {
		return b.last.Add(burstQuiet), nil
	}
	if b.settled == nil {
		b.settled = make(chan struct{})
	}
	return time.Time{}, b.settled
}
