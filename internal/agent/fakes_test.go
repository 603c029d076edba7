package agent_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/node-drainer/node-drainer/internal/agent"
	"github.com/node-drainer/node-drainer/internal/autoscaling"
	"github.com/node-drainer/node-drainer/internal/ec2"
	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/internal/launch"
	"github.com/node-drainer/node-drainer/internal/node"
	"github.com/node-drainer/node-drainer/internal/retry"
	"github.com/node-drainer/node-drainer/pkg/drain"
	"github.com/node-drainer/node-drainer/pkg/queue"
)

// autoScaling plays Auto Scaling.
type autoScaling struct{ *fixture }

func (f autoScaling) Hold(ctx context.Context, a autoscaling.Action, work func(context.Context) error) error {
	if a.InTurn {
		f.step("hold unconfirmed %s", a.Hook)
		return f.whilePending(ctx, a, work)
	}
	f.step("hold %s", a.Hook)
	f.holds(1)
	err := f.whilePending(ctx, a, work)
	f.step("release %s", a.Hook)
	f.holds(-1)
	return err
}

func (f *fixture) holds(more int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.holding += more
	f.changed().Broadcast()
}

func (f autoScaling) Complete(ctx context.Context, a autoscaling.Action, result autoscaling.Result) error {
	if err := f.complete(ctx); err != nil {
		return err
	}
	f.step("complete %s with %s", a.Hook, result)
	return nil
}

func (f autoScaling) State(_ context.Context, instanceID string) (autoscaling.State, error) {
	if instanceID != instance {
		return inNoGroup, nil
	}
	return f.state(f.after())
}

func (f autoScaling) Deadline(_ context.Context, a autoscaling.Action, began time.Time) (time.Time, error) {
	if f.noHook {
		return time.Time{}, fmt.Errorf("group %s has no lifecycle hook %s: %w", a.Group, a.Hook, autoscaling.ErrGone)
	} else if err := f.next("deadline"); err != nil {
		return time.Time{}, err
	}
	if first := a.Seen.Add(-f.heartbeat); !a.Seen.IsZero() && (a.Found || began.Before(first)) {
		began = first
	}
	global, ok := f.timeout[a.Hook]
	if !ok {
		global = 100 * time.Hour
	}
	if !a.Seen.IsZero() && !began.Add(global).After(time.Now()) {
		began = time.Now()
	}
	return began.Add(global), nil
}

func (f autoScaling) Clusters(context.Context, string) ([]string, error) {
	return f.clusters(f.after())
}

func (f autoScaling) NotifiesOthers(_ context.Context, _, hook string) (bool, error) {
	if f.noHook {
		return false, autoscaling.ErrGone
	}
	return f.others, f.next("hooks of " + hook)
}

func (f autoScaling) Members(context.Context, string, []string) (map[string]autoscaling.Member, error) {
	return f.members(f.after())
}

func (f autoScaling) OwnHooks(context.Context, string, autoscaling.Transition) (own []autoscaling.OwnHook, err error) {
	for _, name := range f.ownHooks {
		own = append(own, autoscaling.OwnHook{Name: name, Direct: f.direct})
	}
	return own, nil
}

func (f autoScaling) IsPending(_ context.Context, a autoscaling.Action) (bool, error) {
	if f.noHook {
		return false, autoscaling.ErrGone
	} else if a.Launch != (a.Hook == "launch") || a.InstanceID == "" && f.tokenEnded {
		return false, nil // the hook has the other transition, or the action is over
	}
	return f.pending(f.after())
}

func (f autoScaling) HandlesHook(hook string) bool { return hook != "not-ours" }

func (f autoScaling) MarkUnhealthy(_ context.Context, id string) error {
	f.step("mark %s unhealthy", id)
	return f.next("mark")
}

func (f autoScaling) RolloutActive(_ context.Context, group string) (bool, error) {
	return f.refresh(group)
}

// instances plays EC2.
type instances struct{ *fixture }

func (f instances) Describe(context.Context, string) (ec2.Instance, error) { return f.ec2(f.after()) }

func (f instances) InReservation(context.Context, string) ([]string, error) {
	return f.reserved, f.next("list")
}

// nodes plays the Nodes of the cluster.
type nodes struct{ *fixture }

func (f nodes) All() []node.Node {
	if n, ok := f.Find(instance); ok {
		return []node.Node{n}
	}
	return nil
}

func (f nodes) Find(instanceID string) (node.Node, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if instanceID != instance || f.after() < f.registers || f.hidden || f.leaves > 0 && f.after() >= f.leaves {
		return node.Node{}, false
	}
	found := f.current()
	if f.shown != nil {
		found = *f.shown
	}
	return found, !found.Unselected
}

func (f nodes) Lookup(_ context.Context, instanceID string) (node.Node, error) {
	if err := f.next("look up"); err != nil {
		return node.Node{}, err
	}
	f.step("look up")
	f.mu.Lock()
	defer f.mu.Unlock()
	if instanceID != instance || f.after() < f.registers || f.deleted {
		return node.Node{}, fmt.Errorf("instance %s has no node: %w", instanceID, node.ErrGone)
	}
	return f.current(), f.owned()
}

// owned returns node.ErrUnselected if the Node is another agent's.
func (f nodes) owned() error {
	if theirs, _ := f.theirs(f.after()); theirs {
		return node.ErrUnselected
	}
	return nil
}

func (f nodes) Await(ctx context.Context, instanceID string, accept func(node.Node) bool) (node.Node, error) {
	wait := f.registers - f.after()
	if wait > 0 || accept != nil || f.hidden {
		f.step("await")
	}
	if f.hidden || instanceID != instance {
		wait = never
	}
	if !retry.Sleep(ctx, wait) {
		return node.Node{}, context.Cause(ctx)
	}
	n, _ := f.Find(instanceID)
	if err := f.owned(); err != nil || accept == nil || accept(n) {
		return n, err
	}
	wait = f.boots - f.after()
	if f.boots == 0 {
		wait = never
	}
	if !retry.Sleep(ctx, wait) {
		return node.Node{}, context.Cause(ctx)
	}
	n, _ = f.Find(instanceID)
	return n, nil
}

func (f nodes) Cordon(_ context.Context, n node.Node, reason node.Reason) (node.Mark, bool, error) {
	err := f.next("cordon")
	f.mu.Lock()
	if errors.Is(err, node.ErrGone) && !f.deleted {
		f.node.UID = "uid-2" // it has registered again
	}
	if err == nil && n.UID != f.node.UID {
		err = node.ErrGone
	}
	if err != nil {
		f.mu.Unlock()
		return node.Mark{}, false, err
	}
	mark := &f.node.Mark
	before := *mark
	*mark, f.node.Uncordoned = mark.Merge(reason, time.Now()), false
	if mark.InstanceID = n.InstanceID; reason.Reboots {
		mark.BootID = n.BootID
	}
	out := *mark
	f.mu.Unlock()
	if reason.Deadline.IsZero() {
		f.step("cordon")
	} else {
		f.step("cordon until %v", reason.Deadline.Sub(f.start))
	}
	return out, !out.Since.Equal(before.Since) || !out.Deadline.Equal(before.Deadline), nil
}

func (f nodes) Uncordon(ctx context.Context, _ node.Node, keep func() bool) (bool, error) {
	if err := f.next("uncordon"); err != nil || keep() {
		return false, err
	}
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	f.mu.Lock()
	cordoned := !f.node.Mark.Since.IsZero()
	f.node.Mark = node.Mark{}
	f.mu.Unlock()
	if cordoned {
		f.step("uncordon")
	}
	return cordoned, nil
}

// try takes the step, unless the call is to fail.
func (f nodes) try(call, format string, args ...any) (bool, error) {
	if err := f.next(call); err != nil {
		return false, err
	}
	f.step(format, args...)
	return true, nil
}

func (f nodes) Exclude(context.Context, node.Node) error {
	_, err := f.try("exclude", "exclude")
	return err
}

func (f nodes) Protect(_ context.Context, n node.Node, group string) (bool, error) {
	return f.try("protect", "protect %s for %s", n.Name, group)
}

func (f nodes) Unprotect(_ context.Context, n node.Node) (bool, error) {
	return f.try("protect", "unprotect %s", n.Name)
}

func (f nodes) Protected() []node.ProtectedNode { return f.protected }

// drainer plays the drainer.
type drainer struct{ *fixture }

func (f drainer) Drain(ctx context.Context, t drain.Target) (drain.Report, error) {
	name := t.Name
	if t.Untainted {
		name += " untainted"
	}
	f.step("drain %s until %v", name, t.Deadline.Sub(f.start))
	if t.DryRun {
		return f.report, nil
	}
	f.mu.Lock()
	f.since = t.Since
	f.mu.Unlock()
	if t.Since.IsZero() {
		f.fact("drained before it was cordoned")
	}
	timer := time.NewTimer(f.drainTakes)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			if f.hasReturned() {
				return drain.Report{}, nil
			}
			err := f.next("drain")
			if errors.Is(err, errReplaced) && f.registersAgain {
				f.mu.Lock()
				if f.isBehind && f.shown == nil {
					f.shown = new(f.node)
				}
				f.node.UID, f.node.Mark = "uid-again", node.Mark{}
				f.mu.Unlock()
			}
			return f.report, err
		case deadline := <-t.Tighter:
			f.step("tighten %s until %v", t.Name, deadline.Sub(f.start))
			timer.Reset(min(f.drainTakes-f.after(), time.Until(deadline)))
		case <-ctx.Done():
			time.Sleep(f.drainStops)
			return drain.Report{}, context.Cause(ctx)
		}
	}
}

var errReplaced = drain.ErrReplaced

// launches knows when the node is ready.
type launches struct{ *fixture }

func (f launches) Wait(ctx context.Context, name string, report func([]string)) error {
	f.step("wait for %s", name)
	if f.after() < f.ready {
		report([]string{"Ready"})
	}
	if !retry.Sleep(ctx, f.ready-f.after()) {
		return context.Cause(ctx)
	}
	return nil
}

func (f launches) Missing(ctx context.Context, name string) (missing, readyNowhere []string, err error) {
	f.step("ask about %s", name)
	switch {
	case f.after() < f.outage:
		return nil, nil, errOutage
	case f.lacks != nil:
		return f.lacks, f.readyNowhere, ctx.Err()
	case f.after() < f.ready:
		return []string{"Ready"}, nil, ctx.Err()
	}
	return nil, nil, ctx.Err()
}

// observer records the facts.
type observer struct{ *fixture }

func (f observer) EventReceived(_ queue.Message, e event.Event) {
	f.fact("received %s of %s", e.Kind, e.InstanceID)
}

func (f observer) EventIgnored(e event.Event, why string) {
	f.fact("ignored %s of %s: %s", e.Kind, e.InstanceID, why)
}

func (f observer) MessageRefused(_ queue.Message, reason string, err error) {
	f.fact("refused as %s: %v", reason, err)
}
func (f observer) TerminationStarted(event.Event)                 { f.fact("started") }
func (f observer) NodeAwaited(event.Event)                        { f.fact("awaited") }
func (f observer) NodeCordoned(event.Event, node.Node, node.Mark) { f.fact("cordoned") }
func (f observer) NodeUncordoned(_ node.Node, why string)         { f.fact("uncordoned: %s", why) }

func (f observer) DrainCanceled(_ node.Node, why string)            { f.fact("drain canceled: %s", why) }
func (f observer) NodeDrained(event.Event, node.Node, drain.Report) { f.fact("drained") }

func (f observer) Retrying(_ event.Event, operation string, err error) {
	f.fact("retrying to %s: %v", operation, err)
}

func (f observer) Resynced(_, found, lost int) { f.fact("resynced: found %d, lost %d", found, lost) }
func (f observer) ResyncFailed(err error)      { f.fact("resync failed: %v", err) }

func (f observer) TerminationEnded(e event.Event, o string, _ time.Duration) {
	if e.Sender != "" {
		defer f.fact("sent by %s", e.Sender)
	}
	if !slices.Contains(agent.Outcomes(), o) {
		o = "UNLISTED " + o
	}
	f.fact("ended %s", o)
}

func (f observer) TerminationUnannounced(instanceID, group string) {
	f.fact("unannounced %s of %s", instanceID, group)
}

func (f observer) LaunchStarted(event.Event) { f.fact("launch started") }

func (f observer) LaunchWaiting(_ event.Event, name string, missing []string) {
	f.fact("%q waits for %s", name, strings.Join(missing, ", "))
}

func (f observer) LaunchOverdue(_ event.Event, n node.Node, missing []string, o launch.Outcome) {
	f.fact("%q is overdue, lacks %s: %s", n.Name, strings.Join(missing, ", "), o)
}
func (f observer) LaunchUncordoned(event.Event, node.Node) { f.fact("launch uncordoned") }

func (f observer) LaunchEnded(_ event.Event, o launch.Outcome, _ time.Duration) {
	if !slices.Contains(launch.Outcomes(), o) {
		o = "UNLISTED " + o
	}
	f.fact("launch ended %s", o)
}

func (f observer) NodeProtected(n node.Node, group string) {
	f.fact("%s protected for %s", n.Name, group)
}

func (f observer) NodeUnprotected(n node.Node, group string) {
	f.fact("%s unprotected for %s", n.Name, group)
}

func (f observer) ProtectionFailed(name, group string, err error) {
	f.fact("protection of %s for %s failed: %v", name, group, err)
}
