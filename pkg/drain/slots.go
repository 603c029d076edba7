package drain

import (
	"container/heap"
	"context"
	"sync"
	"time"
)

// concurrentRemovals bounds the requests of each kind that are in flight in the whole cluster. Pods that wait for
// anything else take no slot.
const concurrentRemovals = 100

// slotPools are the slots for each kind of request. Evictions can be held up by an admission webhook. They must
// not hold up those at the last call, and neither must hold up deletions.
type slotPools struct{ evictions, lastCalls, deletions *slots }

func newSlotPools() slotPools {
	return slotPools{newSlots(concurrentRemovals), newSlots(concurrentRemovals), newSlots(concurrentRemovals)}
}

func (p slotPools) of(r Removal) *slots {
	switch {
	case !r.evicts():
		return p.deletions
	case r.LastCall:
		return p.lastCalls
	}
	return p.evictions
}

// slots bounds the requests in flight. A free slot goes to the request with the earliest deadline.
type slots struct {
	mu      sync.Mutex
	free    int
	arrived int
	waiting tickets
}

func newSlots(n int) *slots { return &slots{free: n} }

// acquire waits for a slot, and reports whether it got one before ctx ended. If so, the caller must call release.
func (s *slots) acquire(ctx context.Context, deadline time.Time) bool {
	s.mu.Lock()
	if s.free > 0 {
		s.free--
		s.mu.Unlock()
		return true
	}
	s.arrived++
	t := &ticket{deadline: deadline, number: s.arrived, granted: make(chan struct{})}
	heap.Push(&s.waiting, t)
	s.mu.Unlock()
	select {
	case <-t.granted:
		return true
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.index < 0 {
		s.grant()
	} else {
		heap.Remove(&s.waiting, t.index)
	}
	return false
}

// release returns a slot.
func (s *slots) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.grant()
}

// grant gives a slot to the first request that waits. The lock is held.
func (s *slots) grant() {
	if len(s.waiting) == 0 {
		s.free++
		return
	}
	if t, ok := heap.Pop(&s.waiting).(*ticket); ok {
		close(t.granted)
	}
}

// ticket is a request that waits for a slot.
type ticket struct {
	deadline time.Time
	number   int // in the order of arrival
	granted  chan struct{}
	index    int // in tickets; negative when it is granted
}

// tickets is a heap: the first is the one with the earliest deadline.
type tickets []*ticket

func (t tickets) Len() int { return len(t) }

func (t tickets) Less(i, j int) bool {
	if c := t[i].deadline.Compare(t[j].deadline); c != 0 {
		return c < 0
	}
	return t[i].number < t[j].number
}

func (t tickets) Swap(i, j int) {
	t[i], t[j] = t[j], t[i]
	t[i].index, t[j].index = i, j
}

// Push is for heap.Push.
func (t *tickets) Push(x any) {
	if added, ok := x.(*ticket); ok {
		added.index = len(*t)
		*t = append(*t, added)
	}
}

// Pop is for heap.Pop.
func (t *tickets) Pop() any {
	last := len(*t) - 1
	removed := (*t)[last]
	(*t)[last] = nil
	*t, removed.index = (*t)[:last], -1
	return removed
}
