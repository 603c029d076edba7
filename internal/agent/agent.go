// Package agent tells the story of a termination: from the message that announces it to the lifecycle action
// that lets the instance go.
package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/node-drainer/node-drainer/pkg/drain"
	"github.com/node-drainer/node-drainer/pkg/event"
	"github.com/node-drainer/node-drainer/pkg/lifecycle"
	"github.com/node-drainer/node-drainer/pkg/node"
	"github.com/node-drainer/node-drainer/pkg/queue"
)

// Hooks are the lifecycle actions of Auto Scaling.
type Hooks interface {
	Hold(ctx context.Context, a lifecycle.Action, work func(context.Context) error) error
	Complete(ctx context.Context, a lifecycle.Action, result lifecycle.Result) error
	State(ctx context.Context, instanceID string) (lifecycle.State, error)
	Deadline(ctx context.Context, a lifecycle.Action, began time.Time) (time.Time, error)
	Clusters(ctx context.Context, group string) ([]string, error)
}

// Nodes are the Nodes of the cluster.
type Nodes interface {
	Find(instanceID string) (node.Node, bool)
	Await(ctx context.Context, instanceID string) (node.Node, error)
	Lookup(ctx context.Context, instanceID string) (node.Node, error)
	Retire(ctx context.Context, n node.Node, reason node.Reason) (node.Mark, error)
	Restore(ctx context.Context, n node.Node) (restored bool, err error)
	Exclude(ctx context.Context, n node.Node) error
}

// Drainer empties nodes.
type Drainer interface {
	Drain(ctx context.Context, t drain.Target) (drain.Report, error)
}

// Observer is told what happens. Its methods are called from several goroutines and must not block.
type Observer interface {
	EventReceived(m queue.Message, e event.Event)
	EventIgnored(m queue.Message, e event.Event)
	MessageRefused(m queue.Message, reason string, err error)
	TerminationBegan(t Termination)
	NodeAwaited(t Termination)
	NodeRetired(t Termination, n node.Node, mark node.Mark)
	NodeRestored(t Termination, n node.Node)
	NodeDrained(t Termination, n node.Node, report drain.Report)
	TerminationEnded(t Termination, outcome string, took time.Duration)
	Retrying(t Termination, doing string, err error)
}

// Termination is one lifecycle action as it is told of.
type Termination = lifecycle.Action

// Outcome is how a termination ended.
type Outcome string

// The outcomes of a termination.
const (
	Drained      Outcome = "drained"      // the node was empty when the action was completed
	LeftBehind   Outcome = "left-behind"  // the deadline came first; pods were left on the node
	Unregistered Outcome = "unregistered" // no Node registered for the instance
	Gone         Outcome = "gone"         // the group had let the instance go before, or meanwhile
	Forged       Outcome = "forged"       // Auto Scaling knows of no such termination
	Foreign      Outcome = "foreign"      // the instance belongs to another cluster
	Interrupted  Outcome = "interrupted"  // this process is stopping; another goes on
)

// Outcomes lists every outcome, for those who count them.
func Outcomes() []string {
	return []string{
		string(Drained), string(LeftBehind), string(Unregistered), string(Gone), string(Forged), string(Foreign),
		string(Interrupted),
	}
}

// Config is what the agent itself can be told.
type Config struct {
	ClusterName         string
	ConfirmTimeout      time.Duration // how long Auto Scaling may contradict a message
	RegistrationTimeout time.Duration // how long an instance that is no Node is held
	DrainTimeout        time.Duration // from the moment a node is taken out of service
}

// Agent handles the messages of the queue. Make it with New.
type Agent struct {
	cfg      Config
	hooks    Hooks
	nodes    Nodes
	drainer  Drainer
	observer Observer

	actions singleflight.Group // by lifecycle action: copies of a message share one termination
	drains  singleflight.Group // by node: the hooks of an instance share one drain
	burst   burst              // the nodes that are being marked
}

// New returns an Agent.
func New(cfg Config, hooks Hooks, nodes Nodes, drainer Drainer, observer Observer) *Agent {
	return &Agent{cfg: cfg, hooks: hooks, nodes: nodes, drainer: drainer, observer: observer}
}

// errUnsupported is the verdict on an event that this version cannot handle.
var errUnsupported = errors.New("launch hooks are not handled by this version: " +
	"let only terminating hooks send to the queue")

// Handle does what the message asks for, and returns when that is proven done. After nil the message may go;
// after an error it stays.
func (a *Agent) Handle(ctx context.Context, m queue.Message) error {
	events, err := event.Parse(m.Body)
	if err != nil {
		a.observer.MessageRefused(m, event.Reason(err), err)
		return queue.Reject(err)
	}
	var errs []error
	for _, e := range events {
		a.observer.EventReceived(m, e)
		errs = append(errs, a.handle(ctx, m, e))
	}
	return errors.Join(errs...)
}

func (a *Agent) handle(ctx context.Context, m queue.Message, e event.Event) error {
	switch e.Kind {
	case event.LifecycleTerminating:
		return a.terminate(ctx, m, e)
	case event.LifecycleLaunching:
		a.observer.MessageRefused(m, "unsupported", errUnsupported)
		return queue.Reject(errUnsupported)
	default:
		a.observer.EventIgnored(m, e)
		return nil
	}
}

// terminate serves the lifecycle action that the event tells of, once for all copies of the message.
func (a *Agent) terminate(ctx context.Context, m queue.Message, e event.Event) error {
	t := Termination{Group: e.Hook.Group, Hook: e.Hook.Name, InstanceID: e.InstanceID, Token: e.Hook.Token}
	began := beginning(m, e)
	_, err, _ := a.actions.Do(t.String(), func() (any, error) {
		start := time.Now()
		a.observer.TerminationBegan(t)
		outcome, err := a.serve(ctx, t, began)
		a.observer.TerminationEnded(t, string(outcome), time.Since(start))
		return nil, err
	})
	return err
}

// beginning is when the termination began: as the event says, else when its message was sent. A time that is
// yet to come is none: deadlines are counted from it, and whoever wrote it would have them never come.
func beginning(m queue.Message, e event.Event) time.Time {
	now := time.Now()
	for _, at := range []time.Time{e.At, m.SentAt} {
		if at.Unix() > 0 && !at.After(now) {
			return at
		}
	}
	return now
}

// serve is the way of a termination: whose it is, the hold, the drain under it, the completion.
func (a *Agent) serve(ctx context.Context, t Termination, began time.Time) (Outcome, error) {
	if foreign, err := a.foreign(ctx, t); err != nil {
		return Interrupted, err
	} else if foreign != nil {
		return Foreign, queue.Release(foreign)
	}
	outcome := Interrupted
	err := a.hooks.Hold(ctx, t, func(ctx context.Context) error {
		var err error
		outcome, err = a.empty(ctx, t, began)
		return err
	})
	switch {
	case ctx.Err() != nil:
		return Interrupted, context.Cause(ctx)
	case errors.Is(err, errForged):
		if err := a.restore(ctx, t); err != nil {
			return Interrupted, err
		}
		return Forged, nil
	case errors.Is(err, lifecycle.ErrGone), errors.Is(err, errUnknown):
		return Gone, nil
	case err != nil:
		return outcome, err
	}
	if err := a.hooks.Complete(ctx, t, lifecycle.Continue); err != nil {
		return Interrupted, err
	}
	return outcome, nil
}

// foreign returns an error that says so if the instance is no Node here and its group's tags name other
// clusters. A group without such tags may be ours.
func (a *Agent) foreign(ctx context.Context, t Termination) (foreign, err error) {
	var clusters []string
	err = a.retry(ctx, t, "read the tags of the group", func() (err error) {
		if _, ok := a.nodes.Find(t.InstanceID); ok {
			return nil
		}
		clusters, err = a.hooks.Clusters(ctx, t.Group)
		return err
	})
	if err != nil || len(clusters) == 0 || slices.Contains(clusters, a.cfg.ClusterName) {
		return nil, err
	}
	return fmt.Errorf("group %s belongs to cluster %q, this is %q", t.Group, clusters, a.cfg.ClusterName), nil
}
