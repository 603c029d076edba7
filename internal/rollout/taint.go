package rollout

import (
	"cmp"
	"context"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/text"
	"github.com/node-drainer/node-drainer/pkg/cluster"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// Tainter is cluster.Tainter.
type Tainter interface {
	Taint(ctx context.Context, n cluster.Node, e cluster.Effect) error
	Untaint(ctx context.Context, n cluster.Node) error
}

// Taints gives the trigger what Config.Taint needs, beside a Cluster: without it no node is tainted. It must
// be called before Run.
func (t *Trigger) Taints(by Tainter) { t.tainter = by }

func (t *Trigger) taints() bool {
	return t.tainter != nil && t.view != nil && cmp.Or(t.cfg.Taint, cluster.NoTaint) != cluster.NoTaint
}

// taint keeps new pods off the old nodes, so that a pod moves once. The taint is taken off nodes that bear it
// and are not outdated any more. What cannot be done is told, and nothing ends by it.
func (r *rollout) taint(ctx context.Context) {
	if !r.taints() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	old, others := r.toTaint()
	if r.cfg.Taint == cluster.HardTaint && len(old) > 0 && r.fillsUp() {
		r.card.note(refresh.Warn, "every node of the group is outdated, and there is no surge: new pods that "+
			"need this group have nowhere to go until a new node is there; see --surge, or --taint-outdated soft")
	}
	r.alter(ctx, old, "tainted "+cluster.OutdatedTaint, func(ctx context.Context, n cluster.Node) error {
		return r.tainter.Taint(ctx, n, r.cfg.Taint)
	})
	r.alter(ctx, others, "untainted", r.tainter.Untaint)
}

// toTaint returns the nodes of old instances in service, and those that bear the taint of a run before.
func (r *rollout) toTaint() (old, others []cluster.Node) {
	r.tainted = map[string]bool{}
	for _, i := range r.group.Instances {
		node := r.node(i.ID)
		switch {
		case node == nil:
		case r.old[i.ID] && i.InService():
			r.tainted[i.ID] = true
			old = append(old, *node)
		case node.Tainted && !r.old[i.ID]:
			others = append(others, *node)
		}
	}
	return old, others
}

// fillsUp tells whether there may be no node of the group for a new pod: all are old, and no new one comes
// before an old one goes.
func (r *rollout) fillsUp() bool {
	for _, i := range r.group.Instances {
		if i.InService() && !r.old[i.ID] {
			return false
		}
	}
	if r.cfg.Mode == refresh.ModeUnhealthy {
		return r.cfg.Pace.Surge == 0 && !r.group.Maintenance.LaunchesFirst()
	}
	p, m := r.preferences(r.group), r.group.Maintenance
	low, high := cmp.Or(p.MinHealthy, m.MinHealthy), cmp.Or(p.MaxHealthy, m.MaxHealthy)
	return (low == nil || *low < 100) && (high == nil || *high <= 100)
}

// untaint takes the taint off all nodes that stay, when the rollout is over. It stays where the rollout goes
// on without the trigger.
func (r *rollout) untaint(ctx context.Context, e ending) {
	if r.tainted == nil {
		return
	}
	var nodes []cluster.Node
	for _, i := range r.group.Instances {
		if node := r.node(i.ID); node != nil && (node.Tainted || r.tainted[i.ID]) && !i.Terminating() {
			nodes = append(nodes, *node)
		}
	}
	if r.goesOn(e) {
		if len(nodes) > 0 {
			r.card.note(refresh.OK, "the taint %s stays on %s", cluster.OutdatedTaint, text.Count(len(nodes), "node"))
		}
		return
	}
	ctx, cancel := calling(ctx)
	defer cancel()
	r.alter(ctx, nodes, "untainted", r.tainter.Untaint)
}

// goesOn tells whether AWS goes on with a rollout that ended so, so that the next run is to find it as it is.
// In ModeUnhealthy it does nothing alone.
func (r *rollout) goesOn(e ending) bool {
	if r.cfg.Mode == refresh.ModeUnhealthy {
		return false
	}
	switch e.outcome { //nolint:exhaustive // The others are over.
	case report.Detached, report.TimedOut, report.Stalled, report.Error:
		return true
	case report.Interrupted:
		return r.cfg.OnInterrupt == Detach
	}
	return false
}

// alter does something with the nodes, some at a time, and tells of it.
func (r *rollout) alter(
	ctx context.Context, nodes []cluster.Node, done string, do func(context.Context, cluster.Node) error,
) {
	var work errgroup.Group
	work.SetLimit(together)
	var mu sync.Mutex
	var failed []string
	for _, n := range nodes {
		work.Go(func() error {
			err := do(ctx, n)
			if err != nil {
				mu.Lock()
				defer mu.Unlock()
				failed = append(failed, n.Name)
			}
			return err
		})
	}
	if err := work.Wait(); err != nil {
		r.card.note(refresh.Warn, "%s could not be %s: %s: %v", text.Count(len(failed), "node"), done,
			text.First(failed, mostNames), err)
	}
	if n := len(nodes) - len(failed); n > 0 {
		r.card.note(refresh.OK, "%s: %s", text.Count(n, "node"), done)
	}
}
