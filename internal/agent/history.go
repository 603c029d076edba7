package agent

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/internal/node"
	"github.com/node-drainer/node-drainer/pkg/drain"
)

// drainHistory knows the drains that this process has finished. The zero value is ready.
type drainHistory struct {
	byUID  sync.Map
	listen sync.Once
	news   chan struct{}
}

type finishedDrain struct {
	since  time.Time // when the node was cordoned
	report drain.Report
	repeat bool // the node has got a pod since
}

func (h *drainHistory) add(uid string, since time.Time, report drain.Report) {
	h.byUID.Store(uid, finishedDrain{since: since, report: report})
	h.added()
	select {
	case h.news <- struct{}{}:
	default:
	}
}

// added returns a channel that has an element when a drain was added since the last one was received.
func (h *drainHistory) added() <-chan struct{} {
	h.listen.Do(func() { h.news = make(chan struct{}, 1) })
	return h.news
}

// find returns the report of the node's last drain if the node was cordoned at the time since. A node with
// another time was cordoned for another termination, and may have got pods in between.
func (h *drainHistory) find(uid string, since time.Time) (report drain.Report, ok bool) {
	value, _ := h.byUID.Load(uid)
	finished, ok := value.(finishedDrain)
	return finished.report, ok && !finished.repeat && finished.since.Equal(since)
}

// owners returns what the node's last drain knew of the controllers of its pods, if the node had its mark at one of the
// times since; else nil: the node was uncordoned in between, and has got pods that nobody has put back.
func (h *drainHistory) owners(uid string, since ...time.Time) *drain.Owners {
	value, _ := h.byUID.Load(uid)
	finished, ok := value.(finishedDrain)
	if !ok || !slices.ContainsFunc(since, finished.since.Equal) {
		return nil
	}
	return finished.report.Owners
}

// repeat has the node drained again, as one that is known.
func (h *drainHistory) repeat(uid string) {
	if value, ok := h.byUID.Load(uid); ok {
		finished, _ := value.(finishedDrain)
		finished.repeat = true
		h.byUID.Store(uid, finished)
	}
}

func (h *drainHistory) isDrained(n node.Node) bool {
	_, ok := h.find(n.UID, n.Mark.Since)
	return ok
}

// hasReturned reports whether pods were left on the node because its machine or its kubelet had failed, and the node is
// Ready now.
func (h *drainHistory) hasReturned(n node.Node) bool {
	report, ok := h.find(n.UID, n.Mark.Since)
	return ok && report.Lost && n.Ready
}

// mustRepeat reports whether the drain of a node, which has ended, is to begin again for the event: for a hook or for
// another event than the first one, because a pod may have been bound since; and on a node that failed and is back.
func (h *drainHistory) mustRepeat(e event.Event, n node.Node) bool {
	return e.Hook.Name != "" || n.Mark.Reason != string(e.Kind) || h.hasReturned(n)
}

// remove forgets the drain of a node that was uncordoned.
func (h *drainHistory) remove(uid string) { h.byUID.Delete(uid) }

// retain forgets the drains of all other nodes.
func (h *drainHistory) retain(nodes []node.Node) {
	uids := map[any]bool{}
	for _, n := range nodes {
		uids[n.UID] = true
	}
	deleteOthers(&h.byUID, uids)
}

// completedActions knows the lifecycle actions that this process has completed while it leads. Their
// instances may still wait for the hooks of others. The zero value is ready.
type completedActions struct{ keys sync.Map }

func (c *completedActions) add(e event.Event) { c.keys.Store(actionKey(e), e.InstanceID) }

func (c *completedActions) has(e event.Event) bool {
	_, ok := c.keys.Load(actionKey(e))
	return ok
}

// actionKey is the same for all events of a lifecycle action. One hook may hold an instance that returns to the warm
// pool, and soon afterwards when it is terminated there; or while its root volume is replaced, and when it terminates.
func actionKey(e event.Event) string {
	return fmt.Sprint(keyOf(e), " ", e.Destination == event.PlaceWarmPool, " ", e.Action == event.ReplaceRootVolume)
}

// reset forgets all: another process may have led in between, and an action may be pending again.
func (c *completedActions) reset() { c.keys.Clear() }

// filterPending returns the events of waiting instances whose actions are not completed. It forgets the
// completed actions of other instances, unless mayWait says that an instance may wait all the same.
func (c *completedActions) filterPending(
	waiting []event.Event, mayWait func(instanceID string) bool,
) []event.Event {
	keys := map[any]bool{}
	pending := slices.DeleteFunc(waiting, func(e event.Event) bool {
		keys[actionKey(e)] = true
		return c.has(e)
	})
	c.keys.Range(func(key, id any) bool {
		if instanceID, _ := id.(string); mayWait(instanceID) {
			keys[key] = true
		}
		return true
	})
	deleteOthers(&c.keys, keys)
	return pending
}

// deleteOthers deletes all keys of m that are not in keys.
func deleteOthers(m *sync.Map, keys map[any]bool) {
	m.Range(func(key, _ any) bool {
		if !keys[key] {
			m.Delete(key)
		}
		return true
	})
}

// lostMessages knows the lifecycle actions that a resync found and no message has reported. The zero value is
// ready.
type lostMessages struct{ events sync.Map }

// found adds an action that a resync found.
func (l *lostMessages) found(e event.Event) { l.events.Store(keyOf(e), e) }

// received removes an action whose message has arrived.
func (l *lostMessages) received(e event.Event) { l.events.Delete(keyOf(e)) }

// reset forgets all: the process that led in between may have received the messages.
func (l *lostMessages) reset() { l.events.Clear() }

// takeEnded removes the actions that are not in flight anymore, and returns how many these are. The message
// of an action that is in flight is late, and perhaps not lost.
func (l *lostMessages) takeEnded(isInflight func(event.Event) bool) (n int) {
	l.events.Range(func(key, value any) bool {
		if e, ok := value.(event.Event); ok && !isInflight(e) {
			l.events.Delete(key)
			n++
		}
		return true
	})
	return n
}
