package agent

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/node-drainer/node-drainer/internal/autoscaling"
	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/internal/node"
	"github.com/node-drainer/node-drainer/internal/retry"
)

// record is what is known of one instance. One goroutine at a time decides about it, and carries that out.
type record struct {
	*records
	changed chan struct{} // receives after something has changed

	mu      sync.Mutex
	state   state
	steps   map[step]*runningStep
	looping bool
	cancel  context.CancelCauseFunc // of the loop
	known   node.Node               // that the watch does not show
	// The mark that this process has written last, until the watch shows it.
	unseen    node.Mark
	unseenUID string // of its Node; empty if the watch shows it
	written   time.Time
	shown     node.Mark         // by the watch before that
	gone      string            // the UID of a Node that the watch shows, and that does not exist
	said      node.Postponement // to the observer
	claimed   event.Kind        // what it has, or waits for, its turn for; empty if it needs none
	failed    map[step]*failure // steps that have brought nothing
	starts    map[step]starts   // of the last firstPause
	ready     func()            // tells other drains that the node is cordoned; nil if they do not wait for that

	lost      map[key]bool       // that a resync has found, and no message has reported
	completed map[actionKey]bool // actions that this process has completed while it leads
}

// runningStep is a step that is being done.
type runningStep struct {
	since  time.Time // with the attempts before
	cancel context.CancelCauseFunc
	ended  chan struct{}
	drain  *drainRun // of drainNode; nil of other steps
}

// failure is since when a step fails, and when it is tried again.
type failure struct {
	since  time.Time
	pauses retry.Pauses
	next   time.Time
}

// errNotNeeded: nothing needs the step any more.
var errNotNeeded = errors.New("nothing needs it any more")

// add adds the event to the reasons of the instance. It returns an error if many copies of it wait already, or an event
// like it was canceled, and has not ended.
func (r *record) add(ctx context.Context, e event.Event, settled chan error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	one := r.reason(keyOf(e))
	switch {
	case one == nil:
		one = r.begin(e)
	case one.canceled:
		return errCanceled
	case settled != nil && len(one.waiting) > mostCopies:
		return errManyCopies
	default:
		one.merge(e, time.Now(), r.policy.confirmTimeout)
	}
	if settled != nil {
		one.waiting = append(one.waiting, settled)
	}
	r.work(ctx)
	return nil
}

// begin must be called with mu locked, and so must all below that do not lock it.
func (r *record) begin(e event.Event) *reason {
	one := newReason(e, time.Now())
	r.state.reasons = append(r.state.reasons, one)
	switch {
	case one.isLaunch():
		r.observer.LaunchStarted(e)
	case e.Kind == event.ScheduledChangeCanceled:
	default:
		r.observer.TerminationStarted(e)
	}
	if n, ok := r.nodes.Find(e.InstanceID); ok && r.ready == nil && !one.isLaunch() {
		r.ready = r.barrier.announceNode(n)
	}
	return one
}

func (r *record) reason(k key) *reason {
	for _, one := range r.state.reasons {
		if one.key == k {
			return one
		}
	}
	return nil
}

// wake has the instance decided about, in the background.
func (r *record) wake(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.work(ctx)
}

func (r *record) work(ctx context.Context) {
	select {
	case r.changed <- struct{}{}:
	default:
	}
	if !r.looping {
		r.looping = true
		ctx, r.cancel = context.WithCancelCause(ctx)
		r.working.Go(func() { r.loop(ctx) })
	}
}

// loop decides and acts until nothing is left to do, or ctx ends.
func (r *record) loop(ctx context.Context) {
	for {
		again, busy := r.decide(ctx)
		if !busy {
			return
		}
		var timer <-chan time.Time
		if !again.IsZero() {
			timer = time.After(time.Until(again))
		}
		select {
		case <-r.changed:
		case <-timer:
		case <-ctx.Done():
			r.stop(ctx)
			return
		}
	}
}

// decide decides once and starts what follows. It returns when to decide again, and whether there is anything left.
func (r *record) decide(ctx context.Context) (again time.Time, busy bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.read()
	policy := r.policy.of(r.state.node)
	r.takeTurn(policy)
	p := r.state.decide(policy)
	for _, q := range p.cancels {
		q.canceled = true
	}
	for _, q := range p.drains {
		q.draining = true
	}
	for _, e := range p.ends {
		r.end(e)
	}
	for _, e := range p.begins {
		r.beginFromNode(e)
	}
	for _, one := range r.state.reasons {
		if r.state.isRecorded(one, policy) {
			one.settle(nil)
		}
	}
	r.report(&p)
	r.carryOut(ctx, &p)
	switch now := time.Now(); {
	case len(p.ends)+len(p.begins)+len(p.cancels) > 0:
		p.at(now)
	case !p.again.IsZero() && !p.again.After(now):
		p.again = now.Add(firstPause)
	}
	r.looping = len(r.steps) > 0 || len(r.state.reasons) > 0 || !p.again.IsZero()
	if !r.looping {
		r.giveTurnBack()
	}
	return p.again, r.looping
}

// read reads what the caches know.
func (r *record) read() {
	s := &r.state
	s.now = time.Now()
	before := s.node.UID
	if s.node, s.registered = r.knownNode(); s.node.UID != before {
		s.nodeSince = s.now
	}
	s.removed = s.removed || s.registered && !s.node.DrainRequested
	if r.unseenUID == s.node.UID {
		if r.isUnseen(s.node) {
			s.node.Mark = r.unseen
		} else {
			r.unseenUID = ""
		}
	}
	s.cordonAgainAt = r.written.Add(cordonAgainAfter)
	s.running, s.failing = map[step]time.Time{}, map[step]time.Time{}
	for st, f := range r.failed {
		s.failing[st] = f.since
	}
	for st, one := range r.steps {
		s.running[st] = one.since
	}
}

// isUnseen reports whether the watch shows the Node without the mark that this process has written last. It needs mu.
func (r *record) isUnseen(n node.Node) bool {
	return r.unseenUID == n.UID && hasTimesOf(n.Mark, r.shown) && time.Now().Before(r.written.Add(watchLag))
}

// isBooted reports whether the node has booted since it was cordoned. The watch may not show yet that it was.
func (r *record) isBooted(n node.Node) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.isUnseen(n) {
		n.Mark = r.unseen
	}
	return n.IsBooted()
}

// knownNode returns the Node that the watch shows, or the one that the API server has, if the watch lags.
func (r *record) knownNode() (node.Node, bool) {
	n, ok := r.nodes.Find(r.state.id)
	switch {
	case n.Unselected, ok && n.UID != r.gone:
		if n.UID == r.known.UID {
			r.known = node.Node{}
		}
		return n, ok
	case r.known.UID != "" && r.known.UID != r.gone:
		return r.known, true
	}
	return node.Node{}, false
}

// hasTimesOf reports whether two marks are the same, as far as the agent has changed them.
func hasTimesOf(a, b node.Mark) bool { return a.Since.Equal(b.Since) && a.Deadline.Equal(b.Deadline) }

// cordonAgainAfter is how long after the agent has cordoned a node it is cordoned again if somebody has uncordoned it:
// a webhook may do so each time. That its mark was removed, the next resync notices.
const cordonAgainAfter = time.Minute

// watchLag is for how long a mark is believed that the watch of the Nodes does not show.
const watchLag = 10 * time.Minute

// takeTurn takes the turn of the instance to be drained, if it needs one.
func (r *record) takeTurn(p policy) {
	s := &r.state
	c := s.claim(p)
	if c.kind != r.claimed {
		r.giveTurnBack()
	}
	if c.kind != "" && !s.hasTurn {
		r.claimed = c.kind
		s.hasTurn, s.refusal = r.turns.take(c, p)
	}
}

func (r *record) giveTurnBack() {
	if r.claimed != "" {
		r.claimed, r.state.hasTurn, r.state.refusal = "", false, refusal{}
		r.turns.end(r.state.id)
	}
}

func (r *record) beginFromNode(e event.Event) {
	one := r.begin(e)
	switch e.Kind {
	case event.DrainRequested:
		r.state.requested, r.state.removed, r.state.withdrawn = true, false, false
	case event.ScheduledChange:
		one.announced, r.state.beganMaint = true, time.Now()
	}
}

// report says why the drain of the node is postponed, or that it is not any more because nothing requires it. While the
// API server is asked whether it still is, nothing new is known.
func (r *record) report(plan *plan) {
	if plan.isAsking {
		return
	}
	n, p := r.state.node, plan.postponed
	switch none := (node.Postponement{}); {
	case p != none && p != r.said:
		r.observer.DrainPostponed(n, p)
	case p == none && r.said != none && r.said.Maintenance.IsZero() && len(r.state.reasons) == 0:
		r.nodes.RemoveCondition(n)
	}
	r.said = p
}

// end removes a reason that has ended, and settles its messages.
func (r *record) end(e ending) {
	took := time.Since(e.handled)
	if e.outcome == string(CutShort) && !r.state.isNeeded(e.reason) {
		r.observer.DrainCutShort(e.Event, r.state.node)
	}
	switch {
	case e.Kind == event.ScheduledChangeCanceled:
	case e.isLaunch():
		r.observer.LaunchEnded(e.Event, launchOutcome(e.outcome), took)
	default:
		r.observer.TerminationEnded(e.Event, e.outcome, took)
	}
	if e.done.has(complete) {
		r.completed[actionKeyOf(e.Event)] = true
	}
	e.settle(e.err)
	r.state.reasons = slices.DeleteFunc(r.state.reasons, func(o *reason) bool { return o == e.reason })
	if len(r.state.reasons) == 0 {
		r.isCordoned()
	}
}

// isCordoned tells other drains not to wait for the cordon of the node.
func (r *record) isCordoned() {
	if r.ready != nil {
		r.ready()
		r.ready = nil
	}
}

// settle lets the handlers of the messages return.
func (r *reason) settle(err error) {
	for _, settled := range r.waiting {
		settled <- err
	}
	r.waiting = nil
}

// carryOut starts the steps of the plan that are not running, and stops those that are not in it.
func (r *record) carryOut(ctx context.Context, p *plan) {
	for st, running := range r.steps {
		if !slices.Contains(p.steps, st) {
			running.cancel(errNotNeeded)
		}
	}
	maps.DeleteFunc(r.starts, func(_ step, s starts) bool { return time.Since(s.first) >= firstPause })
	for _, st := range p.steps {
		switch f, running := r.failed[st], r.steps[st]; {
		case running != nil:
			running.drain.tighten(p.drainBy)
		case f != nil && time.Now().Before(f.next):
			p.at(f.next)
		case r.starts[st].n >= mostStarts:
			p.at(time.Now().Add(firstPause))
		default:
			r.startStep(ctx, st, *p)
		}
	}
	maps.DeleteFunc(r.failed, func(st step, _ *failure) bool { return !slices.Contains(p.steps, st) })
}

// firstPause and longestPause bound the pauses between attempts.
const firstPause, longestPause = 250 * time.Millisecond, 15 * time.Second

// longestCordonPause is shorter: until the node is cordoned, the scheduler puts the pods back that a drain evicts.
const longestCordonPause = 5 * time.Second

// failedAgain has the step pause before it is tried again: until its deadline at the latest.
func (r *record) failedAgain(st step, began time.Time) {
	f := r.failed[st]
	if f == nil {
		longest := longestPause
		if st.do == cordon {
			longest = longestCordonPause
		}
		f = &failure{since: began, pauses: retry.Backoff(firstPause, longest)}
		r.failed[st] = f
	}
	now := time.Now()
	f.next = now.Add(f.pauses.Step())
	if deadline := time.UnixMilli(st.deadline); deadline.After(now) {
		f.next = earlier(f.next, deadline)
	}
}

func (r *record) startStep(ctx context.Context, st step, p plan) {
	ctx, cancel := context.WithCancelCause(ctx)
	w := r.workOf(st, p)
	one := &runningStep{
		since: w.started.Add(-w.failing), cancel: cancel, ended: make(chan struct{}), drain: w.drain.run,
	}
	r.steps[st], r.starts[st] = one, r.starts[st].again()
	r.working.Go(func() {
		defer close(one.ended)
		defer cancel(nil)
		result, err := r.doers[st.do].do(r, ctx, w)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.endStep(ctx, w, result, err)
	})
}

// workOf returns what the step needs to know.
func (r *record) workOf(st step, p plan) work {
	w := work{step: st, started: time.Now(), reason: &reason{}, node: r.state.node, isDrained: r.state.isDrained()}
	w.owners, w.member = r.state.finished.report.Owners, r.state.member
	if q := r.reason(st.key); q != nil {
		*w.reason = *q
	}
	if f := r.failed[st]; f != nil {
		w.failing = w.started.Sub(f.since)
	}
	if st.do == drainNode {
		w.node, w.drain = r.beginDrain(p)
	}
	return w
}

// endStep records what a step has brought. One that has failed is tried again after a pause.
func (r *record) endStep(ctx context.Context, w work, result result, err error) {
	st, q := w.step, r.reason(w.step.key)
	delete(r.steps, st)
	if err != nil && ctx.Err() == nil {
		if result = r.resultOf(err, w.node); result == nil {
			r.observer.Retrying(w.about(), r.doers[st.do].what, err)
			r.failedAgain(st, w.started)
		}
	} else if err == nil {
		delete(r.failed, st)
	}
	if result != nil && (st.key == key{} || q != nil) {
		result(&r.state, q)
	}
	r.work(ctx)
}

// resultOf returns the result of an error that no repetition can change; nil if it is another.
func (r *record) resultOf(err error, n node.Node) result {
	switch {
	case errors.Is(err, node.ErrUnselected), errors.Is(err, errOtherCluster), errors.Is(err, errOtherReader):
		return func(_ *state, q *reason) { q.refused = err }
	case errors.Is(err, autoscaling.ErrGone):
		return actionGone
	case errors.Is(err, node.ErrGone):
		return func(_ *state, q *reason) {
			if r.gone = n.UID; q != nil {
				q.hadNode = true
			}
		}
	}
	return nil
}

// stop waits for all steps, whose contexts have ended with ctx, and interrupts the reasons.
func (r *record) stop(ctx context.Context) {
	r.mu.Lock()
	var ended []chan struct{}
	for _, one := range r.steps {
		ended = append(ended, one.ended)
	}
	r.mu.Unlock()
	for _, c := range ended {
		<-c
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range slices.Clone(r.state.reasons) {
		r.end(ending{one, string(Interrupted), context.Cause(ctx)})
	}
	r.giveTurnBack()
	r.looping = false
}

// forgetMark forgets the mark of a node that was uncordoned, and its drain, but not those of a Node that has replaced
// it.
func (r *record) forgetMark(n node.Node, removed bool) {
	s := &r.state
	if !removed || s.registered && s.node.UID != n.UID {
		return
	}
	r.unseenUID, s.finished, s.refuted = "", finishedDrain{}, ""
}
