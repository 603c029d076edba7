package cluster

import (
	"context"
	"crypto/rand"
	"encoding/hex"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Machines makes nodes of instances: what a cloud that launches and terminates needs to know of a
// cluster.
type Machines struct {
	cluster  *Cluster
	template Node
}

// Machines returns machines whose nodes have the template's labels, taints and the like; its Name,
// InstanceID and Zone are not used.
func (c *Cluster) Machines(template Node) *Machines {
	return &Machines{cluster: c, template: template}
}

// Launch adds the node of an instance and returns when it is Ready.
func (m *Machines) Launch(ctx context.Context, instanceID, zone string) error {
	n := m.template
	n.Name, n.InstanceID, n.Zone = "", instanceID, zone
	return m.cluster.AddNode(ctx, n)
}

// Terminate removes the node of an instance, and returns the pods that this killed. An instance that
// has no node kills none.
func (m *Machines) Terminate(ctx context.Context, instanceID string) (killed []string, err error) {
	killed, err = m.cluster.RemoveNode(ctx, NodeName(instanceID))
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return killed, err
}

// Pods returns the pods that a drain of the instance would still have to move.
func (m *Machines) Pods(ctx context.Context, instanceID string) ([]string, error) {
	return m.cluster.DrainablePods(ctx, NodeName(instanceID))
}

// NewInstanceID returns an EC2 instance id that nothing else has.
func NewInstanceID() string {
	var id [9]byte
	_, _ = rand.Read(id[:]) // It never fails.
	return "i-" + hex.EncodeToString(id[:])[:17]
}
