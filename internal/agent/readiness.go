package agent

import (
	"context"
	"errors"
	"time"

	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/internal/launch"
	"github.com/node-drainer/node-drainer/internal/node"
)

const (
	// recovery is the time that a node gets after an outage of the API server during which its time ran out, and after
	// the agent has uncordoned it. A watch reconnects within a minute (the reflector's backoff in client-go). Then the
	// kubelet has to report, and the controllers to remove their taints.
	recovery = 3 * time.Minute
	// lastCheck is how long before the end of the hook's timeout the API server is asked at the latest.
	lastCheck = 10 * time.Second
)

// readinessWait waits for the node of one launch.
type readinessWait struct {
	launcher   *launcher
	event      event.Event
	began      time.Time        // when the wait began
	earliest   time.Time        // the launch began then at the earliest, whatever messages say
	due        time.Time        // when the node must be ready
	latestDue  time.Time        // due may be postponed to this
	holdEnds   time.Time        // when the action must be completed
	node       node.Node        // zero until the instance has registered
	uncordoned time.Time        // when the agent uncordoned it; zero if it did not
	missing    []string         // what the node lacks
	excused    bool             // it lacks only DaemonSets that are Ready on no node
	protected  bool             // nothing remains to be done against a scale-down
	times      <-chan time.Time // of messages that join the launch
}

// setDeadlines sets how long to wait for the node: as long as configured, and as the hook allows. A hook whose timeouts
// cannot be read for long counts as the shortest possible.
func (w *readinessWait) setDeadlines(ctx context.Context) error {
	start := time.Now()
	w.earliest = w.launcher.earliestStart(ctx, w.event)
	err := w.retry(ctx, "read the timeout of the hook", func() (err error) {
		isOver := time.Since(start) >= w.launcher.confirmer.cfg.ConfirmTimeout
		w.holdEnds, err = actionDeadline(ctx, w.launcher.actions, w.event, isOver)
		return err
	})
	w.latestDue = w.holdEnds.Add(-lastCheck)
	w.due = w.dueAfter(w.event.At)
	if n, ok := w.launcher.nodes.Find(w.event.InstanceID); ok && isOverdue(n) {
		w.due = time.Now()
	}
	return err
}

// dueAfter returns when the node of a launch must be ready that began at the given time, according to its message.
func (w *readinessWait) dueAfter(began time.Time) time.Time {
	return earlier(laterOf(began, w.earliest).Add(w.launcher.cfg.Timeout), w.latestDue)
}

// isOverdue reports whether the node was cordoned because it was not ready in time: another process has begun to
// drain it.
func isOverdue(n node.Node) bool { return n.Mark.Reason == string(event.LifecycleLaunching) }

// run returns nil when the node is ready, and errNotReady when its time is over. Only the API server can say
// that a node is not ready. If its time ended during an outage of the API server, the node gets more time
// after the outage, and also if it ended before the agent could uncordon the node, as the hook allows.
func (w *readinessWait) run(ctx context.Context) error {
	for {
		err := w.watch(ctx)
		if !errors.Is(err, errNotReady) {
			return err
		}
		calls, err := w.askServer(ctx)
		switch {
		case err != nil:
			return err
		case len(w.missing) == 0:
			w.protect(ctx)
			return nil
		}
		recovers := w.uncordoned.Add(recovery)
		if calls > 1 {
			recovers = time.Now().Add(recovery)
		}
		if due := earlier(recovers, w.latestDue); due.After(w.due) {
			w.due = due
			continue
		}
		return errNotReady
	}
}

// watch returns nil when the watches show that the node is ready, and errNotReady when it is due.
func (w *readinessWait) watch(ctx context.Context) error {
	ctx, cancel := w.untilDue(ctx)
	defer cancel()
	n, ok := w.launcher.nodes.Find(w.event.InstanceID)
	switch {
	case !ok:
		w.report([]string{launch.Unregistered})
	case n.AwaitsBoot():
		w.node = n
		w.report([]string{launch.Unbooted})
	}
	n, err := w.launcher.nodes.Await(ctx, w.event.InstanceID, node.Node.IsBooted)
	if err != nil {
		return err
	}
	w.node = n
	if err := w.uncordon(ctx); err != nil {
		return err
	}
	w.protect(ctx)
	if err := w.launcher.launches.Wait(ctx, w.node.Name, w.report); err != nil {
		return err
	}
	w.protect(ctx)
	return nil
}

// untilDue returns a context that ends when the node is due. A message says when the launch of an event without one
// began, which was assumed before.
func (w *readinessWait) untilDue(ctx context.Context) (due context.Context, stop func()) {
	due, cancel := context.WithCancelCause(ctx)
	stopped := background(due, func(ctx context.Context) {
		for {
			timer := time.NewTimer(time.Until(w.due))
			select {
			case <-timer.C:
				cancel(errNotReady)
				return
			case at := <-w.times:
				w.correctStart(at)
			case <-ctx.Done():
				timer.Stop()
				return
			}
		}
	})
	return due, func() {
		cancel(nil)
		stopped()
	}
}

// correctStart corrects the time at which the launch began: before the wait did, whatever the clock of AWS says.
func (w *readinessWait) correctStart(at time.Time) {
	if !at.Equal(w.event.At) {
		w.due = w.dueAfter(earlier(at, w.began))
	}
}

func (w *readinessWait) report(missing []string) {
	w.missing = missing
	w.launcher.observer.LaunchWaiting(w.event, w.node.Name, missing)
}

// uncordon removes from the node what was added before its instance went into the warm pool, or before its
// root volume was replaced, and ends the drains of that time that go on. A mark that is younger than the launch belongs
// to a termination that is in progress, and so does one that says when EC2 terminates the instance.
func (w *readinessWait) uncordon(ctx context.Context) error {
	mark := w.node.Mark
	if mark.Since.IsZero() || !mark.Since.Before(w.event.At) || isOverdue(w.node) || isAnnounced(w.node) {
		return nil
	}
	w.launcher.inflight.cancelEarlier(w.event, errCanceled)
	err := w.retry(ctx, "uncordon node "+w.node.Name, func() error {
		uncordoned, err := w.launcher.nodes.Uncordon(ctx, w.node, func() bool { return false })
		if uncordoned && err == nil {
			w.uncordoned = time.Now()
			w.launcher.observer.LaunchUncordoned(w.event, w.node)
		}
		return err
	})
	if errors.Is(err, node.ErrGone) {
		return nil // the wait reports the missing Node
	}
	return err
}

// protect protects the node from a scale-down, once. It is called when the node has registered and when it is
// ready: a launch does not wait for the protection.
func (w *readinessWait) protect(ctx context.Context) {
	if !w.protected {
		w.protected = w.launcher.protector.protect(ctx, w.node, w.event.Hook.Group) == nil
	}
}

// askServer sets what the node lacks to what the API server knows, and returns the number of calls that took.
// It asks until there is an answer, or Auto Scaling ends the action: only an answer can abandon a launch. Without one
// the default result of the hook decides.
func (w *readinessWait) askServer(ctx context.Context) (calls int, err error) {
	err = w.retry(ctx, "check the readiness of the node", func() (err error) {
		calls++
		w.missing, err = w.lacks(ctx)
		return err
	})
	return calls, err
}

func (w *readinessWait) lacks(ctx context.Context) ([]string, error) {
	n, ok := w.launcher.nodes.Find(w.event.InstanceID)
	if !ok {
		var err error
		n, err = w.launcher.nodes.Lookup(ctx, w.event.InstanceID)
		if errors.Is(err, node.ErrGone) {
			return []string{launch.Unregistered}, nil
		}
		if err != nil {
			return nil, err
		}
	}
	w.node, w.excused = n, false
	if n.AwaitsBoot() {
		return []string{launch.Unbooted}, nil
	}
	if err := w.uncordon(ctx); err != nil {
		return nil, err
	}
	missing, readyNowhere, err := w.launcher.launches.Missing(ctx, n.Name)
	w.excused = err == nil && len(missing) == len(readyNowhere)
	return missing, err
}

func (w *readinessWait) retry(ctx context.Context, operation string, step func() error) error {
	return w.launcher.retries.do(ctx, w.event, operation, step)
}
