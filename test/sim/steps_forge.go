package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/node-drainer/node-drainer/internal/retry"
	"github.com/node-drainer/node-drainer/pkg/refresh"
	"github.com/node-drainer/node-drainer/test/awsim"
)

// forger sends messages that AWS confirms, because their instances really launch, terminate or have maintenance ahead.
// Only their times are not true. Others name many instances.
type forger struct{ events }

// aboutNode sends a message about a node that there is.
func (w forger) aboutNode(id string, s Step) error {
	m := w.machines.find(id)
	if s.Do == "mislead" {
		return w.sendAction(m.group, id, awsim.Terminating, s)
	}
	if w.machines.change(id) == "" {
		return errors.New("there is no maintenance ahead")
	}
	e := w.aws.Envelope()
	for _, i := range m.cluster.Installs {
		w.aws.Send(queueURL(i.Name), awsim.MaintenanceEvent(e, e.At.Add(s.For), id))
	}
	return nil
}

// aboutNoNode sends a message about an instance that has no Node yet, or ever.
func (w forger) aboutNoNode(ctx context.Context, s Step) error {
	if s.Do == "flood" {
		return w.flood(s)
	}
	if _, g, ok := w.clusterOf(s.On); ok {
		w.work.Go(func() { w.awaitLaunch(ctx, g, s) })
	}
	return nil
}

// launchWithin is how long a forged message about a launch waits for one.
const launchWithin = 30 * time.Minute

// awaitLaunch sends the message so long after a launch of the group has begun to wait for its hook as the step says.
func (w forger) awaitLaunch(ctx context.Context, g Group, s Step) {
	ctx, cancel := context.WithTimeout(ctx, launchWithin)
	defer cancel()
	id := ""
	err := w.aws.WaitLedger(ctx, func(actions []awsim.Action) bool {
		i := slices.IndexFunc(actions, func(a awsim.Action) bool {
			return a.Group == g.Name && a.Transition == awsim.Launching && a.ClosedAt.IsZero() && w.hookOf(a).Install != ""
		})
		if i >= 0 {
			id = actions[i].InstanceID
		}
		return i >= 0
	})
	if err == nil && retry.Sleep(ctx, s.For) {
		err = w.sendAction(g, id, awsim.Launching, s)
		w.log.add("step", s.Do, "node", id, "ago", s.Ago, "error", err)
	}
}

// sendAction sends a message about a lifecycle action of an instance to the install whose hook it is.
func (w forger) sendAction(g Group, id, transition string, s Step) error {
	i := slices.IndexFunc(g.Hooks, func(h Hook) bool {
		return h.Install != "" && h.Launch == (transition == awsim.Launching)
	})
	if i < 0 {
		return errors.New("the group has no such hook")
	}
	h := g.Hooks[i]
	e := w.aws.Envelope()
	e.At = e.At.Add(-s.Ago)
	if s.Ago == epoch {
		e.At = time.Unix(1, 0)
	}
	n := awsim.Notification{Group: g.Name, Hook: h.Name, InstanceID: id, Transition: transition}
	body := awsim.DirectMessage(e, n)
	if s.N == 1 {
		body = awsim.EventBridgeMessage(e, n)
	}
	w.aws.Send(queueURL(h.Install), body)
	return nil
}

// epoch stands for as long ago as 1970.
const epoch = 50 * 365 * 24 * time.Hour

// flood sends a message about maintenance of many instances that do not exist.
func (w forger) flood(s Step) error {
	if len(w.agentsOf(s.On)) == 0 {
		return nil // The install was left out.
	}
	ids := make([]string, s.N)
	for i := range ids {
		ids[i] = fmt.Sprintf("i-0f%015x", i)
	}
	e := w.aws.Envelope()
	w.log.add("step", s.Do, "queue", s.On, "n", s.N)
	w.aws.Send(queueURL(s.On), awsim.MaintenanceEvent(e, e.At.Add(time.Hour), ids...))
	return nil
}

// tag writes a tag into a group that says that a trigger has raised the desired capacity by all of it.
func (w forger) tag(ctx context.Context, s Step) error {
	w.log.add("step", s.Do, "group", s.On)
	_, err := w.client().CreateOrUpdateTags(ctx, &autoscaling.CreateOrUpdateTagsInput{Tags: []types.Tag{{
		ResourceId: &s.On, ResourceType: aws.String("auto-scaling-group"), PropagateAtLaunch: aws.Bool(false),
		Key: aws.String(refresh.SurgeTag), Value: aws.String("0-1000"),
	}}})
	return err
}
