package rollout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/text"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// readiness detects new instances whose nodes do not become ready in Config.ReadyTimeout.
type readiness struct {
	group *group
	off   bool
	since map[string]time.Time // when an instance was first seen in service without a ready node
	last  string               // the problem, as found last
}

// newReadiness is off if the cluster knows none of the group's instances: their nodes would never be ready.
func newReadiness(g *group) *readiness {
	nodes := g.state.policy.nodes
	off := g.cfg.ReadyTimeout == 0 || nodes.cluster == nil || !nodes.knowsAny(g.state.group.Instances)
	return &readiness{group: g, off: off}
}

// problem describes the new instances whose nodes have not been ready for too long. It is empty if there are none. The
// time begins again when the nodes could not be watched meanwhile.
func (r *readiness) problem() string {
	s := r.group.state
	if r.off || s.policy.nodes.stale() != nil {
		r.since, r.last = nil, ""
		return r.last
	}
	now, since, late := time.Now(), map[string]time.Time{}, []string{}
	notReady, a := s.policy.nodes.notReady(s.group.Instances), s.assess()
	for _, i := range s.group.Instances {
		if !notReady[i.ID] || s.isToBeReplaced(i.ID, a) {
			continue
		}
		since[i.ID] = now
		if first, known := r.since[i.ID]; known {
			since[i.ID] = first
		}
		if now.Sub(since[i.ID]) >= r.group.cfg.ReadyTimeout {
			late = append(late, s.policy.nodes.describe(i.ID))
		}
	}
	if r.since, r.last = since, ""; len(late) == 0 {
		return r.last
	}
	r.last = fmt.Sprintf("%s in service without a ready node for %v (--ready-timeout): %s",
		text.Plural(len(late), "new instance is", "new instances are"), r.group.cfg.ReadyTimeout,
		text.First(late, mostNames))
	return r.last
}

// endsUnready reports whether a refresh that is under way is to be ended because of such instances. One that is
// cancelled or rolled back already is left alone.
func (r *readiness) endsUnready(f refresh.Refresh) (problem string) {
	if r == nil || !slices.Contains([]string{
		refresh.StatusPending, refresh.StatusInProgress, refresh.StatusBaking,
	}, f.Status) {
		return ""
	}
	return r.problem()
}

// endUnready cancels the refresh because of a problem, or rolls it back if that is requested, and returns the error of
// the rollout when the refresh has ended.
func endUnready(ctx context.Context, r *instanceRefresh, problem string) error {
	r.group.progress.note(refresh.Warn, "%s", problem)
	if r.stillActive(ctx) {
		if err := sendEnd(ctx, r); err != nil && !errors.Is(err, refresh.ErrNoRefresh) {
			return fmt.Errorf("%s; instance refresh %s could not be cancelled: %w", problem, r.id, err)
		}
	}
	f, err := watchRefresh(ctx, r.group, r.id, nil, nil)
	if err != nil {
		return err
	}
	r.ended = true
	end := &endError{report.Failed, describeStatus(f)}
	errors.As(failureOf(f), &end)
	return &endError{end.outcome, problem + "; " + end.message}
}

// sendEnd asks AWS to roll the refresh back, or to cancel it.
func sendEnd(ctx context.Context, r *instanceRefresh) error {
	ctx, cancel := uncancelled(ctx)
	defer cancel()
	_, _, err := endActive(ctx, r.group, r.aws, r.group.cfg.Preferences.AutoRollback)
	return err
}
