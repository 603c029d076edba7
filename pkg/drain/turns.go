package drain

import "sync"

// turns let one pod of a namespace at a time be asked and then evicted, over all drains: the members of a group are in
// one namespace, and two of them must not be released at once. The zero value is ready.
type turns struct {
	mu          sync.Mutex
	byNamespace map[string]*turn
}

// turn is that of a namespace.
type turn struct {
	taken    bool
	changed  bool                 // a member was removed since the turn was taken
	removing int                  // members that are being removed without the turn, since there is no time for it
	waiting  map[*waiter]struct{} // the drains to wake when the turn ends
}

// isTaken reports whether no pod of the namespace can get the turn. If so, the drain is woken when one can.
func (t *turns) isTaken(namespace string, w *waiter) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	one := t.byNamespace[namespace]
	if one == nil {
		return false
	}
	one.waiting[w] = struct{}{}
	return true
}

// take takes the turn, and reports whether it was free. If so, the caller must call end.
func (t *turns) take(namespace string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byNamespace[namespace] != nil {
		return false
	}
	t.start(namespace).taken = true
	return true
}

// start adds a turn to the namespace, which has none. The lock is held.
func (t *turns) start(namespace string) *turn {
	if t.byNamespace == nil {
		t.byNamespace = map[string]*turn{}
	}
	one := &turn{waiting: map[*waiter]struct{}{}}
	t.byNamespace[namespace] = one
	return one
}

// end ends the turn, and wakes the drains that wait for it.
func (t *turns) end(namespace string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.byNamespace[namespace].taken = false
	t.wake(namespace)
}

// remove records that a member is removed without the turn, until the returned function is called.
func (t *turns) remove(namespace string) (removed func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	one := t.byNamespace[namespace]
	if one == nil {
		one = t.start(namespace)
	}
	one.removing++
	one.changed = true
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		one.removing--
		t.wake(namespace)
	}
}

// hasChanged reports whether a member was removed since the turn was taken: the answer of another one, which has the
// turn, may be about a group that had it. The turn is the caller's.
func (t *turns) hasChanged(namespace string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byNamespace[namespace].changed
}

// wake wakes the drains that wait for the turn if it is free. The lock is held.
func (t *turns) wake(namespace string) {
	one := t.byNamespace[namespace]
	if one.taken || one.removing > 0 {
		return
	}
	for w := range one.waiting {
		w.wakeUp()
	}
	delete(t.byNamespace, namespace)
}
