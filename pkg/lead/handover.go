package lead

import (
	"context"
	"errors"
	"time"

	"github.com/node-drainer/node-drainer/internal/retry"
)

// errHandOver ends the work of a leader that lets another follow.
var errHandOver = errors.New("the leader hands over, because its own node is drained")

// HandOver asks for another leader before the node that this process runs on is drained: else the work would
// stop amid the drain, when the process is moved. node is a name or a UID that stays. If HandOver answers
// true, the context of the work ends at once. It answers false for a node that the lease was handed over for
// before, and where there is no election: then the node is drained with this process on it.
func (e *Elector) HandOver(node string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !handsOver(e.term != nil && e.cfg.Election, e.handed[node]) {
		return false
	}
	e.handed[node] = true
	e.term.stop(errHandOver)
	return true
}

// handsOver tells whether a leader lets go of the lease before its own node is drained: once for each node. A
// single replica, which leads again, drains the node itself, and two on two nodes that both go do not send
// the lease to and fro.
func handsOver(leads, before bool) bool { return leads && !before }

// seen is what the Lease says: who holds it, and how many have held it before.
type seen struct {
	holder      string
	transitions int
}

// stepAside lets another replica lead: it returns when one has, or when none has come.
func (e *Elector) stepAside(ctx context.Context) {
	own, since := e.lock.own(), time.Now()
	for retry.Sleep(ctx, e.cfg.RetryPeriod) {
		var now seen
		if record, _, err := e.lock.Get(ctx); err == nil {
			now = seen{record.HolderIdentity, record.LeaderTransitions}
			e.sees(now.holder)
		}
		if standsAgain(own, now, time.Since(since), e.cfg.LeaseDuration) {
			return
		}
	}
}

// standsAgain tells whether a replica that has handed over may stand for election again: when another leads
// or has led since, for it may hand over as well, or when nobody has come for as long as a lease lasts.
func standsAgain(own, now seen, since, lease time.Duration) bool {
	return now.holder != "" && now.holder != own.holder || now.transitions > own.transitions || since >= lease
}
