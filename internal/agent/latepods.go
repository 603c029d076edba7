package agent

import (
	"context"
	"sync"
	"time"

	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/internal/node"
	"github.com/node-drainer/node-drainer/internal/retry"
)

// firstLatePause and lastLatePause bound the pauses between two drains of a node for pods that came late:
// whatever binds pods to the node may do it again at once.
const firstLatePause, lastLatePause = time.Second, 5 * time.Minute

// latePods drains nodes again that get a pod after their drain for a notice has ended: a scheduler that lags
// may bind one long after the cordon, and no hook holds the instance until the next look at it. It watches the
// pods of each such node for as long as the node exists and has its mark.
type latePods struct {
	cfg     Config
	nodes   allNodes
	drainer Drainer
	history *drainHistory
	drain   func(context.Context, event.Event) error
}

// run watches until ctx ends. It returns when the drains that it started have ended.
func (l *latePods) run(ctx context.Context) {
	var watches sync.WaitGroup
	defer watches.Wait()
	watched := map[string]context.CancelFunc{} // by the UID of the node
	for ctx.Err() == nil {
		marked := l.markedNodes()
		for uid, n := range marked {
			if watched[uid] == nil && l.history.isDrained(n) {
				watching, stop := context.WithCancel(ctx)
				watched[uid] = stop
				watches.Go(func() { l.keepEmpty(ctx, watching, n) })
			}
		}
		for uid, stop := range watched {
			if _, ok := marked[uid]; !ok {
				stop()
				delete(watched, uid)
			}
		}
		l.awaitDrain(ctx)
	}
	for _, stop := range watched {
		stop()
	}
}

// markedNodes returns the nodes that are marked for an event that no hook waits for, by UID.
func (l *latePods) markedNodes() map[string]node.Node {
	marked := map[string]node.Node{}
	for _, n := range l.nodes.All() {
		if isMarkedForNotice(n) {
			marked[n.UID] = n
		}
	}
	return marked
}

// awaitDrain returns when a drain has ended, after ResyncInterval at the latest, or when ctx ends.
func (l *latePods) awaitDrain(ctx context.Context) {
	next := time.NewTimer(l.cfg.ResyncInterval)
	defer next.Stop()
	select {
	case <-l.history.added():
	case <-next.C:
	case <-ctx.Done():
	}
}

// keepEmpty drains the node whenever it has got a pod, until watching ends. Each drain has the deadline of the
// mark, and AWS confirms the event again.
func (l *latePods) keepEmpty(ctx, watching context.Context, n node.Node) {
	pauses := retry.Backoff(firstLatePause, lastLatePause)
	for {
		if l.drainer.AwaitPod(watching, n.Name, n.Mark.Since, l.history.owners(n.UID, n.Mark.Since)) != nil {
			return
		}
		if current, ok := l.nodes.Find(n.InstanceID); ok && current.UID == n.UID && isMarkedForNotice(current) {
			n = current
			l.history.repeat(n.UID)
			_ = l.drain(ctx, eventOf(n)) // the observer has been notified of the error
		}
		if !retry.Sleep(watching, pauses.Step()) {
			return
		}
	}
}

// eventOf returns the event that a marked node is drained for. An annotation is reason enough, even if what the node
// was cordoned for is over.
func eventOf(n node.Node) event.Event {
	if n.DrainRequested {
		return requestOf(n)
	}
	return eventOfMark(n)
}

// isMarkedForNotice reports whether the node is, or was, drained for an event that no hook waits for.
func isMarkedForNotice(n node.Node) bool {
	return !n.Mark.Deadline.IsZero() && n.Mark.Reason != string(event.LifecycleTerminating)
}
