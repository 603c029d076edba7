package node

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
)

// MaintenanceAnnotation is the annotation of a Node whose instance has maintenance ahead. It stays until the
// maintenance has ended, so that no restart of the agent forgets a drain that starts only days later.
const MaintenanceAnnotation = "node-drainer.io/maintenance"

// announcedMaintenance is the value of MaintenanceAnnotation, as JSON.
type announcedMaintenance struct {
	InstanceID string    `json:"instance"`
	StartsAt   time.Time `json:"startsAt"`
}

// Postponement is why a Node is not drained yet.
type Postponement struct {
	Maintenance time.Time // when it starts; zero if the drain is for something else
	Until       time.Time // the drain starts then, if not before; zero if nothing requires that
	Busy        bool      // the drain waits for those of other Nodes
	NoRoom      bool      // pods of Nodes that were drained have found no room on others
}

// maintenance records announced maintenance on Nodes.
type maintenance struct {
	nodes      cache.Store // what the watch shows
	patcher    *patcher
	conditions *Conditions
	changed    atomic.Pointer[chan struct{}] // closed when the watch shows a new or changed Node
}

// Announce annotates the Node with the start of the maintenance, and returns when the watch shows it. Of two
// that are ahead the earlier is kept. The error is ErrGone if the Node no longer exists.
func (m *maintenance) Announce(ctx context.Context, node Node, startsAt time.Time) error {
	startsAt = startsAt.UTC().Truncate(time.Second)
	kept := startsAt
	_, err := m.patcher.patch(ctx, node, func(current *corev1.Node) patch {
		kept = startsAt
		if before := maintenanceOf(current); before.After(time.Now()) {
			kept = earliest(before, startsAt)
		}
		if kept.Equal(maintenanceOf(current)) {
			return nil
		}
		text, err := json.Marshal(announcedMaintenance{InstanceOf(current), kept})
		if err != nil {
			return nil // a text and a time always encode
		}
		return annotateMaintenance(string(text))
	})
	if err != nil {
		return err
	}
	return m.awaitShown(ctx, node, kept)
}

// awaitShown returns when the watch shows this maintenance of the Node, or no such Node.
func (m *maintenance) awaitShown(ctx context.Context, node Node, startsAt time.Time) error {
	for {
		changed := *m.changed.Load()
		current := cached(m.nodes, node.Name)
		if current == nil || string(current.UID) != node.UID || maintenanceOf(current).Equal(startsAt) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("wait until node %s shows its maintenance: %w", node.Name, context.Cause(ctx))
		}
	}
}

// EndMaintenance removes what Announce added, and the drain condition if the Node has no mark.
func (m *maintenance) EndMaintenance(ctx context.Context, node Node) error {
	marked := false
	_, err := m.patcher.patch(ctx, node, func(current *corev1.Node) patch {
		_, marked = MarkOf(current)
		if _, ok := current.Annotations[MaintenanceAnnotation]; !ok {
			return nil
		}
		return annotateMaintenance(nil)
	})
	if err == nil && !marked {
		m.conditions.remove(node.Name, node.UID)
	}
	return err
}

func annotateMaintenance(value any) patch {
	p := newPatch()
	p["metadata"]["annotations"] = map[string]any{MaintenanceAnnotation: value}
	return p
}

// maintenanceOf returns when the announced maintenance of the Node's instance starts; zero if none is
// announced. The annotation of another instance, whose Node had the same name, is ignored.
func maintenanceOf(node *corev1.Node) time.Time {
	var announced announcedMaintenance
	err := json.Unmarshal([]byte(Annotations(node, MaintenanceAnnotation)[MaintenanceAnnotation]), &announced)
	if err != nil || announced.InstanceID != InstanceOf(node) {
		return time.Time{}
	}
	return announced.StartsAt
}
