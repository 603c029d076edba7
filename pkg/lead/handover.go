package lead

import (
	"context"
	"errors"
	"time"

	"github.com/node-drainer/node-drainer/internal/retry"
)

// errHandOver ends the work of a leader whose own node is to be drained.
var errHandOver = errors.New("the leader hands over, because its own node is drained")

// HandOver lets another replica lead before the node that this process runs on is drained. Otherwise the work
// would stop during the drain, when the pod of this process is evicted. node is a name or a UID that does not
// change.
//
// If HandOver returns true, the context of the work has ended. It returns false without an election, and for
// a node that the lease was handed over for before: then the node is drained with this process on it. So a
// single replica, which is elected again, drains its node, and two replicas whose nodes both terminate do not
// hand over in turns.
func (e *Elector) HandOver(node string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.term == nil || !e.cfg.Election || e.handedOver[node] {
		return false
	}
	e.handedOver[node] = true
	e.term.stop(errHandOver)
	return true
}

// awaitOther waits until another replica leads or has led, but at most for LeaseDuration.
func (e *Elector) awaitOther(ctx context.Context) {
	own, since := e.lock.read().own, time.Now()
	for retry.Sleep(ctx, e.cfg.RetryPeriod) {
		var now holding
		if record, _, err := e.lock.Get(ctx); err == nil {
			now = holding{record.HolderIdentity, record.LeaderTransitions}
			e.setHolder(now.holder)
		}
		if now.follows(own) || time.Since(since) >= e.cfg.LeaseDuration {
			return
		}
	}
}

// follows reports whether another replica than own's holder holds the Lease, or has held it since own.
func (h holding) follows(own holding) bool {
	return h.holder != "" && h.holder != own.holder || h.transitions > own.transitions
}
