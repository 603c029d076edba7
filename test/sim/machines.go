package sim

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/node-drainer/node-drainer/internal/retry"
	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/sim/kube"
)

// machines are the instances of the world: it is the Machines of package awsim.
type machines struct {
	world  *world
	booted bool // the initial instances run: from now on a launch takes its time

	mu        sync.Mutex
	instances map[string]*machine
	launched  map[string]int             // by group, during the run
	early     map[string][]time.Duration // by group: the notices of interruptions of its next launches
}

// machine is the Node of an instance. The Node has the name of the instance.
type machine struct {
	id      string
	cluster *cluster
	group   Group
	isNode  bool      // it has registered
	began   time.Time // when it registered
	endedAt time.Time // when the machine was terminated
	stopped bool
	first   *corev1.Node // what it registers with
	change  string       // the scheduled change that is announced
	// another instance has a Node of the name of this one
	replaced bool
}

func nodeName(id string) types.NamespacedName { return types.NamespacedName{Name: id} }

// find returns a machine, or nil.
func (m *machines) find(id string) *machine {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.instances[id]
}

// isNode reports whether the machine of an instance has registered.
func (m *machines) isNode(id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	one := m.instances[id]
	return one != nil && one.isNode
}

// mostLaunched returns how many instances the group has launched that has launched most.
func (m *machines) mostLaunched() (most int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, n := range m.launched {
		most = max(most, n)
	}
	return most
}

// Launch starts the machine of an instance. Its Node registers when it has booted, which a launch hook sees.
func (m *machines) Launch(ctx context.Context, id, zone string) error {
	name, _, _ := m.world.aws.Member(id)
	c, g, ok := m.world.clusterOf(name)
	if !ok {
		return nil // It left its group before it was launched.
	}
	one := &machine{id: id, cluster: c, group: g}
	m.mu.Lock()
	m.instances[id] = one
	if m.booted {
		m.launched[g.Name]++
	}
	n := newNode(one, zone, m.booted && m.launched[g.Name] <= g.Broken)
	m.mu.Unlock()
	if !m.booted {
		return m.register(one, n)
	}
	m.world.work.Go(func() { m.interruptEarly(id, g.Name) }) //nolint:contextcheck // What it starts lives until Close.
	one.first = n
	m.world.work.Go(func() {
		retry.Sleep(ctx, c.Timing.Boot)
		_ = m.register(one, n) // The API server of the model accepts every Node.
	})
	return nil
}

// register creates the Node of a machine, unless that has ended or is stopped.
func (m *machines) register(one *machine, n *corev1.Node) error {
	m.mu.Lock()
	registers := one.endedAt.IsZero() && !one.stopped && !one.isNode
	if registers {
		one.isNode, one.began = true, time.Now()
	}
	m.mu.Unlock()
	if !registers {
		return nil
	}
	m.world.log.add("aws", "node registered", "node", one.id, "group", one.group.Name)
	return one.cluster.server.Create(n)
}

// interruptEarly interrupts an instance that launches, before it registers, if a step has asked for that.
func (m *machines) interruptEarly(id, group string) {
	m.mu.Lock()
	notices := m.early[group]
	if len(notices) > 0 {
		m.early[group] = notices[1:]
	}
	m.mu.Unlock()
	if len(notices) == 0 {
		return
	}
	time.Sleep(time.Second)
	if m.world.aws.Interrupt(id, notices[0]) == nil {
		now := time.Now()
		m.world.log.add("step", "interrupt", "node", id, "for", notices[0])
		m.world.facts.announce(id, truth{kind: "interrupt", from: now, ends: now.Add(notices[0])})
	}
}

// newNode returns a Node that the controllers make Ready, unless it is broken.
func newNode(m *machine, zone string, broken bool) *corev1.Node {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: m.id, Labels: map[string]string{
			corev1.LabelTopologyZone: zone, corev1.LabelHostname: m.id, "group": m.group.Name,
		}},
		Spec: corev1.NodeSpec{ProviderID: "aws:///" + zone + "/" + m.id},
	}
	n.Status.NodeInfo.BootID = newBootID()
	if m.group.Team != "" {
		n.Labels["team"] = m.group.Team
	}
	if m.cluster != nil { // else the node is nobody's
		for _, i := range m.cluster.Installs {
			if i.manages(m.group) {
				maps.Copy(n.Labels, i.labels())
			}
		}
	}
	if broken {
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse}}
	}
	return n
}

// Terminate ends the machine of an instance, and returns the pods that were running on it. Its Node is deleted later.
func (m *machines) Terminate(ctx context.Context, id string) ([]string, error) {
	one := m.find(id)
	if one == nil {
		return nil, nil
	}
	m.mu.Lock()
	one.endedAt = time.Now()
	replaced := one.replaced
	m.mu.Unlock()
	m.world.facts.announce(id, truth{kind: "ended", from: time.Now()})
	killed, err := m.Pods(ctx, id)
	one.stopKubelet(m)
	m.world.log.add("aws", "machine terminated", "node", id, "pods", killed)
	if replaced {
		return killed, err
	}
	m.world.work.Go(func() {
		time.Sleep(one.cluster.Timing.Delete)
		kube.Remove[*corev1.Node](one.cluster.server, nodeName(id))
	})
	return killed, err
}

// Stop stops the machine of an instance. Its Node stays. One that has none yet registers when the machine is started.
func (m *machines) Stop(_ context.Context, id string) error {
	if one := m.find(id); one != nil {
		m.mu.Lock()
		one.stopped = true
		m.mu.Unlock()
		m.world.facts.announce(id, truth{kind: "stopped", from: time.Now()})
		m.world.log.add("aws", "machine stopped", "node", id)
		one.stopKubelet(m)
	}
	return nil
}

// Start boots a machine that was stopped.
func (m *machines) Start(_ context.Context, id string) error {
	if one := m.find(id); one != nil {
		m.mu.Lock()
		one.stopped = false
		m.mu.Unlock()
	}
	m.restart(id)
	return nil
}

// Reboot has a machine boot from another root volume, after a while in which its Node looks as before.
func (m *machines) Reboot(_ context.Context, id string) error {
	if one := m.find(id); one != nil {
		m.world.work.Go(func() {
			time.Sleep(one.cluster.Timing.Boot)
			m.restart(id)
		})
	}
	return nil
}

// restart boots a machine again. An instance that terminates before it is in service does not return.
func (m *machines) restart(id string) {
	if one := m.find(id); one != nil && one.endedAt.IsZero() {
		terminates := func(a awsim.Action) bool {
			return a.InstanceID == id && a.Transition == awsim.Terminating && a.ClosedAt.IsZero()
		}
		if !slices.ContainsFunc(m.world.aws.Ledger(), terminates) {
			m.world.facts.returned(id)
		}
		m.world.log.add("aws", "machine booted", "node", id)
		m.world.facts.booted(id)
		switch {
		case !m.isNode(id):
			m.world.work.Go(func() {
				time.Sleep(one.cluster.Timing.Boot)
				_ = m.register(one, one.first)
			})
		case !one.isReplaced(m):
			one.cluster.controllers.Restart(id, newBootID())
		}
	}
}

// isReplaced reports whether the Node that has the name of the machine is that of another instance.
func (one *machine) isReplaced(m *machines) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return one.replaced
}

// stopKubelet ends the kubelet of a machine.
func (one *machine) stopKubelet(m *machines) {
	if !one.isReplaced(m) {
		one.cluster.controllers.StopKubelet(one.id)
	}
}

// newBootID returns another boot ID each time.
func newBootID() string { return time.Now().String() }

// Pods returns the pods on the Node of an instance, except those of DaemonSets.
func (m *machines) Pods(_ context.Context, id string) (names []string, err error) {
	one := m.find(id)
	if one == nil {
		return nil, errors.New("the instance has not registered")
	}
	if one.isReplaced(m) {
		return nil, nil
	}
	for _, p := range one.cluster.server.PodsOn(id) {
		if mustLeave(p) {
			names = append(names, p.Name)
		}
	}
	return names, nil
}

// mustLeave reports whether a pod has to leave a node before its instance ends.
func mustLeave(p *corev1.Pod) bool {
	return !isFinished(p) && !isOfDaemonSet(p)
}

func isOfDaemonSet(p *corev1.Pod) bool {
	owner := metav1.GetControllerOf(p)
	return owner != nil && owner.Kind == "DaemonSet"
}
