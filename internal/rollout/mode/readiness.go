package mode

import (
	"fmt"
	"slices"
	"time"

	"github.com/node-drainer/node-drainer/internal/rollout/loop"
	"github.com/node-drainer/node-drainer/internal/rollout/plan"
	"github.com/node-drainer/node-drainer/internal/text"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// readiness detects new instances whose nodes do not become ready in Config.ReadyTimeout.
type readiness struct {
	group *loop.Group
	off   bool
	since map[string]time.Time // when an instance was first seen in service without a ready node
	last  string               // the problem, as found last
}

// newReadiness is off if the cluster knows none of the group's instances: their nodes would never be ready.
func newReadiness(g *loop.Group) *readiness {
	nodes := g.State.Policy.Nodes
	off := g.Config.ReadyTimeout == 0 || nodes.Cluster == nil || !nodes.KnowsAny(g.State.Group.Instances)
	return &readiness{group: g, off: off}
}

// problem describes the new instances whose nodes have not been ready for too long. It is empty if there are none. The
// time begins again when the nodes could not be watched meanwhile.
func (r *readiness) problem() string {
	s := r.group.State
	if r.off || s.Policy.Nodes.Stale() != nil {
		r.since, r.last = nil, ""
		return r.last
	}
	now, since, late := time.Now(), map[string]time.Time{}, []string{}
	notReady, a := s.Policy.Nodes.NotReady(s.Group.Instances), s.Assess()
	for _, i := range s.Group.Instances {
		if !notReady[i.ID] || s.IsToBeReplaced(i.ID, a) {
			continue
		}
		since[i.ID] = now
		if first, known := r.since[i.ID]; known {
			since[i.ID] = first
		}
		if now.Sub(since[i.ID]) >= r.group.Config.ReadyTimeout {
			late = append(late, s.Policy.Nodes.Describe(i.ID))
		}
	}
	if r.since, r.last = since, ""; len(late) == 0 {
		return r.last
	}
	r.last = fmt.Sprintf("%s in service without a ready node for %v (--ready-timeout): %s",
		text.Plural(len(late), "new instance is", "new instances are"), r.group.Config.ReadyTimeout,
		text.First(late, plan.MostNames))
	return r.last
}

// endsUnready reports whether a refresh that is under way is to be ended because of such instances. One that is
// cancelled or rolled back already is left alone.
func (r *readiness) endsUnready(f refresh.Refresh) (problem string) {
	if !slices.Contains([]string{
		refresh.StatusPending, refresh.StatusInProgress, refresh.StatusBaking,
	}, f.Status) {
		return ""
	}
	return r.problem()
}
