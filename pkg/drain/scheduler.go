package drain

import (
	"sync"
	"time"
)

const (
	// lateAgain is by how much the time is multiplied at which a late pod came, to evict it: where its successor is
	// bound shows whether the scheduler is still behind.
	lateAgain = 2
	// longestSchedulerWait is how long after the taint a drain waits for the scheduler at the longest.
	longestSchedulerWait = 2 * time.Minute
	// schedulerMemory is for how long a delay counts.
	schedulerMemory = 10 * time.Minute
)

// schedulerDelay is how long the scheduler takes to see a taint: the longest time after the taint of a node at which
// it has still bound a pod to the node, in any drain of this process and lately. The zero value is ready.
type schedulerDelay struct {
	mu      sync.Mutex
	longest time.Duration
	seen    time.Time
}

// observe records that a pod was bound to a node so long after its taint.
func (d *schedulerDelay) observe(delay time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if now := time.Now(); delay >= d.longest || now.Sub(d.seen) > schedulerMemory {
		d.longest, d.seen = delay, now
	}
}

// wait returns how long after its taint a node may still get a pod; zero if the scheduler has not been late. It is
// longer than late pods wait for their eviction: while one drain evicts such a pod, no other ends, which could get the
// next.
func (d *schedulerDelay) wait() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	if time.Since(d.seen) > schedulerMemory {
		return 0
	}
	return min(lateAgain*d.longest+d.longest/2, longestSchedulerWait)
}
