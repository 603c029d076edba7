package agent

import (
	"context"
	"errors"
	"sync"

	"github.com/node-drainer/node-drainer/internal/autoscaling"
	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/internal/node"
)

// departures finds instances that a hook of ours should have held, and that left their group without any event:
// a hook whose notification Auto Scaling cannot deliver ends at once, and neither a message nor an instance that
// waits is ever seen. It is used by one resync at a time; announce may be called by any goroutine.
type departures struct {
	*systems

	announced sync.Map          // ids of instances with an event
	watched   map[string]string // the group by instance id: nodes that were in service, and have not left
}

// announce records that an event reports the end of an instance's service.
func (d *departures) announce(e event.Event) {
	switch e.Kind {
	case event.LifecycleLaunching, event.TestNotification, event.Notice:
	default:
		d.announced.Store(e.InstanceID, true)
	}
}

// reset forgets all: the process that led in between may have handled the events.
func (d *departures) reset() {
	d.announced.Clear()
	d.watched = nil
}

// check reports the instances that have left since the last resync. One that it cannot ask AWS about is not
// reported.
func (d *departures) check(ctx context.Context, nodes []node.Node, members map[string]autoscaling.Member) error {
	before := d.watched
	d.watched = inService(nodes, members)
	var errs []error
	for id, group := range before {
		state := members[id].State
		switch {
		case d.watched[id] != "":
		case !state.Gone() && !state.Unknown(): // such as Terminating, before the hook
			d.watched[id] = group
		case !d.isAnnounced(id):
			errs = append(errs, d.report(ctx, id, group, state))
		}
	}
	watched := map[any]bool{}
	for id := range d.watched {
		watched[id] = true
	}
	deleteOthers(&d.announced, watched)
	return errors.Join(errs...)
}

// inService returns the groups by instance id of the nodes that are in service, and not marked.
func inService(nodes []node.Node, members map[string]autoscaling.Member) map[string]string {
	groups := map[string]string{}
	for _, n := range nodes {
		if m := members[n.InstanceID]; m.State == "InService" && n.Mark.Since.IsZero() && !n.Unselected {
			groups[n.InstanceID] = m.Group
		}
	}
	return groups
}

func (d *departures) isAnnounced(instanceID string) bool {
	_, ok := d.announced.Load(instanceID)
	return ok
}

// report reports the instance, unless no hook of ours should have held it, or it was detached and runs on.
func (d *departures) report(ctx context.Context, instanceID, group string, state autoscaling.State) error {
	if state.Unknown() {
		i, err := d.instances.Describe(ctx, instanceID)
		if err != nil || i.State == "running" {
			return err
		}
	}
	hooks, err := d.groups.OwnHooks(ctx, group, autoscaling.Terminating)
	if err == nil && len(hooks) > 0 {
		d.observer.TerminationUnannounced(instanceID, group)
	}
	return err
}

// deleteOthers deletes all keys of m that are not in keys.
func deleteOthers(m *sync.Map, keys map[any]bool) {
	m.Range(func(key, _ any) bool {
		if !keys[key] {
			m.Delete(key)
		}
		return true
	})
}
