// Package agent handles the events that end or start instances: it drains a node before its instance
// terminates, and holds a launching instance until its node is ready. A resync finds the instances that no
// message reported.
package agent

import (
	"context"
	"sync"
	"time"

	"github.com/node-drainer/node-drainer/internal/ec2"
	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/internal/node"
	"github.com/node-drainer/node-drainer/pkg/drain"
)

// AutoScaling is what the agent calls of EC2 Auto Scaling.
type AutoScaling interface {
	hookFilter
	lifecycleActions
	groupStates
	replacer
	rollouts
	groupMembers
	groupsOfInstances
}

// Instances is what the agent calls of EC2.
type Instances interface {
	Describe(ctx context.Context, instanceID string) (ec2.Instance, error)
	Scheduled(ctx context.Context, instanceID string) (ec2.Schedule, error)
	// Schedules returns those of the instances for which something is scheduled, by one list of the Region.
	Schedules(ctx context.Context, instanceIDs []string) (map[string]ec2.Schedule, error)
	InReservation(ctx context.Context, reservationID string) ([]string, error)
	spotRequests
}

// Alarms is what the agent calls of CloudWatch.
type Alarms interface {
	// IsInAlarm reports whether the alarm is in the state ALARM and is one on metrics of the instance.
	IsInAlarm(ctx context.Context, alarm, instanceID string) (bool, error)
}

// Nodes is what the agent calls of the cluster's Nodes.
type Nodes interface {
	terminatingNodes
	cordonedNodes
	launchingNodes
	protectedNodes
	allNodes
	requestedNodes
}

// Drainer evicts the pods of a node.
type Drainer interface {
	Drain(ctx context.Context, t drain.Target) (drain.Report, error)
	// AwaitPod returns nil when a pod is on the node that must leave it and that an earlier drain has not known.
	AwaitPod(ctx context.Context, node string, since time.Time, earlier *drain.Owners) error
}

// Observer records what happens. Its methods are called from several goroutines and must not block.
type Observer interface {
	eventObserver
	terminationObserver
	cordonObserver
	retryObserver
	maintenanceObserver
	launchObserver
	protectionObserver
	resyncObserver
	spotObserver
	departureObserver
}

// Outcome is how a termination ended.
type Outcome string

// The outcomes of a termination.
const (
	Drained      Outcome = "drained"       // the node was empty when the lifecycle action was completed
	LeftBehind   Outcome = "left-behind"   // the deadline passed while pods were still on the node
	NodeLost     Outcome = "node-lost"     // the same, but the machine or its kubelet had failed before
	CutShort     Outcome = "cut-short"     // the lifecycle action ended before the drain did
	Cordoned     Outcome = "cordoned"      // the node was cordoned and keeps its pods, as configured
	Replaced     Outcome = "replaced"      // the group replaces the instance, and its hook has the node drained
	Postponed    Outcome = "postponed"     // the node is drained later, and has the announcement of the event
	Canceled     Outcome = "canceled"      // AWS or a user canceled the event, or the instance launches again
	Unregistered Outcome = "unregistered"  // the instance has no Node
	Gone         Outcome = "gone"          // the lifecycle action or the instance ended before the drain began
	Unconfirmed  Outcome = "unconfirmed"   // AWS contradicts the message
	OtherCluster Outcome = "other-cluster" // the instance belongs to another cluster
	OtherAgent   Outcome = "other-agent"   // another agent handles the node or the hook
	Interrupted  Outcome = "interrupted"   // this process is stopping; another one continues
)

// Outcomes lists all outcomes, so that counters can start at zero for each.
func Outcomes() []string {
	return []string{
		string(Drained), string(LeftBehind), string(NodeLost), string(CutShort), string(Cordoned), string(Replaced),
		string(Postponed), string(Canceled), string(Unregistered), string(Gone), string(Unconfirmed),
		string(OtherCluster), string(OtherAgent), string(Interrupted),
	}
}

// Config configures an Agent.
type Config struct {
	ClusterName         string
	ConfirmTimeout      time.Duration // how long AWS may contradict a message before the message is dropped
	RegistrationTimeout time.Duration // how long an instance that terminates may take to register as a Node
	DrainTimeout        time.Duration // from the cordon of a node to the end of its drain
	ResyncInterval      time.Duration
	Events              event.Config // what to do about events without a lifecycle hook
	SomeNodes           bool         // NODE_SELECTOR is set: other agents manage the other nodes of the cluster
	DryRun              bool         // read, decide and log everything; change nothing
	Launch              LaunchConfig
	Autoscaler          Autoscaler // nil unless AUTOSCALER_DEPLOYMENT names one

	NodeName string // the node that this process runs on; empty if unknown
	// HandOver is called with the UID of that node before it is drained. It returns true if another replica
	// takes over: then the contexts of all work in this process end soon. It may be nil.
	HandOver func(nodeUID string) bool
}

// Agent handles messages, and the instances that no message reported. Make it with New.
type Agent struct {
	dryRun     bool
	hooks      hookFilter
	observer   eventObserver
	terminator *terminator
	notices    *noticeHandler
	launcher   *launcher
	resyncer   *resyncer
	lost       *lostMessages
	late       *latePods
	requested  *requestedDrains
}

// New returns an Agent.
func New(
	cfg Config, groups AutoScaling, instances Instances, alarms Alarms, nodes Nodes, drainer Drainer,
	launches Launches, o Observer,
) *Agent {
	if cfg.DryRun {
		groups, nodes, drainer = dryAutoScaling{groups}, dryNodes{nodes}, dryDrainer{drainer}
		cfg.HandOver = nil
	}
	retries := retrier{o}
	confirmer := &confirmer{
		cfg: cfg, groups: groups, instances: instances, alarms: alarms, nodes: nodes, actions: groups, retries: retries,
	}
	t := &terminator{
		cfg: cfg, actions: groups, nodes: nodes, drainer: drainer, observer: o, retries: retries,
		confirmer: confirmer, inflight: new(inflight), drains: new(sharedDrains), history: new(drainHistory),
		completed: new(completedActions),
	}
	t.cordoner = &cordoner{
		cfg: cfg, actions: groups, groups: groups, instances: instances, nodes: nodes, observer: o, retries: retries,
		drains: t.drains, history: t.history,
	}
	l := &launcher{
		cfg: cfg.Launch, actions: groups, groups: groups, nodes: nodes, instances: instances, launches: launches, observer: o,
		retries: retries, confirmer: confirmer, inflight: t.inflight, completed: t.completed,
		drainNode: t.drainNode, protector: &protector{groups: groups, nodes: nodes, observer: o},
	}
	a := &Agent{dryRun: cfg.DryRun, hooks: groups, observer: o, terminator: t, launcher: l, lost: &lostMessages{}}
	a.notices = newNoticeHandler(t, groups, instances, nodes, o)
	a.late = &latePods{cfg: cfg, nodes: nodes, drainer: drainer, history: t.history, drain: a.handleEvent}
	a.requested = &requestedDrains{
		cfg: cfg, nodes: nodes, groups: groups, cordoner: t.cordoner, inflight: t.inflight, drain: a.handleEvent,
	}
	a.resyncer = &resyncer{
		cfg: cfg, groups: groups, instances: instances, nodes: nodes, observer: o, handle: a.handleEvent,
		launchStart: l.startOf,
		confirmer:   confirmer, cordoner: t.cordoner, protector: l.protector, inflight: t.inflight, drains: t.drains,
		history: t.history, completed: t.completed, lost: a.lost,
		reported:   map[node.Manager]bool{},
		departures: &departures{groups: groups, instances: instances, observer: o}, maintenance: a.notices.maintenance,
	}
	return a
}

// newNoticeHandler returns a noticeHandler that drains nodes with t.
func newNoticeHandler(
	t *terminator, groups AutoScaling, instances Instances, nodes Nodes, o Observer,
) *noticeHandler {
	h := &noticeHandler{
		cfg: t.cfg, groups: groups, instances: instances, nodes: nodes, observer: o, retries: t.retries, terminator: t,
		spot:     &spotWarnings{requests: instances, nodes: nodes, observer: o},
		requests: &requestLimit{groups: groups, retries: t.retries, dryRun: t.cfg.DryRun},
		awaited:  make(awaitedNodes, mostAwaited),
	}
	h.maintenance = &maintenanceDrains{
		cfg: t.cfg, nodes: nodes, observer: o, inflight: t.inflight, history: t.history,
		changed: make(chan struct{}, 1),
		drain:   func(ctx context.Context, e event.Event) error { return h.run(ctx, e, h.actAnnounced) },
	}
	return h
}

// Run resyncs at once and after every ResyncInterval, and starts the drains that wait for their time or for
// late pods, until ctx ends. It returns when all work that it started has ended.
func (a *Agent) Run(ctx context.Context) error {
	var drains sync.WaitGroup
	drains.Go(func() { a.notices.maintenance.run(ctx) })
	drains.Go(func() { a.late.run(ctx) })
	drains.Go(func() { a.requested.run(ctx) })
	defer drains.Wait()
	return a.resyncer.run(ctx)
}
