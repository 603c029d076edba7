package rollout

import (
	"context"
	"fmt"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/text"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// earlier is the refresh of all instances that has been successful, and whose old instances are still on the
// way out: a trigger that was killed meanwhile has begun it, and goes on with it, since nothing else tells
// that all have been replaced already. It is empty if there is none, or not all are to be replaced.
func (r *rollout) earlier(ctx context.Context) (id string, e ending) {
	if !r.cfg.All || !r.cfg.Wait || len(r.leaving()) == 0 {
		return "", ending{}
	}
	all, err := r.reader.Refreshes(ctx, r.group.Name)
	if err != nil {
		return "", r.broken(ctx, err)
	}
	if len(all) == 0 || !didAll(all[0], r.target) {
		return "", ending{}
	}
	last := all[0]
	if e := r.since(ctx, last); e.over() {
		return "", e
	}
	if len(r.leaving()) == 0 { // What goes is none of its old ones.
		r.begin()
		return "", ending{}
	}
	r.card.set(func(g *report.Group) { g.Refresh, g.Attached = last.ID, true })
	r.card.note(refresh.OK, "instance refresh %s has replaced all instances, and %s on the way out: that is "+
		"followed, and no other one started", last.ID, text.Plural(len(r.leaving()), "old one is", "old ones are"))
	return last.ID, ending{}
}

// didAll tells whether a refresh has replaced all instances by what they are to be.
func didAll(f refresh.Refresh, t refresh.Target) bool {
	return f.Status == refresh.StatusSuccessful && !f.Preferences.SkipMatching && f.StartedFor(t)
}

// since takes for old, if all instances are to be replaced, those that were there when the refresh began: the
// others have come for them.
func (r *rollout) since(ctx context.Context, f refresh.Refresh) ending {
	if !r.cfg.All || f.Started.IsZero() {
		return ending{}
	}
	groups := []refresh.Group{r.group}
	if err := r.reader.Complete(ctx, groups); err != nil {
		return r.broken(ctx, fmt.Errorf("when instances were launched cannot be seen: %w", err))
	}
	r.remember(groups[0])
	old := map[string]bool{}
	for _, i := range r.group.Instances {
		if r.old[i.ID] && !i.Launched.After(f.Started) {
			old[i.ID] = true
		}
	}
	r.old = old
	r.card.set(func(g *report.Group) { g.Total = len(old) })
	r.show(nil)
	return ending{}
}
