package lead

import (
	"context"
	"errors"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"

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
		now, _, err := e.lock.Get(ctx)
		if err == nil {
			e.setHolder(now.HolderIdentity)
		}
		if err == nil && follows(*now, own) || time.Since(since) >= e.cfg.LeaseDuration {
			return
		}
	}
}

// follows reports whether another replica than own's holder holds the Lease, or has held it since own.
func follows(now, own resourcelock.LeaderElectionRecord) bool {
	return now.HolderIdentity != "" && now.HolderIdentity != own.HolderIdentity ||
		now.LeaderTransitions > own.LeaderTransitions
}
