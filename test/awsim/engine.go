package awsim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Delays slow down what otherwise happens at once, as in AWS, or shorten what takes long.
type Delays struct {
	// Launch is how long an instance is Pending before its hooks, or its service, begin.
	Launch time.Duration
	// Terminate is how long a machine takes to shut down.
	Terminate time.Duration
	// Visible is how old what the API describes of groups and their instances is: its eventual consistency. The activities
	// of a group and its Instance Refreshes are not.
	Visible time.Duration
	// Appear is how long the API shows no trace of an instance that a group has decided to launch; about 10 s in
	// AWS. It precedes Launch.
	Appear time.Duration
	// Retain is how long an instance is in a Proceed state before it is retained.
	Retain time.Duration
	// Standby is how long an instance needs to enter Standby, or to leave it.
	Standby time.Duration
	// RefreshStart is how long an Instance Refresh is Pending; 5 to 10 s in AWS.
	RefreshStart time.Duration
	// RefreshGiveUp is how long an Instance Refresh may make no progress before it fails; an hour if zero.
	RefreshGiveUp time.Duration
}

// errClosing is the error of a wait that ends because the server is closed.
var errClosing = errors.New("awsim: the server was closed")

// engine is the state of Auto Scaling and of the machines of EC2, and what moves it: API calls, timers
// and the answers of Machines. It has no loop. Everything that changes state goes through update; nothing
// calls Machines or sends a message while it holds mu.
type engine struct {
	server *Server
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu         sync.Mutex
	closed     bool
	changed    chan struct{} // Closed, and replaced, by every update.
	after      []func()      // What update calls after it has released mu.
	delays     Delays
	rand       *rand.Rand
	groups     map[string]*group
	instances  map[string]*instance // All that ever were, by id.
	actions    []*action            // All that ever were, in order of their start.
	byToken    map[string]*action   // The same, by their tokens.
	topics     map[string][]subscription
	rules      []rule
	templates  []*template
	parameters map[string]string // Of Systems Manager, by name.
	subnets    map[string]Subnet // By id.
	settings   map[string]AccountSetting
	hidden     map[string]bool // Managed resources that EC2 hides, by id.
	clusters   map[string]*eksCluster
	releases   []Release // Of Amazon EKS optimized AMIs, in the order of their publication.
	alarms     alarms
	// The instance whose metric an alarm watches, by the alarm's name.
	alarmInstances map[string]string
	interruptions  []*interruption    // All interruptions that ever were announced, in order.
	changes        []*scheduledChange // The same for changes.
	launches       int                // Counts instances, so that each has its own address.

	components
}

// components are the parts of the engine. Each has all of the engine's state, and the methods for one
// concern.
type components struct {
	capacity  groupEngine
	fleet     fleetEngine
	hardware  machineEngine
	lifecycle hookEngine
	refreshes refreshEngine
	pools     warmPoolEngine
	volumes   rootVolumeEngine
	notices   noticeEngine
	catalog   templateEngine
	bus       eventBus
	managed   eksEngine
}

type (
	groupEngine    struct{ *engine } // Keeps each group at its desired capacity.
	fleetEngine    struct{ *engine } // Launches instances, and takes them out of their groups.
	machineEngine  struct{ *engine } // Boots, stops and terminates the machines of instances.
	hookEngine     struct{ *engine } // Runs lifecycle actions.
	refreshEngine  struct{ *engine } // Runs Instance Refreshes.
	warmPoolEngine struct{ *engine } // Fills, drains and replaces warm pools.
	noticeEngine   struct{ *engine } // Announces interruptions and scheduled changes.
	templateEngine struct{ *engine } // Resolves launch templates and mixed instances policies.
	eventBus       struct{ *engine } // Delivers notifications and events to queues.
	eksEngine      struct{ *engine } // Does what EKS does with managed node groups.
)

func newEngine(s *Server) *engine {
	ctx, cancel := context.WithCancel(s.ctx)
	e := &engine{
		server:     s,
		ctx:        ctx,
		cancel:     cancel,
		changed:    make(chan struct{}),
		rand:       rand.New(rand.NewPCG(s.opts.Seed, 0)),
		groups:     map[string]*group{},
		instances:  map[string]*instance{},
		byToken:    map[string]*action{},
		topics:     map[string][]subscription{},
		parameters: map[string]string{}, alarms: alarms{}, alarmInstances: map[string]string{},
		settings: map[string]AccountSetting{
			launchBeforeTerminate: {Name: launchBeforeTerminate, Value: "disabled"},
		},
		subnets: map[string]Subnet{}, hidden: map[string]bool{}, clusters: map[string]*eksCluster{},
	}
	e.components = components{
		groupEngine{e},
		fleetEngine{e},
		machineEngine{e},
		hookEngine{e},
		refreshEngine{e},
		warmPoolEngine{e},
		rootVolumeEngine{e},
		noticeEngine{e},
		templateEngine{e},
		eventBus{e},
		eksEngine{e},
	}
	return e
}

// close ends every timer and every wait, and returns when nothing runs any more.
func (a *engine) close() {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.cancel()
	a.work.Wait()
}

// update changes the state, wakes all waits, and then runs what change has added to after.
func (a *engine) update(change func()) {
	a.mu.Lock()
	change()
	a.describeAll()
	close(a.changed)
	a.changed = make(chan struct{})
	after := a.after
	a.after = nil
	a.mu.Unlock()
	for _, do := range after {
		do()
	}
}

// updateErr is update for a change that may be refused.
func (a *engine) updateErr(change func() error) error {
	var err error
	a.update(func() { err = change() })
	return err
}

// changeGroup is update for one group, which must exist.
func (a *engine) changeGroup(name string, change func(g *group) error) error {
	return a.updateErr(func() error {
		g, err := a.group(name)
		if err != nil {
			return err
		}
		return change(g)
	})
}

// changeInstance is update for one instance, which must exist.
func (a *engine) changeInstance(id string, change func(inst *instance)) error {
	return a.updateErr(func() error {
		inst, ok := a.instances[id]
		if !ok {
			return errNoInstance(id)
		}
		change(inst)
		return nil
	})
}

// wait blocks until done returns true. It calls done with mu held, at once and after every update.
func (a *engine) wait(ctx context.Context, done func() bool) error {
	for {
		a.mu.Lock()
		ok, changed := done(), a.changed
		a.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-a.ctx.Done():
			return errClosing
		}
	}
}

// later makes the current update call do after it has released mu, and before it returns. It needs mu.
func (a *engine) later(do func()) { a.after = append(a.after, do) }

// spawn runs do in a goroutine that close waits for. It needs mu.
func (a *engine) spawn(do func()) {
	if a.closed {
		return
	}
	a.work.Go(do)
}

// pause blocks for d, and reports whether the engine is still open.
func (a *engine) pause(d time.Duration) bool { return wait(a.ctx, d) }

// retry calls a method of Machines until it succeeds: an outage of the control plane must not leave an
// instance half launched or terminated.
func (a *engine) retry(what, instanceID string, call func() error) bool {
	for {
		err := call()
		if err == nil {
			return true
		}
		a.server.opts.Log("machine call failed", "call", what, "instance", instanceID, "err", err)
		if !a.pause(time.Second) {
			return false
		}
	}
}

// newInstanceID is the id of the group's next instance. A group of the same name may have been there before. It
// needs mu.
func (a *engine) newInstanceID(g *group) string {
	for n := g.made; ; n++ {
		id := fmt.Sprintf("i-0%016x", a.server.opts.source("instance", g.name, strconv.Itoa(n)).Uint64())
		if a.instances[id] == nil {
			return id
		}
	}
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K {
	return slices.Sorted(maps.Keys(m))
}
