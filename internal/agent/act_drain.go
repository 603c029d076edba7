package agent

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/node-drainer/node-drainer/internal/autoscaling"
	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/internal/node"
	"github.com/node-drainer/node-drainer/internal/retry"
	"github.com/node-drainer/node-drainer/pkg/drain"
)

// doReadLimit reads what bounds the drain, or the wait for a launching node. A hook whose timeouts cannot be read for
// long counts as the shortest that there can be.
func (r *record) doReadLimit(ctx context.Context, w work) (result, error) {
	var l limit
	if w.Hook.Name != "" {
		var err error
		l.hook, err = r.groups.Deadline(ctx, actionOf(w.Event), w.At)
		isLong := time.Since(w.started)+w.failing >= r.cfg.ConfirmTimeout
		switch {
		case err == nil:
		case errors.Is(err, autoscaling.ErrGone) || !isLong:
			return nil, err
		default:
			l.hook = r.groups.ShortestDeadline(actionOf(w.Event), w.At)
		}
	}
	if w.awaitsReady() {
		l.earliest = r.launcher.earliestStart(ctx, w.Event)
	} else {
		l.stopped = !w.node.Ready && r.confirmer.isStopped(ctx, w.InstanceID)
	}
	l.known = time.Now()
	return func(_ *state, q *reason) {
		if !q.limit.known.IsZero() {
			l.known = q.limit.known
		}
		if !q.limit.earliest.IsZero() {
			l.earliest = q.limit.earliest
		}
		q.limit = l
	}, nil
}

func (r *record) doCordon(ctx context.Context, w work) (result, error) {
	var deadline time.Time
	if w.step.deadline != 0 {
		deadline = w.drainBy(r.policy.of(w.node))
	}
	var mark node.Mark
	var changed bool
	err := r.barrier.cordon(ctx, func() (err error) {
		mark, changed, err = r.nodes.Cordon(ctx, w.node, reasonOf(w.Event, deadline))
		return err
	})
	if err != nil {
		return nil, err
	}
	if changed && !w.confirmed.IsZero() {
		r.observer.NodeCordoned(w.Event, w.node, mark)
	}
	return func(s *state, q *reason) {
		s.before = w.node.Mark.Since
		shown, _ := r.nodes.Find(w.node.InstanceID)
		if shown.UID != w.node.UID {
			shown = r.known
		}
		r.unseen, r.unseenUID, r.written, r.shown = mark, w.node.UID, time.Now(), shown.Mark
		q.markedUID, q.deadline = w.node.UID, deadline
		if !deadline.IsZero() {
			r.isCordoned()
		}
	}, nil
}

// drainRun is the drain of a node that is running.
type drainRun struct {
	deadline time.Time
	tighter  chan time.Time // takes earlier deadlines
}

// tighten sends the drain an earlier deadline, in place of one that it has not received yet. It does nothing for
// another step, and without a deadline.
func (d *drainRun) tighten(deadline time.Time) {
	if d == nil || deadline.IsZero() || !deadline.Before(d.deadline) {
		return
	}
	d.deadline = deadline
	select {
	case <-d.tighter:
	default:
	}
	d.tighter <- deadline
}

// drainWork is what a drain needs to know.
type drainWork struct {
	run        *drainRun
	event      event.Event
	target     drain.Target
	earlier    drain.Report // of the last drain of the node
	isRepeated bool
	isKnown    bool // its beginning was observed
}

// beginDrain prepares the drain of the node that the plan requires.
func (r *record) beginDrain(p plan) (n node.Node, w drainWork) {
	s := &r.state
	n = s.node
	if !p.late.Since.IsZero() {
		n.Mark = p.late
	}
	latest := n.Mark.Since.Add(longestAction)
	for _, q := range s.reasons {
		if s.awaitsDrain(q) {
			w.event, latest = cmp.Or(w.event, q.Event), earlier(latest, q.latest(r.policy))
		}
	}
	w.run = &drainRun{deadline: p.drainBy, tighter: make(chan time.Time, 1)}
	w.target = drain.Target{
		Name: n.Name, UID: n.UID, Since: n.Mark.Since, Deadline: p.drainBy, Latest: latest,
		Tighter: w.run.tighter, AtDeadline: n.Policy.AtDeadline,
		Untainted: !p.late.Since.IsZero() && s.node.Mark.Since.IsZero(),
	}
	if n.Policy.HasDelay {
		w.target.EvictionDelay = &n.Policy.EvictionDelay
	}
	if f := s.finished; f.uid == n.UID {
		w.isRepeated, w.earlier = f.since.Equal(n.Mark.Since), f.report
		if w.isRepeated || f.since.Equal(s.before) {
			w.target.Earlier = f.report.Owners
		}
	}
	w.isKnown, s.tried = s.tried == n.UID, n.UID
	return n, w
}

// doDrain drains the node. It waits until the nodes that terminate at the same time are cordoned, and makes another
// replica the leader if the node is that of this process: its drain would evict this process in the middle of its work.
func (r *record) doDrain(ctx context.Context, w work) (result, error) {
	r.barrier.wait(ctx, w.drain.target.Deadline)
	if ctx.Err() == nil && r.handsOverLeadership(w.node) {
		<-ctx.Done()
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if !w.drain.isRepeated && !w.drain.isKnown {
		r.observer.DrainStarted(w.drain.event, w.node)
	}
	report, err := r.drainer.Drain(ctx, w.drain.target)
	if err == nil {
		report.Lost = report.Lost || len(report.Left) > 0 && r.confirmer.isFailed(ctx, w.node)
		return func(s *state, _ *reason) { r.drained(s, w, report, false) }, nil
	}
	switch again, ok := r.nodes.Find(w.node.InstanceID); {
	case ctx.Err() != nil:
		r.observer.DrainInterrupted(w.drain.event, w.node, report)
		return nil, context.Cause(ctx)
	case !errors.Is(err, drain.ErrReplaced):
		return func(s *state, _ *reason) { s.notBefore = time.Now().Add(longestPause) }, nil
	case ok && again.UID != w.node.UID: // it is drained next
		return nil, nil
	}
	return r.findAgain(ctx, w, report)
}

// findAgain asks the API server whose Node has the name of the one that was drained: the instance may have registered
// again, and the watch may be behind. Then that Node is drained next.
func (r *record) findAgain(ctx context.Context, w work, report drain.Report) (result, error) {
	n, err := r.nodes.Lookup(ctx, w.node.InstanceID)
	switch {
	case errors.Is(err, node.ErrGone), errors.Is(err, node.ErrUnselected):
		return func(s *state, _ *reason) { r.drained(s, w, report, true) }, nil
	case err != nil:
		return nil, err
	case n.UID == w.node.UID: // an old answer
		return func(s *state, _ *reason) { s.notBefore = time.Now().Add(firstPause) }, nil
	}
	return func(s *state, q *reason) {
		r.gone = w.node.UID
		r.found(n)(s, q)
	}, nil
}

// drained records the end of a drain. With isLeft another instance has the name of the Node.
func (r *record) drained(s *state, w work, report drain.Report, isLeft bool) {
	if d := w.drain; !d.isRepeated || report.Total > 0 || len(d.earlier.Left) > 0 {
		r.observer.NodeDrained(d.event, w.node, report)
	}
	if s.registered && s.node.UID != w.node.UID {
		return // the instance has registered again, and that Node is drained next
	}
	s.tried, s.left = "", isLeft
	if s.finished.uid != w.node.UID {
		s.lates = retry.Backoff(firstLatePause, lastLatePause)
	}
	s.lateNext = time.Now().Add(s.lates.Step())
	since := w.drain.target.Since
	s.finished = finishedDrain{uid: w.node.UID, since: since, hook: w.node.Mark.Hook, report: report}
	r.turns.finish(w.node.UID, since)
	for _, q := range s.reasons {
		if s.awaitsDrain(q) {
			q.report, q.reportUID = &report, w.node.UID
		}
	}
}

// handsOverLeadership reports whether another replica becomes the leader, because n is the node of this process. It
// continues from the mark on the node.
func (r *record) handsOverLeadership(n node.Node) bool {
	return r.cfg.NodeName != "" && n.Name == r.cfg.NodeName && r.cfg.HandOver != nil && r.cfg.HandOver(n.UID)
}

// doExclude labels the node if NODE_EXCLUDE_FROM_LOAD_BALANCERS is late. It tries until the deadline, and at least
// once. A node that is gone needs no label.
func (r *record) doExclude(ctx context.Context, w work) (result, error) {
	err := r.nodes.Exclude(ctx, w.node)
	isOver := !time.Now().Before(w.node.Mark.Deadline)
	if err != nil && !errors.Is(err, node.ErrGone) && !isOver {
		return nil, err
	}
	return did(exclude), nil
}

// doComplete completes the action. If Auto Scaling does not know the token, the action may have ended, and another
// one of the hook may hold the instance, whose node has got pods in between: that one has a drain of its own first.
func (r *record) doComplete(ctx context.Context, w work) (result, error) {
	action := actionOf(w.Event)
	action.Latest = w.limit.hook
	err := r.groups.Complete(ctx, action, w.result())
	isUnknown := errors.Is(err, autoscaling.ErrUnknownToken)
	switch {
	case isUnknown && w.isLaunch():
		return func(_ *state, q *reason) { q.Hook.Token = "" }, nil
	case isUnknown:
		return func(_ *state, q *reason) { q.again(time.Now()) }, nil
	case err != nil:
		return nil, err
	}
	return did(complete), nil
}
