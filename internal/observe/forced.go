package observe

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/node-drainer/node-drainer/internal/text"
	"github.com/node-drainer/node-drainer/pkg/drain"
)

const (
	// mostForcedEvents is how many pods that were forced have an Event of their own, for each node and budget. The
	// others share Events on the node: of a fleet whose drains end at once the API server would not take them all.
	mostForcedEvents = 3
	// forcedInterval is how long the others are collected.
	forcedInterval = 10 * time.Second
)

// forcedPods are the pods of a node that were forced for one reason, in spite of the same budgets.
type forcedPods struct {
	reason, verb, budgets string

	own   int       // how many have an Event of their own
	names []string  // of those that have none yet
	since time.Time // when the first of these was forced
}

// forcedReason returns the reason of the Event for a pod that was forced, and what was done to it.
func forcedReason(r drain.Removal) (reason, verb string) {
	switch {
	case r.Reason == drain.Unhealthy:
		return reasonUnhealthy, "Deleted"
	case r.Reason == drain.OthersLeft:
		return reasonOthersLeft, "Deleted"
	case r.Kind == drain.LastEviction:
		return reasonEvicted, "Evicted despite its opt-out"
	}
	return reasonAtDeadline, "Deleted"
}

// addForced adds a pod that was forced, and reports whether it has an Event of its own.
func (d *drains) addForced(uid string, r drain.Removal) (own bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	one := d.find(uid)
	reason, verb := forcedReason(r)
	budgets := strings.Join(r.Pod.Budgets, " and ")
	i := slices.IndexFunc(one.forced, func(f *forcedPods) bool { return f.reason == reason && f.budgets == budgets })
	if i < 0 {
		i, one.forced = len(one.forced), append(one.forced, &forcedPods{reason: reason, verb: verb, budgets: budgets})
	}
	pods := one.forced[i]
	if pods.own < mostForcedEvents {
		pods.own++
		return true
	}
	if len(pods.names) == 0 {
		pods.since = time.Now()
	}
	pods.names = append(pods.names, nameOf(r.Pod))
	return false
}

// takeForced returns the pods of a node that were forced, and have no Event yet: those that were collected for long
// enough, or all.
func (d *drains) takeForced(uid string, all bool) (taken []forcedPods) {
	d.mu.Lock()
	defer d.mu.Unlock()
	one := d.byUID[uid]
	if one == nil {
		return nil
	}
	for _, pods := range one.forced {
		if len(pods.names) > 0 && (all || time.Since(pods.since) >= forcedInterval) {
			taken = append(taken, *pods)
			pods.names = nil
		}
	}
	return taken
}

// recordForced records the pods of the node that share an Event.
func (o *Observer) recordForced(t drain.Target, all bool) {
	for _, f := range o.drains.takeForced(t.UID, all) {
		budgets := ""
		if f.budgets != "" {
			budgets = " of PodDisruptionBudget " + f.budgets
		}
		o.events.OnNode(t.Name, t.UID, f.reason, withNames(
			fmt.Sprintf("%s: %d more pods%s: ", f.verb, len(f.names), budgets), f.names, ""), true)
	}
}

// longestMessage is how many bytes the message of an Event can have.
const longestMessage = 1024

// withNames returns a message that contains as many of the names as an Event has space for.
func withNames(before string, names []string, after string) string {
	return before + text.FirstWithin(names, longestMessage-len(before)-len(after)) + after
}
