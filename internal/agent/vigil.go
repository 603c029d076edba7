package agent

import (
	"context"
	"errors"
	"time"

	"github.com/node-drainer/node-drainer/pkg/event"
	"github.com/node-drainer/node-drainer/pkg/launch"
	"github.com/node-drainer/node-drainer/pkg/node"
)

const (
	// recovery is what a node is given to catch up after the API server could not be asked when its time was
	// over. Nothing reports without one, and a watch that lost it tries again after a minute at most (client-go,
	// the reflector's backoff). The kubelet has to report first, and then a controller to take a taint off.
	recovery = 3 * time.Minute
	// lastLook is how long before the last moment that the hook leaves the API server is asked at the latest.
	lastLook = 10 * time.Second
)

// vigil is the wait for the node of one launch.
type vigil struct {
	*Agent
	event   event.Event
	due     time.Time // when the node must serve
	latest  time.Time // what that can be put off to
	last    time.Time // when the action must be completed, whatever is known
	node    node.Node // zero until it has registered
	missing []string  // what was said last
	guarded bool      // what is to be done about the autoscaler is done
}

// keep returns nil when the node can serve, and errOverdue when its time is over. Only the API server itself
// decides that: one that cannot be asked makes no node a bad one. The node then has until it can be asked and
// some time more, up to the last moment that the hook leaves.
func (v *vigil) keep(ctx context.Context) error {
	for {
		err := v.watch(ctx)
		if !errors.Is(err, errOverdue) {
			return err
		}
		asked, err := v.verify(ctx)
		switch {
		case err != nil:
			return err
		case len(v.missing) == 0:
			v.guard(ctx)
			return nil
		case asked == 1:
			return errOverdue
		}
		v.due = sooner(time.Now().Add(recovery), v.latest)
	}
}

// limit sets until when the node may be waited for: as configured, and as the hook allows.
func (v *vigil) limit(ctx context.Context) error {
	err := v.retry(ctx, v.event, "read the timeout of the hook", func() (err error) {
		v.last, err = v.hooks.Deadline(ctx, action(v.event), v.event.At)
		return err
	})
	v.latest = v.last.Add(-lastLook)
	v.due = sooner(v.event.At.Add(v.cfg.Launch.Timeout), v.latest)
	return err
}

func sooner(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// watch returns nil when the watches show a node that can serve, and errOverdue when it is due.
func (v *vigil) watch(ctx context.Context) error {
	ctx, cancel := context.WithDeadlineCause(ctx, v.due, errOverdue)
	defer cancel()
	if _, ok := v.nodes.Find(v.event.InstanceID); !ok {
		v.told([]string{launch.Unregistered})
	}
	var err error
	if v.node, err = v.nodes.Await(ctx, v.event.InstanceID); err != nil {
		return err
	}
	if err := v.revive(ctx); err != nil {
		return err
	}
	v.guard(ctx)
	if err := v.launches.Wait(ctx, v.node.Name, v.told); err != nil {
		return err
	}
	v.guard(ctx)
	return nil
}

func (v *vigil) told(missing []string) {
	v.missing = missing
	v.observer.LaunchWaiting(v.event, v.node.Name, missing)
}

// revive takes off the node what an earlier termination has left on it: the instance went to the warm pool,
// and has come back. A mark that is younger than the launch is that of another termination, which goes on.
func (v *vigil) revive(ctx context.Context) error {
	if v.node.Mark.Since.IsZero() || !v.node.Mark.Since.Before(v.event.At) {
		return nil
	}
	err := v.retry(ctx, v.event, "take the mark off node "+v.node.Name, func() error {
		restored, err := v.nodes.Uncordon(ctx, v.node)
		if restored && err == nil {
			v.observer.LaunchUncordoned(v.event, v.node)
		}
		return err
	})
	if errors.Is(err, node.ErrGone) {
		return nil // the wait will find it missing
	}
	return err
}

// guard has the cluster autoscaler leave the node alone if an instance refresh of its group is on. That is
// tried once when the node has come, and once more when it can serve: a launch waits for no more than that.
func (v *vigil) guard(ctx context.Context) {
	if v.guarded {
		return
	}
	group := v.event.Hook.Group
	active, err := v.hooks.RefreshActive(ctx, group)
	news := false
	if err == nil && active {
		news, err = v.nodes.Protect(ctx, v.node, group)
	}
	switch {
	case err != nil && ctx.Err() == nil:
		v.observer.ProtectionFailed(v.node.Name, group, err)
	case news:
		v.observer.NodeProtected(v.node, group)
	}
	v.guarded = err == nil
}

// verify notes what the node lacks as the API server itself has it, which is asked until it answers, or the
// last moment has come. It returns how often that was.
func (v *vigil) verify(ctx context.Context) (asked int, err error) {
	ctx, cancel := context.WithDeadlineCause(ctx, v.last, errOverdue)
	defer cancel()
	err = v.retry(ctx, v.event, "ask what the node lacks", func() (err error) {
		asked++
		v.missing, err = v.lacks(ctx)
		return err
	})
	if errors.Is(err, errOverdue) {
		v.missing = []string{"an answer of the API server"}
		return asked, nil
	}
	return asked, err
}

func (v *vigil) lacks(ctx context.Context) ([]string, error) {
	n, ok := v.nodes.Find(v.event.InstanceID)
	if !ok {
		var err error
		n, err = v.nodes.Lookup(ctx, v.event.InstanceID)
		if errors.Is(err, node.ErrGone) {
			return []string{launch.Unregistered}, nil
		}
		if err != nil {
			return nil, err
		}
	}
	v.node = n
	return v.launches.Missing(ctx, n.Name)
}
