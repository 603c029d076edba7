package agent

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/node-drainer/node-drainer/internal/pause"
	"github.com/node-drainer/node-drainer/pkg/drain"
	"github.com/node-drainer/node-drainer/pkg/event"
	"github.com/node-drainer/node-drainer/pkg/lifecycle"
	"github.com/node-drainer/node-drainer/pkg/node"
)

var (
	// errForged: Auto Scaling contradicts the message for as long as it may.
	errForged = errors.New("auto scaling knows of no such termination")
	// errUnknown: Auto Scaling does not know the instance.
	errUnknown = errors.New("the instance is in no Auto Scaling group")
	// errUnregistered: no Node has come for the instance.
	errUnregistered = errors.New("no node has registered for the instance")
)

const (
	// markAfter is how long Auto Scaling may stay silent before a node is taken out of service unconfirmed: new
	// pods must not come to it. Pods are moved only after the confirmation.
	markAfter = 2 * time.Second
	// firstRetry and lastRetry bound the pause before a question is asked again.
	firstRetry, lastRetry = 250 * time.Millisecond, 15 * time.Second
)

// empty confirms that the instance is terminating, takes its node out of service and drains it.
func (a *Agent) empty(ctx context.Context, t Termination, began time.Time) (Outcome, error) {
	n, mark, err := a.mark(ctx, t, began)
	switch {
	case errors.Is(err, errUnregistered):
		return Unregistered, nil
	case err != nil:
		return Interrupted, err
	}
	a.burst.wait(ctx)
	report, err := a.drain(ctx, n, mark)
	if err != nil {
		return Interrupted, err
	}
	a.observer.NodeDrained(t, n, report)
	if err := a.exclude(ctx, t, n); err != nil {
		return Interrupted, err
	}
	if len(report.Left) > 0 {
		return LeftBehind, nil
	}
	return Drained, nil
}

// mark takes the node of the instance out of service, once Auto Scaling has confirmed the termination. That
// there is no such node is not believed of the watch: the API server itself is asked.
func (a *Agent) mark(ctx context.Context, t Termination, began time.Time) (node.Node, node.Mark, error) {
	if _, ok := a.nodes.Find(t.InstanceID); ok {
		defer a.burst.begin()()
	}
	n, err := a.find(ctx, t, began)
	for delay := firstRetry; ; delay = min(2*delay, lastRetry) {
		var mark node.Mark
		if err == nil {
			mark, err = a.retire(ctx, t, n, began)
		}
		if !errors.Is(err, errUnregistered) && !errors.Is(err, node.ErrGone) {
			return n, mark, err
		}
		if n, err = a.lookup(ctx, t); err != nil {
			return n, mark, err
		}
		if !pause.For(ctx, delay) {
			return n, mark, context.Cause(ctx)
		}
	}
}

// lookup returns the node of the instance as the API server has it. The error is errUnregistered if that
// proves that there is none. It asks until there is an answer.
func (a *Agent) lookup(ctx context.Context, t Termination) (n node.Node, err error) {
	err = a.retry(ctx, t, "look for the node of the instance", func() (err error) {
		n, err = a.nodes.Lookup(ctx, t.InstanceID)
		return err
	})
	if errors.Is(err, node.ErrGone) {
		return n, errUnregistered
	}
	return n, err
}

// find returns the node of the instance, once Auto Scaling has confirmed the termination. An instance that is
// no Node may be about to register, and would then take pods: it is waited for, with a bound.
func (a *Agent) find(ctx context.Context, t Termination, began time.Time) (node.Node, error) {
	if n, ok := a.nodes.Find(t.InstanceID); ok {
		return n, a.confirmNode(ctx, t, n)
	}
	if err := a.confirm(ctx, t, nil); err != nil {
		return node.Node{}, err
	}
	a.observer.NodeAwaited(t)
	ctx, cancel := context.WithDeadlineCause(ctx, began.Add(a.cfg.RegistrationTimeout), errUnregistered)
	defer cancel()
	return a.nodes.Await(ctx, t.InstanceID)
}

// confirmNode returns nil when Auto Scaling confirms the termination. If it stays silent, the node is marked
// meanwhile.
func (a *Agent) confirmNode(ctx context.Context, t Termination, n node.Node) error {
	var answered atomic.Bool
	confirmed := make(chan error, 1)
	go func() { confirmed <- a.confirm(ctx, t, &answered) }()
	timer := time.NewTimer(markAfter)
	defer timer.Stop()
	select {
	case err := <-confirmed:
		return judge(n, err)
	case <-timer.C:
	}
	if !answered.Load() {
		if _, err := a.nodes.Retire(ctx, n, reason(t, time.Time{})); err != nil {
			a.observer.Retrying(t, "mark node "+n.Name, err) // marked again when confirmed
		}
	}
	return judge(n, <-confirmed)
}

// judge is what Auto Scaling's verdict means for an instance that has a node. The termination of an instance
// that no group knows was no forgery if the node has been marked with a deadline, as is done after the
// confirmation: it is long over.
func judge(n node.Node, verdict error) error {
	switch {
	case !errors.Is(verdict, errUnknown):
		return verdict
	case n.Mark.Deadline.IsZero():
		return errForged
	}
	return lifecycle.ErrGone
}

// restore takes the mark off the node of a forged termination, if there is one. It does so for as long as
// this process runs, and not under the hold: that ends when no group knows the instance.
func (a *Agent) restore(ctx context.Context, t Termination) error {
	n, ok := a.nodes.Find(t.InstanceID)
	if !ok {
		return nil
	}
	err := a.retry(ctx, t, "take the mark off node "+n.Name, func() error {
		restored, err := a.nodes.Restore(ctx, n)
		if restored && err == nil {
			a.observer.NodeRestored(t, n)
		}
		return err
	})
	if errors.Is(err, node.ErrGone) {
		return nil
	}
	return err
}

// confirm returns nil when Auto Scaling says that the instance is terminating, and lifecycle.ErrGone when it
// is past its hooks. Its answers are eventually consistent: only if it contradicts the message for long
// enough, the error is errForged, or errUnknown for an instance that is in no group. Any answer sets
// answered.
func (a *Agent) confirm(ctx context.Context, t Termination, answered *atomic.Bool) error {
	var since time.Time // the first contradiction
	for delay := firstRetry; ; delay = min(2*delay, lastRetry) {
		state, err := a.hooks.State(ctx, t.InstanceID)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			a.observer.Retrying(t, "confirm the termination", err)
		case state.Terminating():
			return nil
		case state.Gone():
			return lifecycle.ErrGone
		default:
			if answered != nil {
				answered.Store(true)
			}
			if since.IsZero() {
				since = time.Now()
			}
			left := a.cfg.ConfirmTimeout - time.Since(since)
			if left <= 0 {
				return contradiction(state)
			}
			delay = min(delay, left)
		}
		if !pause.For(ctx, delay) {
			return context.Cause(ctx)
		}
	}
}

func contradiction(state lifecycle.State) error {
	if state.Unknown() {
		return errUnknown
	}
	return fmt.Errorf("%w: the instance is %s", errForged, state)
}

// retire takes the node out of service, with the deadline by which it must be empty.
func (a *Agent) retire(ctx context.Context, t Termination, n node.Node, began time.Time) (
	mark node.Mark, err error,
) {
	err = a.retry(ctx, t, "take node "+n.Name+" out of service", func() error {
		deadline, err := a.hooks.Deadline(ctx, t, began)
		if err != nil {
			return err
		}
		if own := time.Now().Add(a.cfg.DrainTimeout); own.Before(deadline) {
			deadline = own
		}
		mark, err = a.nodes.Retire(ctx, n, reason(t, deadline))
		return err
	})
	if err == nil {
		a.observer.NodeRetired(t, n, mark)
	}
	return mark, err
}

func reason(t Termination, deadline time.Time) node.Reason {
	return node.Reason{
		Kind: string(event.LifecycleTerminating), Hook: t.Group + "/" + t.Hook, Token: t.Token, Deadline: deadline,
	}
}

// drain empties the node. The hooks of one instance share a drain, unless a later one is due earlier. It is
// that of the hook that came first: if the group gives up on that, the others drain on.
func (a *Agent) drain(ctx context.Context, n node.Node, mark node.Mark) (drain.Report, error) {
	key := fmt.Sprint(n.UID, mark.Deadline.Unix())
	for {
		drained := a.drains.DoChan(key, func() (any, error) {
			return a.drainer.Drain(ctx, drain.Target{
				Name: n.Name, UID: n.UID, Since: mark.Since, Deadline: mark.Deadline,
			})
		})
		select {
		case <-ctx.Done():
			return drain.Report{}, context.Cause(ctx)
		case r := <-drained:
			if r.Shared && errors.Is(r.Err, lifecycle.ErrGone) && ctx.Err() == nil {
				continue
			}
			return r.Val.(drain.Report), r.Err //nolint:forcetypeassert // the function above returns one
		}
	}
}

// exclude takes the node out of the load balancers, where that is to be done late. A node that is gone is
// out.
func (a *Agent) exclude(ctx context.Context, t Termination, n node.Node) error {
	err := a.retry(ctx, t, "exclude node "+n.Name+" from load balancers", func() error {
		return a.nodes.Exclude(ctx, n)
	})
	if errors.Is(err, node.ErrGone) {
		return nil
	}
	return err
}

// retry calls do until it succeeds, or finds that the node or the action is gone, or ctx ends.
func (a *Agent) retry(ctx context.Context, t Termination, doing string, do func() error) error {
	for delay := firstRetry; ; delay = min(2*delay, lastRetry) {
		err := do()
		if err == nil || errors.Is(err, node.ErrGone) || errors.Is(err, lifecycle.ErrGone) {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		a.observer.Retrying(t, doing, err)
		if !pause.For(ctx, delay) {
			return context.Cause(ctx)
		}
	}
}
