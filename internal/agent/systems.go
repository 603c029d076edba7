package agent

import (
	"context"
	"time"

	"github.com/node-drainer/node-drainer/internal/autoscaler"
	"github.com/node-drainer/node-drainer/internal/autoscaling"
	"github.com/node-drainer/node-drainer/internal/ec2"
	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/internal/launch"
	"github.com/node-drainer/node-drainer/internal/node"
	"github.com/node-drainer/node-drainer/pkg/drain"
	"github.com/node-drainer/node-drainer/pkg/queue"
)

// This file holds what the agent calls: one interface for each system.

// systems are all of them. What needs them embeds a pointer.
type systems struct {
	cfg       Config
	groups    AutoScaling
	instances Instances
	alarms    Alarms
	nodes     Nodes
	drainer   Drainer
	launches  Launches
	observer  Observer
}

// AutoScaling is EC2 Auto Scaling.
type AutoScaling interface {
	HandlesHook(hook string) bool
	Hold(ctx context.Context, a autoscaling.Action, work func(context.Context) error) error
	Complete(ctx context.Context, a autoscaling.Action, result autoscaling.Result) error
	Deadline(ctx context.Context, a autoscaling.Action, began time.Time) (time.Time, error)
	ShortestDeadline(a autoscaling.Action, began time.Time) time.Time
	IsPending(ctx context.Context, a autoscaling.Action) (bool, error)
	State(ctx context.Context, instanceID string) (autoscaling.State, error)
	// MemberInTurn is for instances of messages that are not confirmed, of which there may be any number.
	MemberInTurn(ctx context.Context, instanceID string) (autoscaling.Member, error)
	Members(ctx context.Context, cluster string, known []string) (map[string]autoscaling.Member, error)
	// GroupOf returns the group that the instance is in; "" if it is in none.
	GroupOf(ctx context.Context, instanceID string) (string, error)
	// Clusters returns those that the tags of the group name.
	Clusters(ctx context.Context, group string) ([]string, error)
	OwnHooks(ctx context.Context, group string, t autoscaling.Transition) ([]autoscaling.OwnHook, error)
	// NotifiesOthers reports whether the hook notifies others than this agent.
	NotifiesOthers(ctx context.Context, group, hook string) (bool, error)
	// RolloutActive reports whether an instance refresh or a trigger replaces the instances of the group.
	RolloutActive(ctx context.Context, group string) (bool, error)
	MarkUnhealthy(ctx context.Context, instanceID string) error
}

// Instances are those of EC2.
type Instances interface {
	Describe(ctx context.Context, instanceID string) (ec2.Instance, error)
	Scheduled(ctx context.Context, instanceID string) (ec2.Schedule, error)
	// Schedules returns those of the instances for which something is scheduled, by one list of the Region.
	Schedules(ctx context.Context, instanceIDs []string) (map[string]ec2.Schedule, error)
	InReservation(ctx context.Context, reservationID string) ([]string, error)
	SpotRequest(ctx context.Context, instanceID string) (ec2.SpotRequest, error)
}

// Alarms are those of CloudWatch.
type Alarms interface {
	// IsInAlarm reports whether the alarm is in the state ALARM and is one on metrics of the instance.
	IsInAlarm(ctx context.Context, alarm, instanceID string) (bool, error)
}

// Nodes are those of the cluster.
type Nodes interface {
	// Find returns the Node that the cache has. It returns false, and an Unselected Node, if that is another agent's.
	Find(instanceID string) (node.Node, bool)
	// Lookup asks the API server. The error is node.ErrUnselected if the Node is another agent's.
	Lookup(ctx context.Context, instanceID string) (node.Node, error)
	Await(ctx context.Context, instanceID string, accept func(node.Node) bool) (node.Node, error)
	All() []node.Node
	// Managed returns how many Nodes have which Manager.
	Managed() map[node.Manager]int
	Cordon(ctx context.Context, n node.Node, reason node.Reason) (mark node.Mark, changed bool, err error)
	Uncordon(ctx context.Context, n node.Node, keep func() bool) (uncordoned bool, err error)
	Exclude(ctx context.Context, n node.Node) error
	RemoveCondition(n node.Node)
	// Announce records on the Node when its maintenance starts. It returns when the cache shows it.
	Announce(ctx context.Context, n node.Node, startsAt time.Time) error
	// EndMaintenance removes that record.
	EndMaintenance(ctx context.Context, n node.Node) error
	// ByHand returns a channel that receives after an annotation that asks for a drain was added or removed, and after
	// a node with a mark was uncordoned.
	ByHand() <-chan struct{}
	// Protect keeps the Cluster Autoscaler from scaling down the node during a rollout.
	Protect(ctx context.Context, n node.Node, group string) (protected bool, err error)
	Unprotect(ctx context.Context, n node.Node) (unprotected bool, err error)
	Protected() []node.ProtectedNode
}

// Drainer evicts the pods of a node.
type Drainer interface {
	Drain(ctx context.Context, t drain.Target) (drain.Report, error)
	// Unplaced returns how many pods of drained nodes have found no room on others.
	Unplaced(ctx context.Context) (pods int, err error)
	// AwaitPod returns nil when a pod is on the node that must leave it and that an earlier drain has not known.
	AwaitPod(ctx context.Context, node string, since time.Time, earlier *drain.Owners) error
}

// Launches knows whether a new Node is ready.
type Launches interface {
	// Wait returns nil when the node is ready. It passes changes of what the node lacks to report.
	Wait(ctx context.Context, nodeName string, report func(missing []string)) error
	// Missing returns what the node lacks, as the API server knows it, and which of it no other node has either.
	Missing(ctx context.Context, nodeName string) (missing, readyNowhere []string, err error)
}

// Autoscaler is the Deployment of the Cluster Autoscaler, which a trigger may have paused for a rollout.
type Autoscaler interface {
	String() string
	ResumeExpired(ctx context.Context) (*autoscaler.Pause, error)
}

// Observer records what happens. Its methods are called from several goroutines and must not block.
type Observer interface {
	EventReceived(m queue.Message, e event.Event)
	EventIgnored(e event.Event, why string)
	MessageRefused(m queue.Message, reason string, err error)
	Retrying(e event.Event, operation string, err error)

	TerminationStarted(e event.Event)
	TerminationEnded(e event.Event, outcome string, took time.Duration)
	// TerminationUnannounced records an instance that has left its group without an event.
	TerminationUnannounced(instanceID, group string)
	SpotStatusRead(e event.Event, status ec2.SpotStatus)
	SpotStatusFailed(e event.Event, err error, first bool)

	NodeAwaited(e event.Event)
	NodeCordoned(e event.Event, n node.Node, mark node.Mark)
	NodeUncordoned(n node.Node, why string)
	DrainStarted(e event.Event, n node.Node)
	DrainPostponed(n node.Node, p node.Postponement)
	DrainCutShort(e event.Event, n node.Node)
	// DrainInterrupted records what a drain did before this process stopped, or the drain was canceled.
	DrainInterrupted(e event.Event, n node.Node, report drain.Report)
	DrainCanceled(n node.Node, why string)
	NodeDrained(e event.Event, n node.Node, report drain.Report)

	LaunchStarted(e event.Event)
	LaunchWaiting(e event.Event, nodeName string, missing []string)
	LaunchUncordoned(e event.Event, n node.Node)
	LaunchOverdue(e event.Event, n node.Node, missing []string, outcome launch.Outcome)
	LaunchEnded(e event.Event, outcome launch.Outcome, took time.Duration)

	NodeProtected(n node.Node, group string)
	NodeUnprotected(n node.Node, group string)
	ProtectionFailed(nodeName, group string, err error)
	AutoscalerResumed(deployment, owner string, replicas int)
	AutoscalerFailed(deployment string, err error)

	Resynced(members, found, lost int)
	ResyncFailed(err error)
	AutoScalingFailed(operation string, err error)
	// NodesManaged records how many nodes have the manager; first, that there are some for the first time.
	NodesManaged(m node.Manager, nodes int, first bool)
}
