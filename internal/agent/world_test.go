package agent_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/node-drainer/node-drainer/internal/agent"
	"github.com/node-drainer/node-drainer/pkg/autoscaling"
	"github.com/node-drainer/node-drainer/pkg/drain"
	ec2 "github.com/node-drainer/node-drainer/pkg/ec2"
	"github.com/node-drainer/node-drainer/pkg/event"
	"github.com/node-drainer/node-drainer/pkg/node"
	"github.com/node-drainer/node-drainer/pkg/queue"
)

const (
	group    = "workers"
	instance = "i-0a1b2c3d4e5f60718"
	never    = 1000 * time.Hour

	inService   = autoscaling.State("InService")
	terminating = autoscaling.State("Terminating:Wait")
	proceeding  = autoscaling.State("Terminating:Proceed")
	inNoGroup   = autoscaling.State("")

	runsOn = ec2.State("running")
)

var (
	errOutage   = errors.New("no answer")
	errStopping = errors.New("stopping")
)

// world plays all that the agent speaks to, in virtual time, and writes down in order what the agent does to
// it. Its fields are set before the first message.
type world struct {
	start time.Time
	cfg   agent.Config

	state       func(after time.Duration) (autoscaling.State, error)
	registers   time.Duration // when the Node of the instance comes
	leaves      time.Duration // when the watch shows it no more
	hidden      bool          // the watch does not show it, though it is there
	deleted     bool          // it is not there, though the watch shows it
	lookupErrs  []error       // one for each call
	clusters    func(after time.Duration) ([]string, error)
	timeout     map[string]time.Duration // of each hook
	unknown     bool                     // the group has no such hook
	givesUp     map[string]time.Duration // when the group gives up on a hook's action
	ec2         func(after time.Duration) (ec2.Instance, error)
	scheduled   func(after time.Duration) (bool, error)
	reserved    []string // in the Capacity Block
	reservedErr error
	members     func(after time.Duration) (map[string]autoscaling.Member, error)
	own         []string                                // hooks, if a sweep asks
	held        func(after time.Duration) (bool, error) // whether a launch hook of ours holds the instance
	unhealthy   error                                   // what MarkUnhealthy returns
	drainTakes  time.Duration
	report      drain.Report
	drainErr    error

	retireErrs, restoreErrs, excludeErrs, deadlineErrs []error // one for each call
	completes                                          func(ctx context.Context) error

	launchWorld

	mu    sync.Mutex
	node  node.Node
	steps []step
	facts []string
}

type step struct {
	after time.Duration
	what  string
}

// newWorld is one where nothing is wrong: a registered node, whose instance waits for its hook.
func newWorld() *world {
	w := &world{
		start: time.Now(),
		cfg: agent.Config{
			ClusterName: "demo", ConfirmTimeout: time.Minute, RegistrationTimeout: 5 * time.Minute, DrainTimeout: time.Hour,
			ResyncInterval: 3 * time.Minute,
			Events: event.Config{
				SpotInterruption: event.Drain, Rebalance: event.Drain, ScheduledChange: event.Drain, StateChange: event.Drain,
				ReservationInterrupt: event.Drain, CapacityBlockExpiring: event.Drain, Margin: 5 * time.Second,
			},
		},
		node:       node.Node{Name: "node-1", UID: "uid-1", InstanceID: instance, Ready: true},
		timeout:    map[string]time.Duration{},
		givesUp:    map[string]time.Duration{},
		drainTakes: 10 * time.Second,
		report:     drain.Report{Total: 3, Took: 10 * time.Second},
		completes:  func(context.Context) error { return nil },
	}
	w.state = always(terminating)
	w.ec2 = func(time.Duration) (ec2.Instance, error) {
		return ec2.Instance{State: runsOn, Spot: true, Reserved: true}, nil
	}
	w.scheduled = func(time.Duration) (bool, error) { return true, nil }
	w.members = func(time.Duration) (map[string]autoscaling.Member, error) { return nil, nil }
	w.held = func(time.Duration) (bool, error) { return false, nil }
	w.clusters = func(time.Duration) ([]string, error) { return nil, nil }
	return w
}

func (w *world) agent() *agent.Agent { return agent.New(w.cfg, w, w, w, w, w, w) }

// handle lets an agent handle the message that a hook sends, and returns the error.
func (w *world) handle(ctx context.Context, hook string) error {
	return w.agent().Handle(ctx, message(hook, w.start))
}

func message(hook string, at time.Time) queue.Message {
	return queue.Message{ID: "m-" + hook, Receives: 1, SentAt: at.Add(time.Second), Body: body(hook, at.Format(time.RFC3339))}
}

func body(hook, at string) []byte {
	return fmt.Appendf(nil, `{"Service":"AWS Auto Scaling","LifecycleTransition":"autoscaling:EC2_INSTANCE_TERMINATING",`+
		`"AutoScalingGroupName":%q,"LifecycleHookName":%q,"EC2InstanceId":%q,"LifecycleActionToken":"token-%s","Time":%q}`,
		group, hook, instance, hook, at)
}

func always(s autoscaling.State) func(time.Duration) (autoscaling.State, error) {
	return func(time.Duration) (autoscaling.State, error) { return s, nil }
}

// silent is Auto Scaling without an answer until the given time, then with one.
func silent(until time.Duration, then autoscaling.State) func(time.Duration) (autoscaling.State, error) {
	return func(after time.Duration) (autoscaling.State, error) {
		if after < until {
			return "", errOutage
		}
		return then, nil
	}
}

// turns is an instance whose state changes at the given time.
func turns(before autoscaling.State, at time.Duration, then autoscaling.State) func(time.Duration) (autoscaling.State, error) {
	return func(after time.Duration) (autoscaling.State, error) {
		if after < at {
			return before, nil
		}
		return then, nil
	}
}

func (w *world) after() time.Duration { return time.Since(w.start) }

func (w *world) step(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.steps = append(w.steps, step{w.after(), fmt.Sprintf(format, args...)})
}

func (w *world) fact(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.facts = append(w.facts, fmt.Sprintf(format, args...))
}

// next takes the next of the errors that calls are to end with.
func (w *world) next(errs *[]error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(*errs) == 0 {
		return nil
	}
	err := (*errs)[0]
	*errs = (*errs)[1:]
	return err
}

// did are the steps, those of one kind or all.
func (w *world) did(prefix string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := []string{}
	for _, s := range w.steps {
		if strings.HasPrefix(s.what, prefix) {
			out = append(out, s.what)
		}
	}
	return out
}

// when tells at what time the agent first took the step; -1 if it never did.
func (w *world) when(what string) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.steps {
		if strings.HasPrefix(s.what, what) {
			return s.after
		}
	}
	return -1
}

func (w *world) told(fact string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, f := range w.facts {
		if strings.HasPrefix(f, fact) {
			n++
		}
	}
	return n
}

func (w *world) wantSteps(t *testing.T, want ...string) {
	t.Helper()
	if diff := cmp.Diff(append([]string{}, want...), w.did("")); diff != "" {
		t.Errorf("the agent's steps (-want +got):\n%s", diff)
	}
}

func (w *world) wantOutcome(t *testing.T, want agent.Outcome) {
	t.Helper()
	if w.told("began") != w.told("ended ") || w.told("ended "+string(want)) == 0 {
		t.Errorf("the termination did not end as %s: %q", want, w.facts)
	}
}

// Hooks.

func (w *world) Hold(ctx context.Context, a autoscaling.Action, work func(context.Context) error) error {
	w.step("hold %s", a.Hook)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if at, ok := w.givesUp[a.Hook]; ok {
		defer time.AfterFunc(at-w.after(), func() { cancel(fmt.Errorf("%w: given up", autoscaling.ErrGone)) }).Stop()
	}
	err := work(ctx)
	w.step("let go of %s", a.Hook)
	return err
}

func (w *world) Complete(ctx context.Context, a autoscaling.Action, result autoscaling.Result) error {
	if err := w.completes(ctx); err != nil {
		return err
	}
	w.step("complete %s with %s", a.Hook, result)
	return nil
}

func (w *world) State(_ context.Context, instanceID string) (autoscaling.State, error) {
	if instanceID != instance {
		return inNoGroup, nil
	}
	return w.state(w.after())
}

func (w *world) Deadline(_ context.Context, a autoscaling.Action, began time.Time) (time.Time, error) {
	if w.unknown {
		return time.Time{}, fmt.Errorf("group %s has no lifecycle hook %s: %w", a.Group, a.Hook, autoscaling.ErrGone)
	}
	if err := w.next(&w.deadlineErrs); err != nil {
		return time.Time{}, err
	}
	if own, ok := w.timeout[a.Hook]; ok {
		return began.Add(own), nil
	}
	return began.Add(100 * time.Hour), nil
}

func (w *world) Members(context.Context, string, []string) (map[string]autoscaling.Member, error) {
	return w.members(w.after())
}

func (w *world) OwnHooks(_ context.Context, _ string, t autoscaling.Transition) ([]string, error) {
	w.fact("own hooks for %s", t)
	return w.own, nil
}

func (w *world) IsPending(_ context.Context, a autoscaling.Action) (bool, error) {
	if !a.Launch {
		return false, errors.New("only launches are asked about")
	}
	return w.held(w.after())
}

func (w *world) HandlesHook(hook string) bool { return hook != "not-ours" }

func (w *world) MarkUnhealthy(_ context.Context, id string) error {
	w.step("mark %s unhealthy", id)
	return w.unhealthy
}

// Instances.

func (w *world) Describe(context.Context, string) (ec2.Instance, error) { return w.ec2(w.after()) }

func (w *world) HasScheduledEvent(context.Context, string) (bool, error) {
	return w.scheduled(w.after())
}

func (w *world) InReservation(context.Context, string) ([]string, error) {
	return w.reserved, w.reservedErr
}

func (w *world) Clusters(context.Context, string) ([]string, error) { return w.clusters(w.after()) }

// Nodes.

func (w *world) All() []node.Node {
	if n, ok := w.Find(instance); ok {
		return []node.Node{n}
	}
	return nil
}

func (w *world) Find(instanceID string) (node.Node, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.node, instanceID == instance && w.after() >= w.registers && !w.hidden &&
		(w.leaves == 0 || w.after() < w.leaves)
}

func (w *world) Lookup(_ context.Context, instanceID string) (node.Node, error) {
	if err := w.next(&w.lookupErrs); err != nil {
		return node.Node{}, err
	}
	w.step("look up")
	w.mu.Lock()
	defer w.mu.Unlock()
	if instanceID != instance || w.after() < w.registers || w.deleted {
		return node.Node{}, fmt.Errorf("no node is of instance %s: %w", instanceID, node.ErrGone)
	}
	return w.node, nil
}

func (w *world) Await(ctx context.Context, instanceID string) (node.Node, error) {
	w.step("await")
	comes := w.registers - w.after()
	if w.hidden {
		comes = never
	}
	timer := time.NewTimer(comes)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return node.Node{}, context.Cause(ctx)
	}
	n, _ := w.Find(instanceID)
	return n, nil
}

func (w *world) Cordon(_ context.Context, n node.Node, reason node.Reason) (node.Mark, bool, error) {
	if err := w.next(&w.retireErrs); err != nil {
		return node.Mark{}, false, err
	}
	w.mu.Lock()
	mark := &w.node.Mark
	before := *mark
	if n.UID != w.node.UID {
		w.mu.Unlock()
		return node.Mark{}, false, node.ErrGone
	}
	if mark.Since.IsZero() || mark.Deadline.IsZero() && !reason.Deadline.IsZero() {
		mark.InstanceID, mark.Since = n.InstanceID, time.Now()
		mark.Reason, mark.Hook, mark.Token = reason.Kind, reason.Hook, reason.Token
	}
	if d := reason.Deadline; mark.Deadline.IsZero() || (!d.IsZero() && d.Before(mark.Deadline)) {
		mark.Deadline = d
	}
	if g := reason.TerminatesAt; mark.TerminatesAt.IsZero() || (!g.IsZero() && g.Before(mark.TerminatesAt)) {
		mark.TerminatesAt = g
	}
	out := *mark
	w.mu.Unlock()
	if reason.Deadline.IsZero() {
		w.step("mark")
	} else {
		w.step("mark until %v", reason.Deadline.Sub(w.start))
	}
	return out, !out.Since.Equal(before.Since) || !out.Deadline.Equal(before.Deadline), nil
}

func (w *world) Uncordon(ctx context.Context, _ node.Node) (bool, error) {
	if err := w.next(&w.restoreErrs); err != nil {
		return false, err
	}
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	w.mu.Lock()
	marked := !w.node.Mark.Since.IsZero()
	w.node.Mark = node.Mark{}
	w.mu.Unlock()
	if marked {
		w.step("restore")
	}
	return marked, nil
}

func (w *world) Exclude(context.Context, node.Node) error {
	if err := w.next(&w.excludeErrs); err != nil {
		return err
	}
	w.step("exclude")
	return nil
}

// Drainer.

func (w *world) Drain(ctx context.Context, t drain.Target) (drain.Report, error) {
	w.step("drain %s until %v", t.Name, t.Deadline.Sub(w.start))
	if t.DryRun {
		return w.report, nil
	}
	if t.Since.IsZero() {
		w.fact("drained before it was marked")
	}
	timer := time.NewTimer(w.drainTakes)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return w.report, w.drainErr
		case deadline := <-t.Tighter:
			w.step("tighten %s until %v", t.Name, deadline.Sub(w.start))
			timer.Reset(min(w.drainTakes-w.after(), time.Until(deadline)))
		case <-ctx.Done():
			return drain.Report{}, context.Cause(ctx)
		}
	}
}

// Observer.

func (w *world) EventReceived(_ queue.Message, e event.Event) {
	w.fact("received %s of %s", e.Kind, e.InstanceID)
}

func (w *world) EventIgnored(e event.Event, why string) {
	w.fact("ignored %s of %s: %s", e.Kind, e.InstanceID, why)
}

func (w *world) MessageRefused(_ queue.Message, reason string, err error) {
	w.fact("refused as %s: %v", reason, err)
}
func (w *world) TerminationStarted(event.Event)                   { w.fact("began") }
func (w *world) NodeAwaited(event.Event)                          { w.fact("awaited") }
func (w *world) NodeCordoned(event.Event, node.Node, node.Mark)   { w.fact("retired") }
func (w *world) NodeUncordoned(_ node.Node, why string)           { w.fact("restored: %s", why) }
func (w *world) NodeDrained(event.Event, node.Node, drain.Report) { w.fact("drained") }
func (w *world) Retrying(_ event.Event, doing string, err error) {
	w.fact("retrying to %s: %v", doing, err)
}
func (w *world) Resynced(_, found, untold int) { w.fact("swept: %d, untold: %d", found, untold) }
func (w *world) ResyncFailed(err error)        { w.fact("sweep failed: %v", err) }

func (w *world) TerminationEnded(_ event.Event, o string, _ time.Duration) {
	if !slices.Contains(agent.Outcomes(), o) {
		o = "UNLISTED " + o
	}
	w.fact("ended %s", o)
}

// contextFor ends after d as it does when the process stops.
func contextFor(t *testing.T, d time.Duration) (context.Context, context.CancelFunc) {
	t.Helper()
	return context.WithTimeoutCause(t.Context(), d, errStopping)
}

// thenGone completes an action, whose instance goes on.
func (w *world) thenGone(context.Context) error {
	w.members = func(time.Duration) (map[string]autoscaling.Member, error) { return nil, nil }
	w.ec2 = is(ec2.Instance{State: "shutting-down"})
	return nil
}
