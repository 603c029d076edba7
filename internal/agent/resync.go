package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/node-drainer/node-drainer/internal/autoscaling"
	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/internal/node"
	"github.com/node-drainer/node-drainer/internal/retry"
)

// groupMembers lists the instances of Auto Scaling groups, and the hooks that hold them.
type groupMembers interface {
	Members(ctx context.Context, cluster string, known []string) (map[string]autoscaling.Member, error)
	OwnHooks(ctx context.Context, group string, t autoscaling.Transition) ([]autoscaling.OwnHook, error)
	IsPending(ctx context.Context, a autoscaling.Action) (bool, error)
}

// allNodes are all Nodes of the cluster.
type allNodes interface {
	nodeFinder
	All() []node.Node
	// Managed returns how many Nodes have which Manager.
	Managed() map[node.Manager]int
}

// resyncObserver records resyncs.
type resyncObserver interface {
	Resynced(members, found, lost int)
	ResyncFailed(err error)
	AutoScalingFailed(operation string, err error)
	// NodesManaged records how many nodes have the manager; first, that there are some for the first time.
	NodesManaged(m node.Manager, nodes int, first bool)
	autoscalerObserver
}

// resyncer finds what no message reported: messages get lost, queues are purged, permissions are revoked.
type resyncer struct {
	cfg         Config
	groups      groupMembers
	instances   Instances
	nodes       allNodes
	observer    resyncObserver
	handle      func(context.Context, event.Event) error
	launchStart func(context.Context, event.Event) time.Time
	confirmer   *confirmer
	cordoner    *cordoner
	protector   *protector
	inflight    *inflight
	drains      *sharedDrains
	history     *drainHistory
	completed   *completedActions
	lost        *lostMessages
	departures  *departures
	maintenance *maintenanceDrains

	handling     sync.WaitGroup // events that a resync found
	reported     map[node.Manager]bool
	dryFound     map[string]bool      // by UID: nodes of whose maintenance a dry run has said what it would do
	healthySince map[string]time.Time // by UID: cordoned nodes whose instances all recent resyncs found healthy
}

// run resyncs at once and after every ResyncInterval, sooner after a failure, until ctx ends. It returns when
// all work that it started has ended.
func (r *resyncer) run(ctx context.Context) error {
	r.completed.reset()
	r.lost.reset()
	r.departures.reset()
	r.healthySince, r.dryFound = nil, map[string]bool{}
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
	found, lost := 0, r.lost.takeEnded(r.inflight.has)
	for _, e := range r.completed.filterPending(waiting, unknown) {
		if !r.inflight.has(e) {
			found++
			r.lost.found(e)
			r.start(ctx, e)
		}
	}
	r.observer.Resynced(len(members), found, lost)
	r.reportManaged()
	r.protector.unprotectFinished(ctx)
	r.resumeAutoscaler(ctx)
	return unread, errors.Join(r.departures.check(ctx, nodes, members), r.checkMaintenance(ctx, nodes),
		r.findMaintenance(ctx, nodes), r.checkCordonedNodes(ctx, nodes, members))
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
// may be lost, or never sent. What EC2 has just scheduled it may not list yet.
func (r *resyncer) checkMaintenance(ctx context.Context, nodes []node.Node) error {
	draining := slices.DeleteFunc(slices.Clone(nodes), func(n node.Node) bool {
		isNew := time.Since(n.Mark.Since) < r.cfg.ConfirmTimeout
		return !isDrainedForMaintenance(n) || isNew || !r.inflight.has(eventOfMark(n))
	})
	return forEach(draining, func(n node.Node) error {
		err := r.confirmer.checkSchedule(ctx, eventOfMark(n))
		if errors.Is(err, errContradicted) {
			r.start(ctx, event.Event{Kind: event.ScheduledChangeCanceled, InstanceID: n.InstanceID, At: time.Now()})
			return nil
		}
		return err
	})
}

// findMaintenance starts what the message about scheduled maintenance starts: it may be lost. The handler asks EC2
// again, as for a message.
func (r *resyncer) findMaintenance(ctx context.Context, nodes []node.Node) error {
	unannounced := r.maintenance.unannounced(nodes)
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
			r.start(ctx, maintenanceOf(n))
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
			r.lost.received(e) // by another agent, perhaps
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
		if n, _ := r.nodes.Find(m.InstanceID); !ok || n.Unselected {
			continue
		}
		if e.Destination == event.PlaceWarmPool {
			kind, err := r.kindIntoPool(ctx, e, m.Group)
			if err != nil || kind == "" {
				errs = append(errs, err)
				continue
			}
			e.Kind = kind
		}
		own, err := r.forOwnHooks(ctx, e, m.Group)
		errs = append(errs, err)
		events = append(events, own...)
	}
	return events, errors.Join(errs...)
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
			if r.inflight.has(o) || r.completed.has(o) {
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

// checkCordonedNodes checks the nodes that are cordoned although no event of their instance is in flight. It
// continues drains that another process started, and uncordons nodes whose instances resyncs have found
// healthy for as long as a message may take to confirm. It also removes the conditions of nodes that are not
// cordoned any more.
func (r *resyncer) checkCordonedNodes(
	ctx context.Context, nodes []node.Node, members map[string]autoscaling.Member,
) error {
	handled := r.inflight.instances()
	idle := slices.DeleteFunc(slices.Clone(nodes), func(n node.Node) bool {
		return handled[n.InstanceID] || r.drains.has(n.UID)
	})
	r.removeConditions(idle)
	cordoned := slices.DeleteFunc(idle, func(n node.Node) bool { return n.Mark.Since.IsZero() })
	var mu sync.Mutex
	var healthy []node.Node
	err := forEach(cordoned, func(n node.Node) error {
		err := r.check(ctx, n, members[n.InstanceID])
		switch {
		case errors.Is(err, autoscaling.ErrGone):
			return nil
		case errors.Is(err, errContradicted):
			mu.Lock()
			defer mu.Unlock()
			healthy = append(healthy, n)
			return nil
		case err == nil && !n.Mark.Deadline.IsZero() && !r.history.isDrained(n):
			r.start(ctx, eventOfMark(n))
		}
		return err
	})
	r.history.retain(nodes)
	return errors.Join(err, forEach(r.healthyLongEnough(healthy), func(n node.Node) error {
		return r.putBack(ctx, n)
	}))
}

// removeConditions removes the drain conditions of idle nodes that are neither cordoned nor wait for maintenance. A
// condition is removed after the mark, in a request of its own. Nothing else remembers it if the process ends in
// between, or the request fails for long.
func (r *resyncer) removeConditions(idle []node.Node) {
	for _, n := range idle {
		if n.HasCondition && n.Mark.Since.IsZero() && n.Maintenance.IsZero() {
			r.cordoner.nodes.RemoveCondition(n)
		}
	}
}

// putBack uncordons a node whose instance is healthy.
func (r *resyncer) putBack(ctx context.Context, n node.Node) error {
	why := fmt.Sprintf("instance %s is not terminating", n.InstanceID)
	if isRecommendationOver(n, r.cfg.Events.RebalanceTimeout) {
		why = fmt.Sprintf("instance %s was not interrupted within %v of the rebalance recommendation",
			n.InstanceID, r.cfg.Events.RebalanceTimeout)
	}
	if n.Mark.Reason == string(event.ScheduledChange) && !n.Maintenance.IsZero() {
		if err := r.cordoner.nodes.EndMaintenance(ctx, n); err != nil {
			return err
		}
	}
	return r.cordoner.tryUncordon(ctx, n, why)
}

// isRecommendationOver reports whether the node was cordoned for a rebalance recommendation that no
// interruption has followed for the timeout, if that is not 0. EC2 does not withdraw a recommendation.
func isRecommendationOver(n node.Node, timeout time.Duration) bool {
	return n.Mark.Reason == string(event.RebalanceRecommendation) && n.Mark.TerminatesAt.IsZero() &&
		timeout > 0 && time.Since(n.Mark.Since) >= timeout
}

// check asks AWS whether the event that a node was cordoned for is still true. The error is errContradicted
// if the instance does not terminate, and autoscaling.ErrGone if its group or EC2 terminates it without this
// agent.
func (r *resyncer) check(ctx context.Context, n node.Node, m autoscaling.Member) error {
	e := eventOfMark(n)
	ofHook := e.Kind == event.LifecycleTerminating || e.Kind == event.LifecycleLaunching
	switch inService := m.State == "InService"; {
	case !inService && !m.State.Unknown(): // or Undescribed
		return autoscaling.ErrGone
	case inService && ofHook, r.isWarningDecided(n, inService):
		return checkReturned(n)
	case ofHook:
		return checkEnded(ctx, r.instances, n)
	}
	err := r.confirmer.check(ctx, e)
	if err == nil && isRecommendationOver(n, r.cfg.Events.RebalanceTimeout) {
		return errContradicted
	}
	return err
}

// checkReturned is check for an instance that is in service again after a hook, as after the replacement of its root
// volume.
func checkReturned(n node.Node) error {
	if isAnnounced(n) {
		return autoscaling.ErrGone
	}
	return errContradicted
}

// isAnnounced reports whether the mark says that EC2 is about to terminate the instance. Maintenance has a check of its
// own.
func isAnnounced(n node.Node) bool {
	ofMaintenance := !n.Maintenance.IsZero() && !event.Kind(n.Mark.Reason).IsIrrevocable()
	return n.Mark.TerminatesAt.After(time.Now()) && !ofMaintenance
}

// checkEnded is check for an instance that is terminated, or was detached from its group.
func checkEnded(ctx context.Context, instances Instances, n node.Node) error {
	i, err := instances.Describe(ctx, n.InstanceID)
	switch {
	case err != nil:
		return err
	case i.State == "running", isForeign(n, i):
		return errContradicted
	}
	return autoscaling.ErrGone
}

// isWarningDecided reports whether the node was cordoned for a Spot interruption that EC2 has not confirmed, which a
// mark without a time shows, and the warning was handled: the drain has ended, or the instance has returned from a
// hook. Nothing else would take the mark away that another event has kept.
func (r *resyncer) isWarningDecided(n node.Node, inService bool) bool {
	unconfirmed := n.Mark.Reason == string(event.SpotInterruption) && n.Mark.TerminatesAt.IsZero()
	return unconfirmed && (inService && n.Mark.Hook != "" || r.history.isDrained(n))
}

// eventOfMark returns the event that a node was cordoned for.
func eventOfMark(n node.Node) event.Event {
	return event.Event{
		Kind: event.Kind(n.Mark.Reason), InstanceID: n.InstanceID, At: n.Mark.Since, Deadline: n.Mark.TerminatesAt,
	}
}

// healthyLongEnough returns those of the nodes that were healthy in each resync of the last ConfirmTimeout.
func (r *resyncer) healthyLongEnough(healthy []node.Node) []node.Node {
	before := r.healthySince
	r.healthySince = map[string]time.Time{}
	return slices.DeleteFunc(healthy, func(n node.Node) bool {
		since, ok := before[n.UID]
		if !ok {
			since = time.Now()
		}
		r.healthySince[n.UID] = since
		return time.Since(since) < r.cfg.ConfirmTimeout
	})
}
