package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/node-drainer/node-drainer/internal/autoscaling"
	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/internal/node"
	"github.com/node-drainer/node-drainer/internal/retry"
	"github.com/node-drainer/node-drainer/internal/text"
)

// firstResyncPause is the pause after a resync that failed, which asks for all instances, and may have found some whose
// hooks end soon.
const firstResyncPause = 2 * time.Second

// resyncer finds what no message reported: messages get lost, queues are purged, permissions are revoked.
type resyncer struct {
	*systems

	handle      func(context.Context, event.Event) error
	launchStart func(context.Context, event.Event) time.Time
	records     *records
	departures  *departures

	handling sync.WaitGroup // events that a resync found
	reported map[node.Manager]bool
	dryFound map[string]bool // by UID: nodes of whose maintenance a dry run has said what it would do
}

// run resyncs at once and after every ResyncInterval, sooner after a failure, until ctx ends. It returns when
// all work that it started has ended.
func (r *resyncer) run(ctx context.Context) error {
	r.records.reset()
	r.departures.reset()
	r.dryFound = map[string]bool{}
	defer r.handling.Wait()
	backoff := retry.Backoff(firstResyncPause, r.cfg.ResyncInterval)
	for pauses := backoff; ; {
		pause := r.cfg.ResyncInterval
		if unread, failed := r.resync(ctx); unread != nil || failed != nil {
			reportFailures(r.observer, unread, failed)
			pause = min(pauses.Step(), pause)
		} else {
			pauses = backoff
		}
		if !retry.Sleep(ctx, pause) {
			return context.Cause(ctx)
		}
	}
}

// resync checks every instance of the cluster once. An error of Auto Scaling (unread) costs only those that it
// concerns.
func (r *resyncer) resync(ctx context.Context) (unread, failed error) {
	nodes := r.nodes.All()
	ids := make([]string, len(nodes))
	for i, n := range nodes {
		ids[i] = n.InstanceID
	}
	members, unread := r.groups.Members(ctx, r.cfg.ClusterName, ids)
	waiting, err := r.waitingInstances(ctx, members)
	unread = errors.Join(unread, err)
	unknown := func(instanceID string) bool {
		m, described := members[instanceID]
		return unread != nil && (!described || m.State == autoscaling.Undescribed || m.State.Waiting())
	}
	found, lost := 0, r.records.takeLost()
	for _, e := range waiting {
		if !r.records.hasCompleted(e) && !r.records.has(e) {
			found++
			n, _ := r.nodes.Find(e.InstanceID)
			if n.Mark.Hook != hookOf(e) { // else its message was received
				r.records.setFound(e)
			}
			r.start(ctx, e)
		}
	}
	r.records.forget(nodes, waiting, unknown)
	r.observer.Resynced(len(members), found, lost)
	r.reportManaged()
	r.records.protector.unprotectFinished(ctx)
	r.resumeAutoscaler(ctx)
	r.look(ctx, nodes, members)
	return unread, errors.Join(r.departures.check(ctx, nodes, members), r.checkMaintenance(ctx, nodes),
		r.findMaintenance(ctx, nodes))
}

// reportManaged reports the nodes that others manage, and each of their managers once.
func (r *resyncer) reportManaged() {
	counts := r.nodes.Managed()
	for _, m := range node.Managers() {
		first := counts[m] > 0 && !r.reported[m]
		r.observer.NodesManaged(m, counts[m], first)
		if first {
			r.reported[m] = true
		}
	}
}

// checkMaintenance has the drains for maintenance canceled that EC2 no longer has scheduled: the message that says so
// may be lost, or never sent. What EC2 has just scheduled it may not list yet. It asks for each node whose mark says
// that it is being drained, so that a mark that is not true keeps no other node waiting for its turn.
func (r *resyncer) checkMaintenance(ctx context.Context, nodes []node.Node) error {
	draining := slices.DeleteFunc(slices.Clone(nodes), func(n node.Node) bool {
		isOver := r.records.turns.isFinished(n) && !r.records.has(eventOfMark(n))
		return !isDrainedForMaintenance(n) || isOver
	})
	return forEach(draining, func(n node.Node) error {
		a, err := r.records.confirmer.askSchedule(ctx, n.InstanceID)
		isNew := time.Since(n.Mark.Since) < r.cfg.ConfirmTimeout
		if err == nil && a.contradicts() && !isNew && r.records.has(eventOfMark(n)) {
			r.start(ctx, event.Event{Kind: event.ScheduledChangeCanceled, InstanceID: n.InstanceID, At: time.Now()})
		}
		return err
	})
}

// findMaintenance starts what the message about scheduled maintenance starts: it may be lost. The handler asks EC2
// again, as for a message.
func (r *resyncer) findMaintenance(ctx context.Context, nodes []node.Node) error {
	unannounced := r.unannounced(nodes)
	if len(unannounced) == 0 {
		return nil
	}
	ids := make([]string, len(unannounced))
	for i, n := range unannounced {
		ids[i] = n.InstanceID
	}
	scheduled, err := r.instances.Schedules(ctx, ids)
	for _, n := range unannounced {
		if s := scheduled[n.InstanceID]; s.Any && !r.dryFound[n.UID] {
			r.dryFound[n.UID] = r.cfg.DryRun
			n.Maintenance = s.NotBefore
			r.start(ctx, maintenanceOf(n, time.Now()))
		}
	}
	return err
}

// start handles an event that no message reported, in the background.
func (r *resyncer) start(ctx context.Context, e event.Event) {
	r.handling.Go(func() {
		if e.Kind == event.LifecycleLaunching {
			e.At = r.launchStart(ctx, e)
		}
		err := r.handle(ctx, e)
		switch {
		case err == nil || ctx.Err() != nil:
		case errors.Is(err, node.ErrUnselected): // the instance has registered meanwhile
			r.records.setReceived(e) // its message is for another agent, perhaps
		default:
			r.observer.ResyncFailed(err)
		}
	})
}

// waitingInstances returns an event for each instance and each of our hooks that may hold it. It leaves out
// instances whose Nodes are another agent's.
func (r *resyncer) waitingInstances(
	ctx context.Context, members map[string]autoscaling.Member,
) ([]event.Event, error) {
	var events []event.Event
	var errs []error
	for _, m := range members {
		e, ok := eventOfMember(m)
		n, _ := r.nodes.Find(m.InstanceID)
		if !ok || n.Unselected {
			continue
		}
		if isMarked := strings.HasPrefix(n.Mark.Hook, m.Group+"/"); e.Destination == event.PlaceWarmPool && !isMarked {
			kind, err := r.kindIntoPool(ctx, e, m.Group)
			if err != nil || kind == "" {
				errs = append(errs, err)
				continue
			}
			e.Kind = kind
		}
		own, err := r.forOwnHooks(ctx, e, m.Group)
		errs = append(errs, err)
		events = append(events, withMarked(own, e, m.Group, n.Mark)...)
	}
	return events, errors.Join(errs...)
}

// withMarked returns the events, and one for the hook in the mark of the node, whose message is deleted: Auto Scaling
// does not say of a hook that notifies a topic whose it is.
func withMarked(own []event.Event, e event.Event, group string, mark node.Mark) []event.Event {
	name, ok := strings.CutPrefix(mark.Hook, group+"/")
	isKnown := slices.ContainsFunc(own, func(o event.Event) bool { return o.Hook.Name == name })
	if !ok || isKnown || e.Kind != event.LifecycleTerminating {
		return own
	}
	e.Hook = event.Hook{Group: group, Name: name, Token: mark.Token}
	return append(own, e)
}

// forOwnHooks returns the event once for each hook of the group that this agent answers. If NODE_SELECTOR is set,
// only the Node says whose an instance is: without it, a hook of the same name may be another agent's.
func (r *resyncer) forOwnHooks(ctx context.Context, e event.Event, group string) ([]event.Event, error) {
	transition := autoscaling.Terminating
	if e.Kind == event.LifecycleLaunching {
		transition = autoscaling.Launching
	}
	_, isNode := r.nodes.Find(e.InstanceID)
	hooks, err := r.groups.OwnHooks(ctx, group, transition)
	events := make([]event.Event, 0, len(hooks))
	for _, h := range hooks {
		if isNode || h.Direct || !r.cfg.SomeNodes {
			e.Hook = event.Hook{Group: group, Name: h.Name}
			events = append(events, e)
		}
	}
	return events, err
}

// kindIntoPool returns whether an instance on its way into the warm pool was launched, or returns from the
// group; "" if hooks of others hold it. Its state does not say, and a new one may have registered as a Node. But
// launching hooks hold only new ones, and terminating hooks only those that return: this process has handled such
// an action, or Auto Scaling accepts a heartbeat for one.
func (r *resyncer) kindIntoPool(ctx context.Context, e event.Event, group string) (event.Kind, error) {
	if _, isNode := r.nodes.Find(e.InstanceID); !isNode {
		return event.LifecycleLaunching, nil
	}
	for _, e.Kind = range []event.Kind{event.LifecycleLaunching, event.LifecycleTerminating} {
		own, err := r.forOwnHooks(ctx, e, group)
		for _, o := range own {
			if r.records.has(o) || r.records.hasCompleted(o) {
				return e.Kind, nil
			}
			pending, err := r.groups.IsPending(ctx, actionOf(o))
			if pending || err != nil {
				return e.Kind, err
			}
		}
		if err != nil {
			return "", err
		}
	}
	return "", nil
}

// eventOfMember returns the event of an instance that a hook holds; ok is false if none does. That of an instance
// on its way into the warm pool still lacks its kind.
func eventOfMember(m autoscaling.Member) (e event.Event, ok bool) {
	e = foundNow(event.Event{Kind: event.LifecycleTerminating, InstanceID: m.InstanceID})
	switch m.State {
	case "Pending:Wait":
		e.Kind = event.LifecycleLaunching
	case "Warmed:Pending:Wait":
		e.Destination = event.PlaceWarmPool
	case "ReplacingRootVolume:Wait":
		e.Action = event.ReplaceRootVolume
	case "Terminating:Wait", "Warmed:Terminating:Wait":
	default:
		return event.Event{}, false
	}
	return e, true
}

// look has the nodes looked at that require it: what this process, or another one, has begun there continues, and what
// is not needed any more is removed. The condition of a node that is neither cordoned nor waits for maintenance is
// removed after the mark, in a request of its own: nothing else remembers it if the process ends in between.
func (r *resyncer) look(ctx context.Context, nodes []node.Node, members map[string]autoscaling.Member) {
	r.records.wakeAll(ctx)
	for _, n := range nodes {
		switch {
		case !n.Mark.Since.IsZero():
			r.records.judge(ctx, n, members[n.InstanceID])
		case n.DrainRequested, !n.Maintenance.IsZero():
			r.records.of(n.InstanceID).wake(ctx)
		case n.HasCondition && !r.records.isBusy(n.InstanceID):
			r.nodes.RemoveCondition(n)
		}
	}
}

// unannounced returns those of the nodes for which a message about maintenance would be acted on, and none is.
func (r *resyncer) unannounced(all []node.Node) []node.Node {
	return slices.DeleteFunc(slices.Clone(all), func(n node.Node) bool {
		return !n.Maintenance.IsZero() || n.Manager != "" || isActedOn(n, r.cfg.Events.ScheduledChange) ||
			r.records.has(maintenanceOf(n, time.Now()))
	})
}

// reportFailures reports why a resync is incomplete: what Auto Scaling has not answered, and other failures.
func reportFailures(o Observer, unread, failed error) {
	if unread != nil {
		o.AutoScalingFailed("resync", firstErrors(unread))
	}
	if failed != nil {
		o.ResyncFailed(firstErrors(failed))
	}
}

// mostErrors is how many of the errors of many nodes are reported.
const mostErrors = 5

// firstErrors returns an error with the first of those that err joins, each once, and how many others there are.
func firstErrors(err error) error {
	var first []string
	lines := strings.Split(err.Error(), "\n")
	for _, line := range lines {
		if len(first) < mostErrors && !slices.Contains(first, line) {
			first = append(first, line)
		}
	}
	summary := strings.Join(first, "; ")
	if others := len(lines) - len(first); others > 0 {
		summary += fmt.Sprintf("; and %s like these", text.Count(others, "more error"))
	}
	return errors.New(summary)
}
