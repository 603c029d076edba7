package loop

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/rollout/plan"
	"github.com/node-drainer/node-drainer/internal/text"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// drains are what was seen of the terminating hooks of old instances, and of the drains of their nodes. AWS says how an
// instance went on only while it waits for a hook: one that nobody answers holds it for just its heartbeat timeout.
type drains struct {
	Hooks []refresh.Hook
	waits map[string]*hookWait // by instance
}

// hookWait is how long an instance waited for its terminating hooks, between two reads each.
type hookWait struct {
	before, first time.Time // The last read before it waited, and the first one at which it did.
	last, after   time.Time // The last read at which it did, and the first one after; zero while it waits.
	drained       bool      // Its node was drained, as the agent says.
	left          string    // Which pods the drain has left, as the agent says; empty if none.
}

// see keeps what a read of the group shows of its old instances. The one before was at the time before.
func (d *drains) see(g refresh.Group, old map[string]bool, nodes plan.NodeIndex, before, now time.Time) {
	if d.waits == nil {
		d.waits = map[string]*hookWait{}
	}
	waiting := map[string]bool{}
	for _, i := range g.Instances {
		if !old[i.ID] {
			continue
		}
		if waiting[i.ID] = i.AwaitsHook(); !waiting[i.ID] {
			continue
		}
		if d.waits[i.ID] == nil {
			d.waits[i.ID] = &hookWait{before: before, first: now}
		}
		d.waits[i.ID].last = now
	}
	for id, w := range d.waits {
		if n := nodes.Of(id); n != nil && n.Drain != nil {
			w.drained = n.Drain.Done
			if w.left = ""; n.Drain.LeftBehind {
				w.left = n.Drain.Message
			}
		}
		if !waiting[id] && w.after.IsZero() {
			w.after = now
		}
	}
}

// slowTimeout is by how much later than its timeout Auto Scaling may end a lifecycle action.
const slowTimeout = 5 * time.Second

// fits reports whether the instance may have waited until the timeout, and no longer.
func (w hookWait) fits(timeout time.Duration) bool {
	return timeout > 0 && !w.before.IsZero() && !w.after.IsZero() &&
		w.after.Sub(w.before) >= timeout && w.last.Sub(w.first) <= timeout+slowTimeout+timeout/20
}

// timedOut are the instances for which the terminating hook has most likely timed out, in the order of their ids. An
// agent that says that a node was drained has completed the hook. Without Kubernetes a single wait may be as long as
// the timeout by chance: then all of them must be.
func (d *drains) timedOut(kubernetes bool) (ids []string) {
	var longest time.Duration
	for _, h := range d.Hooks {
		if h.Terminating {
			longest = max(longest, h.HeartbeatTimeout)
		}
	}
	seen := 0
	for _, id := range slices.Sorted(maps.Keys(d.waits)) {
		w := d.waits[id]
		if !w.after.IsZero() {
			seen++
		}
		if !w.drained && w.left == "" && w.fits(longest) {
			ids = append(ids, id)
		}
	}
	if !kubernetes && len(ids) < seen {
		return nil
	}
	return ids
}

// leftBehind are the instances that have ended with pods on their nodes, each with the agent's message.
func (d *drains) leftBehind() (all []string) {
	for _, id := range slices.Sorted(maps.Keys(d.waits)) {
		if left := d.waits[id].left; left != "" {
			all = append(all, fmt.Sprintf("%s (%s)", id, left))
		}
	}
	return all
}

// Judge adds to the ending of a rollout that pods were lost in it, or may have been: then it is no success.
func (d *drains) Judge(end Ending, kubernetes bool) Ending {
	if end.Outcome != report.Done && end.Outcome != report.Incomplete {
		return end
	}
	if all := d.leftBehind(); len(all) > 0 {
		end.Outcome = report.Incomplete
		end.Message += fmt.Sprintf("; %s terminated with pods on them: %s",
			text.Plural(len(all), "instance was", "instances were"), text.First(all, plan.MostNames))
	}
	if ids := d.timedOut(kubernetes); len(ids) > 0 {
		end.Outcome = report.Incomplete
		end.Message += fmt.Sprintf("; the terminating hooks of %s were not completed, and have timed out, so that nobody "+
			"has drained their nodes: %s; agent check finds out why no agent handles the hooks",
			text.Count(len(ids), "instance"), text.First(ids, plan.MostNames))
	}
	return end
}
