package sim

import (
	"context"
	"errors"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/node-drainer/node-drainer/internal/retry"
	"github.com/node-drainer/node-drainer/test/sim/kube"
)

// machines are the instances of the world: it is the Machines of package awsim.
type machines struct {
	world  *world
	booted bool // the initial instances run: from now on a launch takes its time

	mu        sync.Mutex
	instances map[string]*machine
	launched  map[string]int // by group, during the run
}

// machine is the Node of an instance. The Node has the name of the instance.
type machine struct {
	id      string
	cluster *cluster
	group   Group
	endedAt time.Time // when the machine was terminated
	change  string    // the scheduled change that is announced
}

func nodeName(id string) types.NamespacedName { return types.NamespacedName{Name: id} }

// find returns a machine, or nil.
func (m *machines) find(id string) *machine {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.instances[id]
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

// groupOf returns the name of the group of an instance.
func (m *machines) groupOf(id string) string {
	for _, c := range m.world.spec.Clusters {
		for _, g := range c.Groups {
			for _, i := range m.world.aws.Instances(g.Name) {
				if i.ID == id {
					return g.Name
				}
			}
		}
	}
	return ""
}

// Launch creates the Node of an instance.
func (m *machines) Launch(ctx context.Context, id, zone string) error {
	c, g, ok := m.world.clusterOf(m.groupOf(id))
	if !ok {
		return nil // It left its group before it booted.
	}
	if m.booted {
		retry.Sleep(ctx, c.Timing.Boot)
	}
	one := &machine{id: id, cluster: c, group: g}
	m.mu.Lock()
	m.instances[id] = one
	if m.booted {
		m.launched[g.Name]++
	}
	broken := m.launched[g.Name] <= g.Broken && m.booted
	m.mu.Unlock()
	m.world.log.add("aws", "node registered", "node", id, "group", g.Name)
	return c.server.Create(newNode(one, zone, broken))
}

// newNode returns a Node that the controllers make Ready, unless it is broken.
func newNode(m *machine, zone string, broken bool) *corev1.Node {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: m.id, Labels: map[string]string{
			corev1.LabelTopologyZone: zone, "group": m.group.Name,
		}},
		Spec: corev1.NodeSpec{ProviderID: "aws:///" + zone + "/" + m.id},
	}
	if m.group.Team != "" {
		n.Labels["team"] = m.group.Team
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
	m.mu.Unlock()
	m.world.facts.announce(id, truth{kind: "ended", from: time.Now()})
	killed, err := m.Pods(ctx, id)
	one.cluster.controllers.StopKubelet(id)
	m.world.log.add("aws", "machine terminated", "node", id, "pods", killed)
	m.world.work.Go(func() {
		time.Sleep(one.cluster.Timing.Delete)
		kube.Remove[*corev1.Node](one.cluster.server, nodeName(id))
	})
	return killed, err
}

// Pods returns the pods on the Node of an instance, except those of DaemonSets.
func (m *machines) Pods(_ context.Context, id string) (names []string, err error) {
	one := m.find(id)
	if one == nil {
		return nil, errors.New("the instance has not registered")
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
