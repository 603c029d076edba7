package cluster

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Machines creates and removes the nodes of instances, for a simulated cloud that launches and terminates
// them.
type Machines struct {
	nodes    Nodes
	template Node

	mu     sync.Mutex
	boots  map[int]Boot
	broken map[string]bool // Instances that never become Ready.
}

// Boot is how a machine boots.
type Boot int

// The state of a machine's node after the machine has booted.
const (
	BootReady   Boot = iota // The node joins and becomes Ready.
	BootUnready             // The node joins, and is not Ready until the test calls MarkReady.
	BootLost                // The node never joins.
)

// Boot sets how the machines of one version of the launch template boot from now on. The default is
// BootReady.
func (m *Machines) Boot(version int, how Boot) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.boots[version] = how
}

// Machines returns machines whose nodes are created from the template, except its Name, InstanceID and Zone.
func (n Nodes) Machines(template Node) *Machines {
	return &Machines{nodes: n, template: template, boots: map[int]Boot{}, broken: map[string]bool{}}
}

// Launch adds the node of an instance and returns when it is Ready.
func (m *Machines) Launch(ctx context.Context, instanceID, zone string) error {
	return m.LaunchVersion(ctx, instanceID, zone, 0)
}

// LaunchVersion is Launch for one version of the launch template; see Boot. It does not wait for a node that
// never becomes Ready.
func (m *Machines) LaunchVersion(ctx context.Context, instanceID, zone string, version int) error {
	m.mu.Lock()
	how := m.boots[version]
	m.broken[instanceID] = how != BootReady
	m.mu.Unlock()
	if how == BootLost {
		return nil
	}
	n := m.template
	n.Name, n.InstanceID, n.Zone = "", instanceID, zone
	n.Unready = n.Unready || how == BootUnready
	return m.nodes.AddNode(ctx, n)
}

// Stop makes the node of an instance NotReady, as when the machine is stopped. The Node and its pods remain.
func (m *Machines) Stop(ctx context.Context, instanceID string) error {
	err := m.nodes.MarkUnready(ctx, NodeName(instanceID))
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// Start makes the node of a stopped instance Ready again, unless it never becomes Ready.
func (m *Machines) Start(ctx context.Context, instanceID string) error {
	m.mu.Lock()
	broken := m.broken[instanceID] || m.template.Unready
	m.mu.Unlock()
	if broken {
		return nil
	}
	return m.nodes.MarkReady(ctx, NodeName(instanceID))
}

// Terminate removes the node of an instance, and returns the pods that this killed. An instance without a
// node kills none, except those that remain after an earlier Terminate failed.
func (m *Machines) Terminate(ctx context.Context, instanceID string) (killed []string, err error) {
	killed, err = m.nodes.RemoveNode(ctx, NodeName(instanceID))
	if apierrors.IsNotFound(err) {
		return m.nodes.removePods(ctx, NodeName(instanceID))
	}
	return killed, err
}

// Pods returns the pods that a drain of the instance would still have to evict.
func (m *Machines) Pods(ctx context.Context, instanceID string) ([]string, error) {
	return m.nodes.DrainablePods(ctx, NodeName(instanceID))
}

// NewInstanceID returns a unique EC2 instance ID.
func NewInstanceID() string {
	var id [9]byte
	_, _ = rand.Read(id[:]) // It never fails.
	return "i-" + hex.EncodeToString(id[:])[:17]
}
