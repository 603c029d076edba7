package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/node-drainer/node-drainer/internal/autoscaling"
	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/internal/node"
	"github.com/node-drainer/node-drainer/internal/retry"
)

// requestedNodes are the Nodes whose annotation asks for a drain.
type requestedNodes interface {
	All() []node.Node
	// DrainRequests returns a channel that has an element when such an annotation was added or removed since the last
	// one was received.
	DrainRequests() <-chan struct{}
}

// withdrawnInterval is how often the agent looks at first whether the instance of a node is in service again whose
// request was withdrawn. An instance can be in Standby for days.
const withdrawnInterval = 10 * time.Second

// requestedDrains drains the nodes that have the annotation node.DrainRequestAnnotation, and uncordons them when it is
// removed. The annotation and the mark are all that it needs to know, so that it continues after a restart.
type requestedDrains struct {
	cfg      Config
	nodes    requestedNodes
	groups   groupStates
	cordoner *cordoner
	inflight *inflight
	drain    func(context.Context, event.Event) error

	mu    sync.Mutex
	begun map[string]bool // by UID of the node: a drain runs, or has ended well
}

// run acts on the annotations until ctx ends, and returns when the drains that it has started have ended.
func (r *requestedDrains) run(ctx context.Context) {
	r.begun = map[string]bool{} // the process that led in between may have uncordoned some
	var drains sync.WaitGroup
	defer drains.Wait()
	backoff := retry.Backoff(withdrawnInterval, r.cfg.ResyncInterval)
	for pauses := backoff; ctx.Err() == nil; {
		done := r.act(ctx, func(n node.Node, e event.Event) {
			drains.Go(func() {
				if r.drain(ctx, e) != nil { // the observer has been notified of the error
					r.setBegun(n, false)
				}
			})
		})
		pause := r.cfg.ResyncInterval
		if !done {
			pause = min(pauses.Step(), pause)
		}
		next := time.NewTimer(pause)
		select {
		case <-r.nodes.DrainRequests():
			pauses = backoff
		case <-next.C:
		case <-ctx.Done():
		}
		next.Stop()
	}
}

// act starts the drains of nodes that have the annotation, and stops those of nodes that have it no more, which it
// uncordons. It reports whether it uncordoned all of these whose instances stay. It starts a drain that failed again
// when it is called again.
func (r *requestedDrains) act(ctx context.Context, start func(node.Node, event.Event)) (done bool) {
	nodes := r.nodes.All()
	r.retain(nodes)
	var withdrawn []node.Node
	for _, n := range nodes {
		e := requestOf(n)
		switch {
		case !n.DrainRequested && (r.hasBegun(n) || n.Mark.Reason == string(e.Kind)):
			withdrawn = append(withdrawn, n)
		case n.DrainRequested && r.mustStart(n, e):
			start(n, e)
		}
	}
	// At once: each waits for the end of its drain, and for an answer of Auto Scaling, which answers for many together.
	return forEach(withdrawn, func(n node.Node) error {
		cordoned, known := r.stop(n, requestOf(n))
		if !known || cordoned && !r.withdraw(ctx, n) {
			return errNotWithdrawn
		}
		return nil
	}) == nil
}

// errNotWithdrawn: a node whose annotation was removed is still cordoned for it.
var errNotWithdrawn = errors.New("the node is not uncordoned yet")

// retain forgets the nodes that do not exist any more.
func (r *requestedDrains) retain(nodes []node.Node) {
	known := make(map[string]bool, len(nodes))
	for _, n := range nodes {
		known[n.UID] = true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.begun, func(uid string, _ bool) bool { return !known[uid] })
}

func (r *requestedDrains) hasBegun(n node.Node) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.begun[n.UID]
}

// requestOf returns the event of an annotation.
func requestOf(n node.Node) event.Event {
	return event.Event{Kind: event.DrainRequested, InstanceID: n.InstanceID, At: time.Now()}
}

// mustStart reports whether the drain of a node that has the annotation is to start: it has not begun, or the node was
// uncordoned since, or has failed and returned, and no event of its instance is in flight. A launch uncordons the node
// of an instance that returns from the warm pool, or has another root volume.
func (r *requestedDrains) mustStart(n node.Node, e event.Event) bool {
	if r.setBegun(n, true) {
		return !r.inflight.has(e)
	}
	return (n.Mark.Since.IsZero() || r.cordoner.history.hasReturned(n)) && !r.inflight.instances()[n.InstanceID]
}

// setBegun records whether the drain of the node has begun, and reports whether that has changed.
func (r *requestedDrains) setBegun(n node.Node, begun bool) (changed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	changed = r.begun[n.UID] != begun
	if begun {
		r.begun[n.UID] = true
	} else {
		delete(r.begun, n.UID)
	}
	return changed
}

// stop stops the drain of a node that does not have the annotation, and reports whether the node was cordoned for it:
// otherwise another event needs the node. That is not known while another event is in flight, and the watch shows no
// mark yet.
func (r *requestedDrains) stop(n node.Node, e event.Event) (cordoned, known bool) {
	begun, isReason := r.setBegun(n, false), n.Mark.Reason == string(event.DrainRequested)
	if begun || isReason {
		r.inflight.cancel(e, errCanceled)
	}
	switch {
	case isReason || !begun || !n.Mark.Since.IsZero():
		return isReason, true
	case r.inflight.instances()[n.InstanceID]:
		return false, false
	}
	return true, true
}

// withdraw uncordons the node if its instance is in service, or in no group. It reports whether nothing is left to do.
func (r *requestedDrains) withdraw(ctx context.Context, n node.Node) (done bool) {
	state, err := r.groups.State(ctx, n.InstanceID)
	if err != nil || state != "InService" && !state.Unknown() {
		return err == nil && (state.Terminating() || state.Gone()) && !state.ReplacingRootVolume()
	}
	why := fmt.Sprintf("the annotation %s was removed", node.DrainRequestAnnotation)
	return r.cordoner.tryUncordon(ctx, n, why) == nil
}

// checkRequest returns errContradicted if the node has the annotation no more.
func (c *confirmer) checkRequest(e event.Event) error {
	switch n, ok := c.nodes.Find(e.InstanceID); {
	case !ok:
		return autoscaling.ErrGone
	case !n.DrainRequested:
		return fmt.Errorf("%w: the annotation %s was removed", errContradicted, node.DrainRequestAnnotation)
	}
	return nil
}

// handleRequest drains the node as long as it has the annotation.
func (t *terminator) handleRequest(ctx context.Context, e event.Event) error {
	return t.run(ctx, e, func(ctx context.Context) (Outcome, error) {
		outcome, err := t.drainInstance(ctx, e)
		if err != nil {
			return t.abort(ctx, e, outcome, err)
		}
		return outcome, nil
	})
}
