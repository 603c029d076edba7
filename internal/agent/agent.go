// Package agent tells the story of a termination: from the event that announces it to the lifecycle action
// that lets the instance go.
package agent

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/node-drainer/node-drainer/pkg/autoscaling"
	"github.com/node-drainer/node-drainer/pkg/drain"
	"github.com/node-drainer/node-drainer/pkg/ec2"
	"github.com/node-drainer/node-drainer/pkg/event"
	"github.com/node-drainer/node-drainer/pkg/node"
	"github.com/node-drainer/node-drainer/pkg/queue"
)

// Hooks are the lifecycle actions and the groups of Auto Scaling.
type Hooks interface {
	Hold(ctx context.Context, a autoscaling.Action, work func(context.Context) error) error
	Complete(ctx context.Context, a autoscaling.Action, result autoscaling.Result) error
	State(ctx context.Context, instanceID string) (autoscaling.State, error)
	Deadline(ctx context.Context, a autoscaling.Action, began time.Time) (time.Time, error)
	Clusters(ctx context.Context, group string) ([]string, error)
	Members(ctx context.Context, cluster string, known []string) (map[string]autoscaling.Member, error)
	OwnHooks(ctx context.Context, group string, t autoscaling.Transition) ([]string, error)
	IsPending(ctx context.Context, a autoscaling.Action) (bool, error)
	HandlesHook(hook string) bool
	MarkUnhealthy(ctx context.Context, instanceID string) error
	refreshes
}

// Instances are the instances of EC2.
type Instances interface {
	Describe(ctx context.Context, instanceID string) (ec2.Instance, error)
	HasScheduledEvent(ctx context.Context, instanceID string) (bool, error)
	InReservation(ctx context.Context, reservationID string) ([]string, error)
}

// Nodes are the Nodes of the cluster.
type Nodes interface {
	All() []node.Node
	Find(instanceID string) (node.Node, bool)
	Await(ctx context.Context, instanceID string) (node.Node, error)
	Lookup(ctx context.Context, instanceID string) (node.Node, error)
	Cordon(ctx context.Context, n node.Node, reason node.Reason) (mark node.Mark, news bool, err error)
	Uncordon(ctx context.Context, n node.Node) (restored bool, err error)
	Exclude(ctx context.Context, n node.Node) error
	protections
}

// Drainer empties nodes.
type Drainer interface {
	Drain(ctx context.Context, t drain.Target) (drain.Report, error)
}

// Observer is told what happens. Its methods are called from several goroutines and must not block.
type Observer interface {
	EventReceived(m queue.Message, e event.Event)
	EventIgnored(e event.Event, why string)
	MessageRefused(m queue.Message, reason string, err error)
	TerminationStarted(e event.Event)
	NodeAwaited(e event.Event)
	NodeCordoned(e event.Event, n node.Node, mark node.Mark)
	NodeUncordoned(n node.Node, why string)
	NodeDrained(e event.Event, n node.Node, report drain.Report)
	TerminationEnded(e event.Event, outcome string, took time.Duration)
	Retrying(e event.Event, doing string, err error)
	Resynced(members, found, untold int)
	ResyncFailed(err error)
	launchObserver
}

// Outcome is how a termination ended.
type Outcome string

// The outcomes of a termination.
const (
	Drained      Outcome = "drained"       // the node was empty when the action was completed
	LeftBehind   Outcome = "left-behind"   // the deadline came first; pods were left on the node
	CutShort     Outcome = "cut-short"     // the instance was let go before the drain of its node had ended
	Cordoned     Outcome = "cordoned"      // the node was taken out of service, and no more was asked for
	Replaced     Outcome = "replaced"      // the group was told to replace the instance, and its hook drains it
	Canceled     Outcome = "canceled"      // the event was called off
	Unregistered Outcome = "unregistered"  // no Node registered for the instance
	Gone         Outcome = "gone"          // the instance had been let go before its drain could begin
	Unconfirmed  Outcome = "unconfirmed"   // AWS knows of no such termination
	OtherCluster Outcome = "other-cluster" // the instance belongs to another cluster
	Interrupted  Outcome = "interrupted"   // this process is stopping; another goes on
)

// Outcomes lists every outcome, for those who count them.
func Outcomes() []string {
	return []string{
		string(Drained), string(LeftBehind), string(CutShort), string(Cordoned), string(Replaced),
		string(Canceled), string(Unregistered), string(Gone), string(Unconfirmed), string(OtherCluster),
		string(Interrupted),
	}
}

// Config is what the agent itself can be told.
type Config struct {
	ClusterName         string
	ConfirmTimeout      time.Duration // how long AWS may contradict a message
	RegistrationTimeout time.Duration // how long an instance that is no Node is held
	DrainTimeout        time.Duration // from the moment a node is taken out of service
	ResyncInterval      time.Duration // between two looks at what no message told of
	Events              event.Config  // what is done about events that no hook waits for
	DryRun              bool          // everything is read, decided and told, and nothing is changed
	Launch              LaunchConfig

	NodeName string // of the node that this process runs on; empty if unknown
	// HandOver asks for another leader before that node is drained. If it is true, this process is to stop
	// what it does: the contexts of its work end. It may be nil.
	HandOver func(node string) bool
}

// Agent handles the messages of the queue, and what no message tells of. Make it with New, and Run it.
type Agent struct {
	cfg       Config
	hooks     Hooks
	instances Instances
	nodes     Nodes
	drainer   Drainer
	launches  Launches
	observer  Observer

	hand   hand   // the events in hand: copies of one share its termination
	drains drains // by node: the events of an instance share one drain
	burst  burst  // the nodes that are being marked
	swept  swept  // what earlier sweeps have seen
}

// New returns an Agent.
func New(
	cfg Config, hooks Hooks, instances Instances, nodes Nodes, drainer Drainer, launches Launches,
	observer Observer,
) *Agent {
	if cfg.DryRun {
		hooks, nodes, drainer = dryHooks{hooks}, dryNodes{nodes}, dryDrainer{drainer}
		cfg.HandOver = nil
	}
	return &Agent{
		cfg: cfg, hooks: hooks, instances: instances, nodes: nodes, drainer: drainer, launches: launches,
		observer: observer,
	}
}

// Handle does what the message asks for, and returns when that is proven done. After nil the message may go;
// after an error it stays. In a dry run it stays until ctx ends.
func (a *Agent) Handle(ctx context.Context, m queue.Message) error {
	events, err := event.Parse(m.Body)
	if err != nil {
		a.observer.MessageRefused(m, event.Reason(err), err)
		return queue.Reject(err)
	}
	for i, e := range events {
		a.observer.EventReceived(m, e)
		a.swept.told(e)
		events[i].At = beginning(m, e)
	}
	err = forEach(events, func(e event.Event) error { return a.handle(ctx, e) })
	if a.cfg.DryRun {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	return err
}

// forEach calls do for all side by side, and returns when all have returned.
func forEach[T any](all []T, do func(T) error) error {
	errs := make([]error, len(all))
	var calls sync.WaitGroup
	for i, one := range all {
		calls.Go(func() { errs[i] = do(one) })
	}
	calls.Wait()
	return errors.Join(errs...)
}

func (a *Agent) handle(ctx context.Context, e event.Event) error {
	switch e.Kind {
	case event.LifecycleTerminating:
		return a.terminate(ctx, e)
	case event.LifecycleLaunching:
		return a.launch(ctx, e)
	case event.TestNotification, event.Notice:
		a.observer.EventIgnored(e, "asks for nothing")
		return nil
	case event.CapacityBlockExpiration:
		if e.InstanceID == "" {
			return a.expire(ctx, e)
		}
	case event.ScheduledChangeCanceled:
		return a.cancel(ctx, e)
	}
	return a.notice(ctx, e)
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

// tell has the observer told of a termination from its beginning to its end.
func (a *Agent) tell(e event.Event, serve func() (Outcome, error)) error {
	start := time.Now()
	a.observer.TerminationStarted(e)
	outcome, err := serve()
	a.observer.TerminationEnded(e, string(outcome), time.Since(start))
	return err
}
