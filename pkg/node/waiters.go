package node

import (
	"slices"
	"sync"
)

// waiters are the callers that wait for the Nodes of instances to register.
type waiters struct {
	mu         sync.Mutex
	byInstance map[string][]chan struct{} // each closed when the Node registers
}

func (w *waiters) add(instanceID string) chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := make(chan struct{})
	w.byInstance[instanceID] = append(w.byInstance[instanceID], c)
	return c
}

// remove forgets a waiter that gives up, so that instances that never register take no memory.
func (w *waiters) remove(instanceID string, c chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	left := slices.DeleteFunc(w.byInstance[instanceID], func(o chan struct{}) bool { return o == c })
	if w.byInstance[instanceID] = left; len(left) == 0 {
		delete(w.byInstance, instanceID)
	}
}

func (w *waiters) notify(instanceID string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.byInstance[instanceID] {
		close(c)
	}
	delete(w.byInstance, instanceID)
}
