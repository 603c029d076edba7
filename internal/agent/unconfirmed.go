package agent

import (
	"context"
	"fmt"
	"time"

	"github.com/node-drainer/node-drainer/internal/autoscaling"
	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/internal/node"
)

// leastContradicted is for how long Auto Scaling must contradict a message at least, however old that is.
const leastContradicted = 5 * time.Second

// confirmHook runs confirm for the event of a lifecycle action, which calls answered at the first answer of Auto
// Scaling. The action is held only while there is none: whoever can write to the queue could otherwise have the agent
// send any number of heartbeats. Neither the tags of the group in the message nor its hooks are read before: it may not
// exist.
func (c *confirmer) confirmHook(
	ctx context.Context, e event.Event, confirm func(ctx context.Context, answered func()) error,
) error {
	if n, _ := c.nodes.Find(e.InstanceID); n.Unselected {
		return fmt.Errorf("node %s: %w", n.Name, node.ErrUnselected)
	}
	unanswered, answered := context.WithCancel(ctx)
	defer answered()
	return c.actions.HoldUnconfirmed(ctx, unanswered, actionOf(e), func(ctx context.Context) error {
		return confirm(ctx, answered)
	})
}

// contradictionTimeout returns for how long AWS must contradict the event from now on. What a message says about a
// lifecycle action has been true since before it was sent, so that an old answer of Auto Scaling is as old as that, and
// a message that has waited in the queue among thousands of forged ones does not wait here, too. Its own time may be
// earlier than that by mostDelay.
func contradictionTimeout(e event.Event, timeout time.Duration) time.Duration {
	if e.Hook.Name == "" || e.Found {
		return timeout
	}
	age := max(time.Since(e.At)-mostDelay, 0)
	return max(timeout-age, min(leastContradicted, timeout))
}

// askState returns the lifecycle state of the instance of a lifecycle action, in turn with those of other messages. The
// error is errContradicted if the instance is in another group than the message says.
func (c *confirmer) askState(ctx context.Context, e event.Event) (autoscaling.State, error) {
	m, err := c.groups.MemberInTurn(ctx, e.InstanceID)
	if err == nil && m.Group != "" && e.Hook.Group != "" && m.Group != e.Hook.Group {
		err = fmt.Errorf("%w: the instance is in the group %s", errContradicted, m.Group)
	}
	return m.State, err
}
