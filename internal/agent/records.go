package agent

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/node-drainer/node-drainer/internal/autoscaling"
	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/internal/node"
)

// errManyCopies: so many messages report an event that this one waits in the queue for its end.
var errManyCopies = errors.New("many messages report the event")

// errCanceled: the message waits in the queue for the end of what was canceled before it came.
var errCanceled = errors.New("an event like it was canceled, and its drain stops")

// mostCopies bounds how many copies of an event wait for its end. AWS sends a few; somebody who forges them could
// otherwise take the place of all other messages for as long as a drain lasts.
const mostCopies = 10

// records has one record for each instance that has a reason to be looked at.
type records struct {
	*actor
	policy policy

	mu      sync.Mutex
	byID    map[string]*record
	working sync.WaitGroup
}

// of returns the record of the instance.
func (r *records) of(id string) *record {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byID == nil {
		r.byID = map[string]*record{}
	}
	one := r.byID[id]
	if one == nil {
		one = &record{
			records: r, changed: make(chan struct{}, 1), state: state{id: id},
			steps: map[step]*runningStep{}, failed: map[step]*failure{}, starts: map[step]starts{},
			completed: map[actionKey]bool{}, lost: map[key]bool{},
		}
		r.byID[id] = one
	}
	return one
}

// peek calls read with the record of the instance, if there is one.
func (r *records) peek(id string, read func(*record) bool) bool {
	r.mu.Lock()
	one := r.byID[id]
	r.mu.Unlock()
	if one == nil {
		return false
	}
	one.mu.Lock()
	defer one.mu.Unlock()
	return read(one)
}

// all returns all records.
func (r *records) all() []*record {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]*record, 0, len(r.byID))
	for _, one := range r.byID {
		all = append(all, one)
	}
	return all
}

// handle adds the event to the record of its instance, and returns when its message is not needed any more.
func (r *records) handle(ctx context.Context, e event.Event) error {
	settled := make(chan error, 1)
	if err := r.of(e.InstanceID).add(ctx, e, settled); err != nil {
		return err
	}
	return <-settled
}

// stop ends all work, and returns when it has ended.
func (r *records) stop(cause error) {
	for _, one := range r.all() {
		one.mu.Lock()
		if one.looping {
			one.cancel(cause)
		}
		one.mu.Unlock()
	}
	r.working.Wait()
}

// has reports whether the event is being handled.
func (r *records) has(e event.Event) bool {
	return r.peek(e.InstanceID, func(one *record) bool { return one.reason(keyOf(e)) != nil })
}

// hasCompleted reports whether this process has completed the lifecycle action.
func (r *records) hasCompleted(e event.Event) bool {
	return r.peek(e.InstanceID, func(one *record) bool { return one.completed[actionKeyOf(e)] })
}

// isDrained reports whether the last drain of the node was for its mark.
func (r *records) isDrained(n node.Node) bool {
	return r.peek(n.InstanceID, func(one *record) bool {
		one.read()
		return one.state.isDrained()
	})
}

// isBusy reports whether the instance is being handled.
func (r *records) isBusy(id string) bool {
	return r.peek(id, func(one *record) bool { return one.looping })
}

// isRequested reports whether a drain for the annotation of the instance's node has begun.
func (r *records) isRequested(id string) bool {
	return r.peek(id, func(one *record) bool { return one.state.requested })
}

// setFound records that a resync has found the event, and setReceived that a message has reported it.
func (r *records) setFound(e event.Event) {
	one := r.of(e.InstanceID)
	one.mu.Lock()
	defer one.mu.Unlock()
	one.lost[keyOf(e)] = true
}

func (r *records) setReceived(e event.Event) {
	r.peek(e.InstanceID, func(one *record) bool {
		delete(one.lost, keyOf(e))
		return true
	})
}

// takeLost returns how many events have ended that a resync has found, and no message has reported. The message of an
// event that is being handled is late, and perhaps not lost.
func (r *records) takeLost() (n int) {
	for _, one := range r.all() {
		one.mu.Lock()
		for k := range one.lost {
			if one.reason(k) == nil {
				delete(one.lost, k)
				n++
			}
		}
		one.mu.Unlock()
	}
	return n
}

// wakeAll has all instances that are being handled decided about.
func (r *records) wakeAll(ctx context.Context) {
	for _, one := range r.all() {
		one.mu.Lock()
		if one.looping {
			one.work(ctx)
		}
		one.mu.Unlock()
	}
}

// judge has AWS asked whether the node must still be cordoned, unless its instance is being handled. m is what Auto
// Scaling has just said of the instance.
func (r *records) judge(ctx context.Context, n node.Node, m autoscaling.Member) {
	one := r.of(n.InstanceID)
	one.mu.Lock()
	defer one.mu.Unlock()
	if !one.state.mustJudge && len(one.state.reasons) == 0 {
		one.state.mustJudge, one.state.nextJudge, one.state.member = true, time.Now(), &m
	}
	one.work(ctx)
}

// reset forgets what another process, which led in between, may have changed.
func (r *records) reset() {
	for _, one := range r.all() {
		one.mu.Lock()
		one.completed = map[actionKey]bool{}
		clear(one.lost)
		s := &one.state
		s.requested, s.withdrawn, s.mustJudge, s.mustPut, s.healthy = false, false, false, false, time.Time{}
		s.beganMaint, one.said = time.Time{}, node.Postponement{}
		one.mu.Unlock()
	}
}

// forget forgets the instances that have no Node and no reason, and the completed actions of those that do not wait.
func (r *records) forget(nodes []node.Node, waiting []event.Event, mayWait func(instanceID string) bool) {
	r.turns.retain(nodes)
	known := map[string]bool{}
	for _, n := range nodes {
		known[n.InstanceID] = true
	}
	waits := map[string]map[actionKey]bool{}
	for _, e := range waiting {
		known[e.InstanceID] = true
		if waits[e.InstanceID] == nil {
			waits[e.InstanceID] = map[actionKey]bool{}
		}
		waits[e.InstanceID][actionKeyOf(e)] = true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, one := range r.byID {
		one.mu.Lock()
		if !mayWait(id) {
			maps.DeleteFunc(one.completed, func(k actionKey, _ bool) bool { return !waits[id][k] })
		}
		isIdle := !one.looping && len(one.completed) == 0
		one.mu.Unlock()
		if isIdle && !known[id] {
			delete(r.byID, id)
		}
	}
}

// actionKey tells the lifecycle actions of an instance apart. One hook may hold an instance that returns to the warm
// pool, and soon afterwards when it is terminated there; or while its root volume is replaced, and when it terminates.
type actionKey struct {
	key
	returns, replaces bool
}

func actionKeyOf(e event.Event) actionKey {
	return actionKey{keyOf(e), e.Destination == event.PlaceWarmPool, e.Action == event.ReplaceRootVolume}
}
