package rollout

import (
	"context"
	"time"

	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// watchRefresh reads and shows the refresh and its group again and again, and returns the refresh when it has
// ended, or an error if nothing changes any more. It returns an active one if the nodes of new instances are not ready.
func watchRefresh(
	ctx context.Context, g *group, id string, ready *readiness, points *checkpoints,
) (status refresh.Refresh, err error) {
	stall := newStall(g)
	for {
		err = g.retry(ctx, func(ctx context.Context) (err error) {
			if status, err = readRefresh(ctx, g, id); err != nil {
				return err
			}
			return g.hours.keep(ctx, status)
		})
		if err != nil || !status.Active() || ready.endsUnready(status) != "" {
			return status, err
		}
		g.evictions.note(ctx, status)
		tried, err := points.pass(ctx, status)
		if err != nil {
			return status, err
		}
		if tried {
			stall.since = time.Now()
		}
		if err = stall.check(&status, ""); err != nil {
			return status, err
		}
		if err = g.pause(ctx, 0); err != nil {
			return status, err
		}
	}
}

// readRefresh reads the refresh and its group, and shows them. The group is first, because its error says
// that it was deleted. It is read again after a refresh that has ended: what that did last may have happened
// between the two calls.
func readRefresh(ctx context.Context, g *group, id string) (refresh.Refresh, error) {
	if err := g.describe(ctx); err != nil {
		return refresh.Refresh{}, err
	}
	status, err := g.planner.reader.Refresh(ctx, g.name, id)
	if err == nil && !status.Active() {
		err = g.describe(ctx)
	}
	if err == nil {
		g.show(&status)
	}
	return status, err
}
