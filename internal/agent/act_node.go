package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/internal/node"
	"github.com/node-drainer/node-drainer/internal/retry"
)

// doUncordon uncordons the node of a reason that AWS contradicts, or whose maintenance is canceled, unless its mark is
// that of another event, and removes the announcement of the maintenance.
func (r *record) doUncordon(ctx context.Context, w work) (result, error) {
	if w.isLaunch() {
		return r.doUncordonLaunching(ctx, w)
	}
	kind, why := w.Kind, fmt.Sprintf("%v: %s", errContradicted, w.answer.why)
	if kind == event.ScheduledChangeCanceled {
		kind = event.ScheduledChange
		why = fmt.Sprintf("the maintenance of instance %s was canceled, or is complete", w.InstanceID)
	}
	n, ok := r.nodes.Find(w.InstanceID)
	if err := r.endMaintenance(ctx, n, kind, why); err != nil {
		return nil, err
	}
	removed := false
	if ok && !r.keeps() && (n.Mark.Reason == "" || n.Mark.Reason == string(kind)) {
		var err error
		if removed, err = r.tryUncordon(ctx, n, why); err != nil {
			return nil, err
		}
	}
	return func(s *state, q *reason) {
		q.done = q.done.with(uncordon)
		if r.forgetMark(n, removed); !removed && s.node.DrainRequested && s.node.Mark.Reason == string(kind) {
			s.refuted = string(kind)
		}
	}, nil
}

// endMaintenance removes the announcement of maintenance that is not ahead any more, if the event is one of that, also
// one that was written a moment ago.
func (r *record) endMaintenance(ctx context.Context, n node.Node, kind event.Kind, why string) error {
	if kind != event.ScheduledChange || n.Name == "" {
		return nil
	}
	err := r.nodes.EndMaintenance(ctx, n)
	if errors.Is(err, node.ErrGone) {
		return nil
	}
	if err == nil && !n.Maintenance.IsZero() && n.Mark.Since.IsZero() {
		r.observer.DrainCanceled(n, why)
	}
	return err
}

// tryUncordon removes the mark of the node, if the node exists and its instance does not terminate. It asks Auto
// Scaling first, and keeps the mark of an instance that is terminating: all events of an instance share one mark, so
// that one of them is over does not mean that no hook waits. It also keeps the mark of a node whose annotation asks for
// its drain, and of one that another event has begun to drain meanwhile.
func (r *record) tryUncordon(ctx context.Context, n node.Node, why string) (removed bool, err error) {
	if n.DrainRequested {
		return false, nil
	}
	group, err := r.groups.State(ctx, n.InstanceID)
	if err != nil || group.Terminating() || group.Gone() {
		return false, err
	}
	removed, err = r.nodes.Uncordon(ctx, n, r.keeps)
	if errors.Is(err, node.ErrGone) {
		return true, nil
	}
	if removed && err == nil {
		r.observer.NodeUncordoned(n, why)
	}
	return removed, err
}

// keeps reports whether a reason needs the node cordoned.
func (r *record) keeps() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return hasStep(r.steps, drainNode, key{}) || r.state.isNeeded(nil)
}

// doWithdraw uncordons a node whose annotation was removed, if its instance is in service, or in no group. It looks
// again until that is so, or the instance has terminated.
func (r *record) doWithdraw(ctx context.Context, w work) (result, error) {
	group, err := r.groups.State(ctx, w.node.InstanceID)
	isDone := (group.Terminating() || group.Gone()) && !group.ReplacingRootVolume()
	removed := false
	if err == nil && (group == "InService" || group.Unknown()) {
		why := fmt.Sprintf("the annotation %s was removed", node.DrainRequestAnnotation)
		removed, err = r.tryUncordon(ctx, w.node, why)
		isDone = true
	}
	if err != nil {
		return nil, err
	}
	return func(s *state, _ *reason) {
		s.withdrawn, s.requested = isDone, !isDone
		if s.withdraws.Duration == 0 || s.withdrawn {
			s.withdraws = retry.Backoff(withdrawnInterval, r.cfg.ResyncInterval)
		}
		s.nextWithdraw = time.Now().Add(s.withdraws.Step())
		r.forgetMark(w.node, removed)
	}, nil
}

// doAnnounce records confirmed maintenance on the node.
func (r *record) doAnnounce(ctx context.Context, w work) (result, error) {
	if err := r.nodes.Announce(ctx, w.node, w.Deadline); err != nil {
		return nil, err
	}
	return did(announce), nil
}

// doAwaitPod waits until the node has got a pod, and has it drained again. AWS confirms its event again.
func (r *record) doAwaitPod(ctx context.Context, w work) (result, error) {
	if err := r.drainer.AwaitPod(ctx, w.node.Name, w.node.Mark.Since, w.owners); err != nil {
		return nil, err
	}
	return func(s *state, _ *reason) {
		if r.read(); s.node.UID == w.node.UID && isMarkedForNotice(s.node) && s.isIdle() {
			s.finished.repeat = true
			r.resume(eventOf(s.node))
		}
	}, nil
}

// doJudgeMark asks whether the node must still be cordoned, and continues its drain if it must. It is uncordoned once
// its instance is healthy for as long as a message may take to confirm.
func (r *record) doJudgeMark(ctx context.Context, w work) (result, error) {
	n := w.node
	f, err := r.confirmer.judgeMark(ctx, n, w.member, w.isDrained)
	if err != nil {
		return nil, err
	}
	return func(s *state, _ *reason) {
		now := time.Now()
		switch {
		case !f.contradicts():
			s.healthy, s.mustJudge = time.Time{}, false
			if f.verdict == confirmed && !n.Mark.Deadline.IsZero() && !s.isDrained() && len(s.reasons) == 0 {
				r.resume(eventOfMark(n))
			}
		case s.healthy.IsZero():
			s.healthy, s.nextJudge, s.member = now, now.Add(r.policy.confirmTimeout), nil
		case now.Sub(s.healthy) >= r.policy.confirmTimeout:
			s.mustPut = true
		}
	}, nil
}

// resume begins again with what the mark of a node says, unless such events are not handled any more.
func (r *record) resume(e event.Event) {
	isManaged := r.state.node.Manager != "" && e.Kind != event.Alarm && e.Kind != event.DrainRequested
	isIgnored := e.Kind != event.DrainRequested && r.cfg.Events.Action(e.Kind) == event.Ignore
	if e.Hook.Name == "" && !isManaged && !isIgnored {
		r.begin(e)
	}
}

// doPutBack uncordons a node whose instance is healthy.
func (r *record) doPutBack(ctx context.Context, w work) (result, error) {
	n := w.node
	why := fmt.Sprintf("instance %s is not terminating", n.InstanceID)
	if isRecommendationOver(n, r.cfg.Events.RebalanceTimeout) {
		why = fmt.Sprintf("instance %s was not interrupted within %v of the rebalance recommendation",
			n.InstanceID, r.cfg.Events.RebalanceTimeout)
	}
	if n.Mark.Reason == string(event.ScheduledChange) && !n.Maintenance.IsZero() {
		if err := r.nodes.EndMaintenance(ctx, n); err != nil {
			return nil, err
		}
	}
	removed, err := r.tryUncordon(ctx, n, why)
	if err != nil {
		return nil, err
	}
	return func(s *state, _ *reason) {
		s.mustPut, s.mustJudge, s.healthy = false, false, time.Time{}
		r.forgetMark(n, removed)
	}, nil
}

// doAskRoom asks whether pods of drained nodes have found no room on others.
func (r *record) doAskRoom(ctx context.Context, _ work) (result, error) { return nil, r.turns.ask(ctx) }
