package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/node-drainer/node-drainer/internal/retry"
	"github.com/node-drainer/node-drainer/pkg/autoscaling"
	"github.com/node-drainer/node-drainer/pkg/drain"
	"github.com/node-drainer/node-drainer/pkg/event"
	"github.com/node-drainer/node-drainer/pkg/node"
)

var (
	// errUnregistered: no Node has come for the instance.
	errUnregistered = errors.New("no node has registered for the instance")
	// errUnmarked: the node could not be taken out of service, and there is no more time to try that first.
	errUnmarked = errors.New("the node cannot be marked")
	// errLate: the deadline has come.
	errLate = errors.New("the time to drain the node is over")
)

// firstRetry and lastRetry bound the pause before a question is asked again.
const firstRetry, lastRetry = 250 * time.Millisecond, 15 * time.Second

// vacate confirms that the instance is going, takes its node out of service and empties it.
func (a *Agent) vacate(ctx context.Context, e event.Event) (Outcome, error) {
	n, mark, err := a.mark(ctx, e)
	switch {
	case errors.Is(err, errUnmarked):
		defer a.goOnMarking(ctx, e, n, mark.Deadline)()
	case err != nil:
		return or(Interrupted, err)
	}
	a.burst.wait(ctx)
	if err := a.handOver(ctx, n); err != nil {
		return Interrupted, err
	}
	report, err := a.drain(ctx, e, n, mark)
	switch {
	case errors.Is(err, autoscaling.ErrGone):
		return CutShort, err
	case err != nil:
		return Interrupted, err
	}
	if err := a.exclude(ctx, e, n, mark.Deadline); err != nil {
		return Interrupted, err
	}
	if len(report.Left) > 0 {
		return LeftBehind, nil
	}
	return Drained, nil
}

// mark takes the node of the instance out of service, once AWS has confirmed the termination. That there is
// no such node is not believed of the watch: the API server itself is asked.
func (a *Agent) mark(ctx context.Context, e event.Event) (node.Node, node.Mark, error) {
	if _, ok := a.nodes.Find(e.InstanceID); ok {
		defer a.burst.begin()()
	}
	n, err := a.find(ctx, e)
	for delay := firstRetry; ; delay = min(2*delay, lastRetry) {
		var mark node.Mark
		if err == nil {
			mark, err = a.retire(ctx, e, n)
		}
		if !errors.Is(err, errUnregistered) && !errors.Is(err, node.ErrGone) {
			return n, mark, err
		}
		if n, err = a.lookup(ctx, e); err != nil {
			return n, mark, err
		}
		if !retry.Sleep(ctx, delay) {
			return n, mark, context.Cause(ctx)
		}
	}
}

// lookup returns the node of the instance as the API server has it. The error is errUnregistered if that
// proves that there is none. It asks until there is an answer.
func (a *Agent) lookup(ctx context.Context, e event.Event) (n node.Node, err error) {
	err = a.retry(ctx, e, "look for the node of the instance", func() (err error) {
		n, err = a.nodes.Lookup(ctx, e.InstanceID)
		return err
	})
	if errors.Is(err, node.ErrGone) {
		return n, errUnregistered
	}
	return n, err
}

// find returns the node of the instance, once AWS has confirmed the termination. An instance that is no Node
// may be about to register, and would then take pods: it is waited for, with a bound.
func (a *Agent) find(ctx context.Context, e event.Event) (node.Node, error) {
	if n, ok := a.nodes.Find(e.InstanceID); ok {
		return n, a.confirmNode(ctx, e, n)
	}
	if err := a.confirm(ctx, e, new(atomic.Bool)); err != nil {
		return node.Node{}, err
	}
	if e.Hook.Name == "" || a.isDead(ctx, e.InstanceID) {
		return node.Node{}, errUnregistered // it was there a moment ago, or will never come
	}
	a.observer.NodeAwaited(e)
	ctx, cancel := context.WithDeadlineCause(ctx, e.At.Add(a.cfg.RegistrationTimeout), errUnregistered)
	defer cancel()
	return a.nodes.Await(ctx, e.InstanceID)
}

// retire takes the node out of service, with the deadline by which it must be empty, and without one while
// that is not known. If the node cannot be marked for too long the error is errUnmarked, and the mark is the
// one that the node should have.
func (a *Agent) retire(ctx context.Context, e event.Event, n node.Node) (mark node.Mark, err error) {
	start, news := time.Now(), false
	err = a.retry(ctx, e, takingOut(n), func() error {
		deadline, unknown := a.deadline(ctx, e, n)
		if errors.Is(unknown, autoscaling.ErrGone) {
			return unknown
		}
		var err error
		mark, news, err = a.nodes.Cordon(ctx, n, reason(e, deadline))
		if err != nil && !errors.Is(err, node.ErrGone) && presses(deadline, start) {
			mark = node.Mark{Since: time.Now(), Deadline: deadline}
			return fmt.Errorf("%w: %w", errUnmarked, err)
		}
		return errors.Join(unknown, err)
	})
	if err == nil && news {
		a.observer.NodeCordoned(e, n, mark)
	}
	return mark, err
}

func takingOut(n node.Node) string { return "take node " + n.Name + " out of service" }

// goOnMarking tries on to take the node out of service while it is drained, until the returned function is
// called.
func (a *Agent) goOnMarking(
	ctx context.Context, e event.Event, n node.Node, deadline time.Time,
) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var trying sync.WaitGroup
	trying.Go(func() {
		_ = a.retry(ctx, e, takingOut(n), func() error {
			mark, news, err := a.nodes.Cordon(ctx, n, reason(e, deadline))
			if err == nil && news {
				a.observer.NodeCordoned(e, n, mark)
			}
			return err
		})
	})
	return func() {
		cancel()
		trying.Wait()
	}
}

// deadline is by when the node must be empty: the earliest of the hook's, the event's and our own. It is zero
// where the pods are to stay.
func (a *Agent) deadline(ctx context.Context, e event.Event, n node.Node) (time.Time, error) {
	if e.Hook.Name == "" && a.cfg.Events.Action(e.Kind) == event.Cordon {
		return time.Time{}, nil
	}
	deadline := time.Now().Add(a.cfg.DrainTimeout)
	if e.Hook.Name != "" {
		hook, err := a.hooks.Deadline(ctx, action(e), e.At)
		if err != nil {
			return time.Time{}, err
		}
		deadline = earlier(deadline, hook)
	}
	if !e.Deadline.IsZero() {
		deadline = earlier(deadline, e.Deadline.Add(-a.cfg.Events.Margin))
	}
	if !n.Ready && a.isDead(ctx, n.InstanceID) {
		deadline = earlier(deadline, time.Now()) // nobody will say that its pods have stopped
	}
	return deadline, nil
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// isDead tells whether EC2 says at once that nothing runs on the instance any more.
func (a *Agent) isDead(ctx context.Context, instanceID string) bool {
	ctx, cancel := context.WithTimeout(ctx, markAfter)
	defer cancel()
	i, err := a.instances.Describe(ctx, instanceID)
	return err == nil && i.State.Stopped()
}

func reason(e event.Event, deadline time.Time) node.Reason {
	r := node.Reason{Kind: string(e.Kind), Deadline: deadline, TerminatesAt: e.Deadline}
	if e.Hook.Name != "" {
		r.Hook, r.Token = e.Hook.Group+"/"+e.Hook.Name, e.Hook.Token
	}
	return r
}

// drain empties the node. The events of its instance share a drain, which has the earliest of their
// deadlines.
func (a *Agent) drain(
	ctx context.Context, e event.Event, n node.Node, mark node.Mark,
) (drain.Report, error) {
	return a.drains.share(ctx, n.UID, mark.Deadline, func(
		ctx context.Context, deadline time.Time, tighter <-chan time.Time,
	) (drain.Report, error) {
		before, again := a.swept.drain(n.UID, mark.Since)
		if again && e.Hook.Name == "" {
			return before, nil // for another event; a hook is completed on a proof of its own
		}
		report, err := a.drainer.Drain(ctx, drain.Target{
			Name: n.Name, UID: n.UID, Since: mark.Since, Deadline: deadline, Tighter: tighter,
		})
		if err == nil {
			a.swept.drained(n.UID, mark.Since, report)
		}
		if err == nil && (!again || report.Total > 0) {
			a.observer.NodeDrained(e, n, report)
		}
		return report, err
	})
}

// exclude takes the node out of the load balancers, where that is to be done late. It is tried until the
// deadline, and once after it. A node that is gone is out.
func (a *Agent) exclude(ctx context.Context, e event.Event, n node.Node, deadline time.Time) error {
	trying, cancel := context.WithDeadlineCause(ctx, deadline, errLate)
	defer cancel()
	err := a.retry(trying, e, "exclude node "+n.Name+" from load balancers", func() error {
		return a.nodes.Exclude(ctx, n)
	})
	if errors.Is(err, node.ErrGone) || errors.Is(err, errLate) {
		return nil
	}
	return err
}

// retry calls do until it succeeds, or finds that the node or the action is gone, or that the node cannot be
// marked, or ctx ends.
func (a *Agent) retry(ctx context.Context, e event.Event, doing string, do func() error) error {
	for delay := firstRetry; ; delay = min(2*delay, lastRetry) {
		err := do()
		if err == nil || errors.Is(err, node.ErrGone) || errors.Is(err, autoscaling.ErrGone) ||
			errors.Is(err, errUnmarked) {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		a.observer.Retrying(e, doing, err)
		if !retry.Sleep(ctx, delay) {
			return context.Cause(ctx)
		}
	}
}
