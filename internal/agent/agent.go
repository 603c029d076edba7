// Package agent handles the events that end or start instances: it drains a node before its instance
// terminates, and holds a launching instance until its node is ready. A resync finds the instances that no
// message reported.
package agent

import (
	"context"
	"time"

	"github.com/node-drainer/node-drainer/pkg/autoscaling"
	"github.com/node-drainer/node-drainer/pkg/drain"
	"github.com/node-drainer/node-drainer/pkg/ec2"
	"github.com/node-drainer/node-drainer/pkg/event"
	"github.com/node-drainer/node-drainer/pkg/launch"
	"github.com/node-drainer/node-drainer/pkg/node"
	"github.com/node-drainer/node-drainer/pkg/queue"
)

// AutoScaling is what the agent calls of EC2 Auto Scaling.
type AutoScaling interface {
	HandlesHook(hook string) bool
	Hold(ctx context.Context, a autoscaling.Action, work func(context.Context) error) error
	Complete(ctx context.Context, a autoscaling.Action, result autoscaling.Result) error
	Deadline(ctx context.Context, a autoscaling.Action, began time.Time) (time.Time, error)
	State(ctx context.Context, instanceID string) (autoscaling.State, error)
	Clusters(ctx context.Context, group string) ([]string, error) // that the tags of the group name
	MarkUnhealthy(ctx context.Context, instanceID string) error
	RefreshActive(ctx context.Context, group string) (bool, error)
	Members(ctx context.Context, cluster string, known []string) (map[string]autoscaling.Member, error)
	OwnHooks(ctx context.Context, group string, t autoscaling.Transition) ([]string, error)
	IsPending(ctx context.Context, a autoscaling.Action) (bool, error)
}

// Instances is what the agent calls of EC2.
type Instances interface {
	Describe(ctx context.Context, instanceID string) (ec2.Instance, error)
	HasScheduledEvent(ctx context.Context, instanceID string) (bool, error)
	InReservation(ctx context.Context, reservationID string) ([]string, error)
}

// Nodes is what the agent calls of the cluster's Nodes. Find, All and Protected read a cache.
type Nodes interface {
	Find(instanceID string) (node.Node, bool)
	All() []node.Node
	Protected() []node.ProtectedNode
	Lookup(ctx context.Context, instanceID string) (node.Node, error)
	Await(ctx context.Context, instanceID string) (node.Node, error)
	Cordon(ctx context.Context, n node.Node, reason node.Reason) (mark node.Mark, changed bool, err error)
	Uncordon(ctx context.Context, n node.Node) (uncordoned bool, err error)
	Exclude(ctx context.Context, n node.Node) error
	Protect(ctx context.Context, n node.Node, group string) (protected bool, err error)
	Unprotect(ctx context.Context, n node.Node) (unprotected bool, err error)
}

// Drainer evicts the pods of a node.
type Drainer interface {
	Drain(ctx context.Context, t drain.Target) (drain.Report, error)
}

// Launches knows whether a new Node is ready.
type Launches interface {
	// Wait returns nil when the node is ready. It passes changes of what the node lacks to report.
	Wait(ctx context.Context, nodeName string, report func(missing []string)) error
	// Missing returns what the node lacks, as the API server knows it.
	Missing(ctx context.Context, nodeName string) ([]string, error)
}

// Observer records what happens. Its methods are called from several goroutines and must not block.
type Observer interface {
	EventReceived(m queue.Message, e event.Event)
	EventIgnored(e event.Event, why string)
	MessageRefused(m queue.Message, reason string, err error)
	Retrying(e event.Event, operation string, err error)

	TerminationStarted(e event.Event)
	TerminationEnded(e event.Event, outcome string, took time.Duration)
	NodeAwaited(e event.Event)
	NodeCordoned(e event.Event, n node.Node, mark node.Mark)
	NodeUncordoned(n node.Node, why string)
	NodeDrained(e event.Event, n node.Node, report drain.Report)

	LaunchStarted(e event.Event)
	LaunchWaiting(e event.Event, nodeName string, missing []string)
	LaunchUncordoned(e event.Event, n node.Node)
	LaunchOverdue(e event.Event, n node.Node, missing []string, outcome launch.Outcome)
	LaunchEnded(e event.Event, outcome launch.Outcome, took time.Duration)
	NodeProtected(n node.Node, group string)
	NodeUnprotected(n node.Node, group string)
	ProtectionFailed(nodeName, group string, err error)

	Resynced(members, found, lost int)
	ResyncFailed(err error)
}

// Outcome is how a termination ended.
type Outcome string

// The outcomes of a termination.
const (
	Drained      Outcome = "drained"       // the node was empty when the lifecycle action was completed
	LeftBehind   Outcome = "left-behind"   // the deadline passed while pods were still on the node
	CutShort     Outcome = "cut-short"     // the lifecycle action ended before the drain did
	Cordoned     Outcome = "cordoned"      // the node was cordoned and keeps its pods, as configured
	Replaced     Outcome = "replaced"      // the group replaces the instance, and its hook has the node drained
	Canceled     Outcome = "canceled"      // AWS canceled the event
	Unregistered Outcome = "unregistered"  // the instance has no Node
	Gone         Outcome = "gone"          // the lifecycle action or the instance ended before the drain began
	Unconfirmed  Outcome = "unconfirmed"   // AWS contradicts the message
	OtherCluster Outcome = "other-cluster" // the instance belongs to another cluster
	Interrupted  Outcome = "interrupted"   // this process is stopping; another one continues
)

// Outcomes lists all outcomes, so that counters can start at zero for each.
func Outcomes() []string {
	return []string{
		string(Drained), string(LeftBehind), string(CutShort), string(Cordoned), string(Replaced),
		string(Canceled), string(Unregistered), string(Gone), string(Unconfirmed), string(OtherCluster),
		string(Interrupted),
	}
}

// Config configures an Agent.
type Config struct {
	ClusterName         string
	ConfirmTimeout      time.Duration // how long AWS may contradict a message before the message is dropped
	RegistrationTimeout time.Duration // how long a terminating instance may take to register as a Node
	DrainTimeout        time.Duration // from the cordon of a node to the end of its drain
	ResyncInterval      time.Duration
	Events              event.Config // what to do about events without a lifecycle hook
	DryRun              bool         // read, decide and log everything; change nothing
	Launch              LaunchConfig

	NodeName string // the node that this process runs on; empty if unknown
	// HandOver is called with the UID of that node before it is drained. It returns true if another replica
	// takes over: then the contexts of all work in this process end soon. It may be nil.
	HandOver func(nodeUID string) bool
}

// LaunchConfig configures how launches are handled.
type LaunchConfig struct {
	Timeout  time.Duration // from the time of the event until the node must be ready
	Continue bool          // complete a launch that timed out with CONTINUE instead of ABANDON
}

// Agent handles messages, and the instances that no message reported. Make it with New.
type Agent struct {
	*shared
	terminator *terminator
	notices    *noticeHandler
	launcher   *launcher
	resyncer   *resyncer
}

// New returns an Agent.
func New(
	cfg Config, groups AutoScaling, instances Instances, nodes Nodes, drainer Drainer, launches Launches,
	o Observer,
) *Agent {
	if cfg.DryRun {
		groups, nodes, drainer = dryAutoScaling{groups}, dryNodes{nodes}, dryDrainer{drainer}
		cfg.HandOver = nil
	}
	s := &shared{cfg: cfg, groups: groups, instances: instances, nodes: nodes, observer: o}
	confirmer, cordoner, protector := &confirmer{s}, &cordoner{s}, &protector{s}
	t := &terminator{shared: s, drainer: drainer, confirmer: confirmer, cordoner: cordoner}
	l := &launcher{shared: s, launches: launches, confirmer: confirmer, protector: protector}
	a := &Agent{shared: s, terminator: t, notices: &noticeHandler{s, t}, launcher: l}
	a.resyncer = &resyncer{
		shared: s, handle: a.handleEvent, confirmer: confirmer, cordoner: cordoner, protector: protector,
	}
	return a
}

// Run resyncs at once and after every ResyncInterval, until ctx ends. It returns when all work that it
// started has ended.
func (a *Agent) Run(ctx context.Context) error { return a.resyncer.run(ctx) }
