package agent

import (
	"context"
	"errors"
	"time"

	"github.com/node-drainer/node-drainer/internal/launch"
	"github.com/node-drainer/node-drainer/internal/node"
)

// doAwaitBoot waits until the instance of a launch has registered, and has booted from the volume that it has now.
func (r *record) doAwaitBoot(ctx context.Context, w work) (result, error) {
	n, ok := r.nodes.Find(w.InstanceID)
	switch {
	case !ok:
		r.observer.LaunchWaiting(w.Event, "", []string{launch.Unregistered})
	case n.AwaitsBoot():
		r.observer.LaunchWaiting(w.Event, n.Name, []string{launch.Unbooted})
	}
	n, err := r.nodes.Await(ctx, w.InstanceID, r.isBooted)
	if err != nil {
		return nil, err
	}
	isProtected := r.protect(ctx, w, n)
	return func(s *state, q *reason) {
		r.found(n)(s, q)
		did(register)(s, q)
		isProtected(s, q)
	}, nil
}

// protect protects the node from a scale-down, once. It is called when the node has registered and when it is ready: a
// launch does not wait for the protection.
func (r *record) protect(ctx context.Context, w work, n node.Node) result {
	if w.done.has(protect) || r.protector.protect(ctx, n, w.Hook.Group) != nil {
		return func(*state, *reason) {}
	}
	return did(protect)
}

// doUncordonLaunching removes from the node what was added before the launch.
func (r *record) doUncordonLaunching(ctx context.Context, w work) (result, error) {
	removed, err := r.nodes.Uncordon(ctx, w.node, func() bool { return false })
	if err != nil && !errors.Is(err, node.ErrGone) { // the launch continues with the next Node of the instance
		return nil, err
	}
	return func(s *state, q *reason) {
		did(uncordon)(s, q)
		if removed && err == nil {
			q.uncordoned = time.Now()
			r.forgetMark(w.node, true)
			r.observer.LaunchUncordoned(w.Event, w.node)
		}
	}, nil
}

func (r *record) doAwaitReady(ctx context.Context, w work) (result, error) {
	report := func(missing []string) { r.observer.LaunchWaiting(w.Event, w.node.Name, missing) }
	if err := r.launches.Wait(ctx, w.node.Name, report); err != nil {
		return nil, err
	}
	return r.isReady(ctx, w), nil
}

func (r *record) isReady(ctx context.Context, w work) result {
	r.protect(ctx, w, w.node)
	return func(_ *state, q *reason) { q.launched = string(launch.Ready) }
}

// doAskReady asks the API server what the node lacks, until there is an answer, or Auto Scaling ends the action: only
// an answer can abandon a launch. Without one the default result of the hook decides.
func (r *record) doAskReady(ctx context.Context, w work) (result, error) {
	missing, excused := []string{launch.Unregistered}, false
	switch {
	case w.node.AwaitsBoot():
		missing = []string{launch.Unbooted}
	case w.node.Name != "" && !w.node.Unselected:
		lacks, readyNowhere, err := r.launches.Missing(ctx, w.node.Name)
		if err != nil {
			return nil, err
		}
		missing, excused = lacks, len(lacks) == len(readyNowhere)
	default:
		n, err := r.nodes.Lookup(ctx, w.InstanceID)
		if err == nil {
			return func(s *state, q *reason) {
				r.found(n)(s, q)
				did(register)(s, q)
			}, nil
		}
		if !errors.Is(err, node.ErrGone) {
			return nil, err
		}
	}
	if len(missing) == 0 {
		return r.isReady(ctx, w), nil
	}
	return func(_ *state, q *reason) { r.isOverdue(w, q, missing, excused) }, nil
}

// isOverdue gives the node more time if its time ended during an outage of the API server, or before the agent could
// uncordon it, as the hook allows. Else the launch is over.
func (r *record) isOverdue(w work, q *reason, missing []string, excused bool) {
	recovers := q.uncordoned.Add(recovery)
	if w.failing > 0 {
		recovers = time.Now().Add(recovery)
	}
	if recovers = earlier(recovers, q.latestDue()); recovers.After(time.Now()) && recovers.After(q.recovers) {
		q.recovers = recovers
		return
	}
	outcome := launch.Abandoned
	if r.cfg.Launch.Continue || excused {
		outcome = launch.Continued
	}
	r.observer.LaunchOverdue(w.Event, w.node, missing, outcome)
	q.launched = string(outcome)
	if outcome == launch.Abandoned && w.node.Name != "" {
		// Pods may run there, and the group may have no terminating hook: the node is drained as long as the hook can be
		// held.
		q.holdEnds, q.limit = q.limit.hook.Add(lastCheck), limit{}
		q.confirmed = time.Time{}.Add(1) // long ago: it is asked again
	}
}
