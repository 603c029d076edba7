// Package agent handles the events that end or start instances: it drains a node before its instance
// terminates, and holds a launching instance until its node is ready. A resync finds the instances that no
// message reported.
package agent

import (
	"context"
	"sync"
	"time"

	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/internal/node"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

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
	Canceled     Outcome = "canceled"      // AWS or a user canceled it, the instance launches again, or it waited too long
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
	Events              event.Config   // what to do about events without a lifecycle hook
	MaxConcurrent       refresh.Amount // of the nodes: how many are drained at once for what can wait
	MaxPerZone          refresh.Amount // the same of those in one Availability Zone
	SomeNodes           bool           // NODE_SELECTOR is set: other agents manage the other nodes of the cluster
	DryRun              bool           // read, decide and log everything; change nothing
	Launch              LaunchConfig
	Autoscaler          Autoscaler // nil unless AUTOSCALER_DEPLOYMENT names one

	NodeName string // the node that this process runs on; empty if unknown
	// HandOver is called with the UID of that node before it is drained. It returns true if another replica
	// takes over: then the contexts of all work in this process end soon. It may be nil.
	HandOver func(nodeUID string) bool
}

// Agent handles messages, and the instances that no message reported. Make it with New.
type Agent struct {
	*systems

	notices  *noticeHandler
	resyncer *resyncer
	records  *records
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
	sys := &systems{cfg, groups, instances, alarms, nodes, drainer, launches, o}
	l := &launcher{sys}
	inTurn := &turns{
		nodes: nodes, drainer: drainer, all: cfg.MaxConcurrent, zonal: cfg.MaxPerZone,
		begun: map[string]string{}, waiting: map[string]bool{}, asking: make(chan struct{}, 1),
	}
	r := &records{
		actor: &actor{
			systems: sys, confirmer: &confirmer{sys, inTurn}, spot: &spotWarnings{systems: sys},
			alarms: &alarmTurns{systems: sys}, launcher: l, protector: &protector{sys}, doers: doers(),
			turns: inTurn,
		},
		policy: policy{
			events: cfg.Events, drainTimeout: cfg.DrainTimeout, confirmTimeout: cfg.ConfirmTimeout,
			resyncInterval: cfg.ResyncInterval, launch: cfg.Launch, dryRun: cfg.DryRun,
		},
	}
	a := &Agent{systems: sys, records: r}
	a.notices = &noticeHandler{systems: sys, records: r, awaited: make(awaitedNodes, mostAwaited)}
	a.resyncer = &resyncer{
		systems: sys, handle: a.handleEvent, launchStart: l.startOf, records: r, reported: map[node.Manager]bool{},
		departures: &departures{systems: sys},
	}
	return a
}

// Run resyncs at once and after every ResyncInterval, and looks at the nodes whose annotation asks for a drain, until
// ctx ends. It returns when all work that it started has ended.
func (a *Agent) Run(ctx context.Context) error {
	defer func() { a.records.stop(context.Cause(ctx)) }()
	a.records.turns.wake = func(id string) {
		a.records.working.Go(func() { a.records.of(id).wake(ctx) })
	}
	var requests sync.WaitGroup
	requests.Go(func() { a.watchRequests(ctx) })
	defer requests.Wait()
	return a.resyncer.run(ctx)
}

// watchRequests looks at nodes when the annotation that asks for their drain was added or removed, or they were
// uncordoned.
func (a *Agent) watchRequests(ctx context.Context) {
	for {
		for _, n := range a.nodes.All() {
			isMarked := n.Mark.Reason == string(event.DrainRequested)
			if n.DrainRequested || n.Uncordoned || isMarked || a.records.isRequested(n.InstanceID) {
				a.records.of(n.InstanceID).wake(ctx)
			}
		}
		select {
		case <-a.nodes.ByHand():
		case <-ctx.Done():
			return
		}
	}
}
