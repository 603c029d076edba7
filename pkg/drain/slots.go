package drain

import (
	"cmp"
	"context"
	"slices"
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

func (p slotPools) of(r *Removal) *slots {
	switch r.Kind {
	case Eviction:
		return p.evictions
	case LastEviction:
		return p.lastCalls
	case Deletion, EarlyDeletion:
	}
	return p.deletions
}

// slots bounds the requests in flight. A free slot goes to the request with the earliest deadline.
type slots struct {
	mu      sync.Mutex
	free    int
	arrived int
	waiting []*ticket // in the order in which they get slots
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
	i, _ := slices.BinarySearchFunc(s.waiting, t, (*ticket).compare)
	s.waiting = slices.Insert(s.waiting, i, t)
	s.mu.Unlock()
	select {
	case <-t.granted:
		return true
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if i, found := slices.BinarySearchFunc(s.waiting, t, (*ticket).compare); found {
		s.waiting = slices.Delete(s.waiting, i, i+1)
	} else {
		s.grant() // it was granted meanwhile
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
	close(s.waiting[0].granted)
	s.waiting = slices.Delete(s.waiting, 0, 1)
}

// ticket is a request that waits for a slot.
type ticket struct {
	deadline time.Time
	number   int // in the order of arrival
	granted  chan struct{}
}

// compare is negative if this request gets a slot before the other.
func (t *ticket) compare(other *ticket) int {
	return cmp.Or(t.deadline.Compare(other.deadline), cmp.Compare(t.number, other.number))
}
