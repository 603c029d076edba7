package drain

import "sync"

// turns let one pod of a namespace at a time be asked and then evicted, over all drains: the members of a group are in
// one namespace, and two of them must not be released at once. The zero value is ready.
type turns struct {
	mu    sync.Mutex
	taken map[string]map[*waiter]struct{} // by namespace: the drains to wake when the turn ends
}

// isTaken reports whether a pod of the namespace has the turn. If so, its end wakes the drain.
func (t *turns) isTaken(namespace string, w *waiter) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	waiting, taken := t.taken[namespace]
	if taken {
		waiting[w] = struct{}{}
	}
	return taken
}

// take takes the turn, and reports whether it was free. If so, the caller must call end.
func (t *turns) take(namespace string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, taken := t.taken[namespace]; taken {
		return false
	}
	if t.taken == nil {
		t.taken = map[string]map[*waiter]struct{}{}
	}
	t.taken[namespace] = map[*waiter]struct{}{}
	return true
}

// end ends the turn, and wakes the drains that wait for it.
func (t *turns) end(namespace string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for w := range t.taken[namespace] {
		w.wakeUp()
	}
	delete(t.taken, namespace)
}
