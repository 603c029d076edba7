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

	mu      sync.Mutex
	unready map[int]bool    // By version of the launch template.
	broken  map[string]bool // Instances that never become Ready.
}

// SetUnready sets whether the nodes of machines of one version of the launch template, which are launched from now
// on, stay NotReady until the test calls MarkReady.
func (m *Machines) SetUnready(version int, unready bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.unready[version] = unready
}

// Machines returns machines whose nodes are created from the template, except its InstanceID and Zone.
func (n Nodes) Machines(template Node) *Machines {
	return &Machines{nodes: n, template: template, unready: map[int]bool{}, broken: map[string]bool{}}
}

// Launch adds the node of an instance and returns when it is Ready.
func (m *Machines) Launch(ctx context.Context, instanceID, zone string) error {
	return m.LaunchVersion(ctx, instanceID, zone, 0)
}

// LaunchVersion is Launch for one version of the launch template; see SetUnready. It does not wait for a node
// that never becomes Ready.
func (m *Machines) LaunchVersion(ctx context.Context, instanceID, zone string, version int) error {
	n := m.template
	n.InstanceID, n.Zone = instanceID, zone
	m.mu.Lock()
	n.Unready = n.Unready || m.unready[version]
	m.broken[instanceID] = n.Unready
	m.mu.Unlock()
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
	broken := m.broken[instanceID]
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
