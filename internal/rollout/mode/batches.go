package mode

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/rollout/hold"
	"github.com/node-drainer/node-drainer/internal/rollout/loop"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// batchWriter replaces single instances, and raises the desired capacity for that.
type batchWriter interface {
	MarkUnhealthy(ctx context.Context, instanceID string) error
	hold.CapacityWriter
}

// changer is how batches replaces instances in one of the modes.
type changer interface {
	// next decides on the next step, from what is known of the group.
	next(now refresh.Snapshot) refresh.Step
	// check looks for what other clients have undone. A problem ends the rollout.
	check(ctx context.Context) (problem string)
	// send makes the calls of a step, and reports whether a batch is being replaced.
	send(ctx context.Context, step refresh.Step) (sent bool, err error)
	// unfinished reports whether an earlier run has left something to do, also if nothing is outdated.
	unfinished() bool
	// remains describes what happens when the trigger stops.
	remains() string
}

// batches replaces instances, one batch after the other. What a trigger that was
// killed has done is seen in what AWS says of the group.
type batches struct {
	group        *loop.Group
	by           changer
	capacity     *hold.Capacity
	beginning    *Beginning
	gates        *Gates
	readiness    *readiness    // of the phase; nil before its first step
	phase        refresh.Phase // of the last step
	sent         bool          // This run has replaced instances.
	inFlight     bool          // A batch is being replaced.
	batchEnded   time.Time     // when the last one was seen to be replaced
	noNodesKnown bool          // The cluster has known none of the group's instances yet.
}

// Attach checks whether the cluster knows any of the group's instances. If not, it is most likely another
// group's cluster: its nodes would never become ready, and its labels would exclude no instance.
func (b *batches) Attach(context.Context, *refresh.Refresh) (attached bool, err error) {
	s := b.group.State
	if !s.IsDue() || s.Policy.Nodes.KnowsAny(s.Group.Instances) {
		return false, nil
	}
	b.noNodesKnown = true
	const text = "no instance of the group is a node of the Kubernetes cluster"
	if len(b.group.Config.Exclude) > 0 {
		return false, loop.EndWith(report.Refused, "nothing was changed: "+text+", so that --exclude-node-label "+
			"cannot be honored: name the group's own cluster with --kubeconfig and --context")
	}
	if then := b.group.Config.Pace.Then; then == refresh.ThenStop || then == refresh.ThenKeep {
		return false, loop.EndWith(report.Refused, "nothing was changed: "+text+", so that no agent would drain their "+
			"nodes for --then "+string(then)+": name the group's own cluster with --kubeconfig and --context")
	}
	b.group.Progress.Note(refresh.Warn, "%s: new nodes are not waited for; if it is not the group's own "+
		"cluster, name that with --kubeconfig and --context", text)
	return false, nil
}

// Step does what is to be done next. While the desired capacity is raised, no instance is replaced. If nothing is to be
// replaced, no node and no launch is waited for: a node that is not ready then has nothing to do with the rollout.
func (b *batches) Step(ctx context.Context, phase refresh.Phase) (*loop.Wait, error) {
	begins := phase != b.phase
	b.phase = phase
	switch {
	case phase == refresh.PhaseTaint: // The preflight refuses a group with a refresh under way.
		return nil, nil
	case phase == refresh.PhaseSurge && (b.group.Config.Pace.Surge == refresh.Amount{} || !b.group.State.IsDue()):
		return nil, nil
	case begins && phase == refresh.PhaseReplace && len(b.group.State.Old) == 0 && !b.by.unfinished():
		return nil, nil
	case begins:
		b.readiness = newReadiness(b.group)
	}
	if problem := b.by.check(ctx); problem != "" {
		return nil, loop.EndWith(report.Failed, problem+b.raised())
	}
	if problem := b.readiness.problem(); problem != "" {
		return nil, loop.EndWith(report.Failed, problem+"; "+b.by.remains()+": fix the cause, then run the same "+
			"command again"+b.raised())
	}
	return b.take(ctx, b.decide())
}

// ends reports whether the phase ends before the step.
func (b *batches) ends(s refresh.Step) bool {
	return s.Done || b.phase == refresh.PhaseSurge && (s.Lower || len(s.Mark)+len(s.Terminate) > 0)
}

// take takes a step, unless the phase ends before it. One that begins a batch or changes the desired capacity is
// decided on again just before: the gate takes a while, and an autoscaler may have changed the capacity meanwhile.
func (b *batches) take(ctx context.Context, s refresh.Step) (*loop.Wait, error) {
	if b.ends(s) {
		return nil, nil
	}
	w := &loop.Wait{Why: s.Waiting, Level: refresh.OK, AtMost: s.RecheckAfter, Expected: s.RecheckAfter > 0}
	if s.Begins() || s.Resizes() {
		if err := b.refreshFor(ctx, s); err != nil {
			return nil, err
		}
		now := b.next()
		if b.ends(now) {
			return nil, nil
		}
		if now.Begins() != s.Begins() { // The gate is for batches alone.
			return w, nil
		}
		s, w.Expected = now, w.Expected || s.Begins() // The time that the gate takes is no stall.
	}
	return w, b.apply(ctx, s)
}

// refreshFor reads again what a step was decided on: what instances are launched from before a batch, when the gate has
// passed, and the desired capacity before that is changed. A surge, and what is left of it, do without the gate.
func (b *batches) refreshFor(ctx context.Context, s refresh.Step) error {
	if s.Begins() && b.group.State.IsDue() {
		if err := b.gates.Pass(ctx, b.group, AtBatch); err != nil {
			return b.withRaised(loop.Final(ctx, err))
		}
	}
	if s.Begins() || s.Raise > 0 {
		if err := b.group.UpdateTarget(ctx); err != nil {
			return err
		}
		if err := b.beginning.check(ctx); err != nil {
			return b.withRaised(err)
		}
	}
	if !s.Resizes() {
		return nil
	}
	return b.group.Describe(ctx)
}

// withRaised adds to the end of a rollout that the desired capacity stays raised.
func (b *batches) withRaised(err error) error {
	if end, is := errors.AsType[*loop.EndError](err); is {
		return loop.EndWith(end.Outcome, end.Message+b.raised())
	}
	return err
}

// decide decides on the next step, and sees the end of a batch.
func (b *batches) decide() refresh.Step {
	step := b.next()
	if b.inFlight && !step.InFlight {
		b.inFlight, b.batchEnded = false, time.Now()
		step = b.next()
	}
	return step
}

// next decides on the next step, from what is known now. No further instance is replaced while it is not known which
// nodes are ready.
func (b *batches) next() refresh.Step {
	s := b.group.State
	now := refresh.Snapshot{
		Now: time.Now(), Group: s.Group, Outdated: s.Replaceable(), LastBatchEnded: b.batchEnded,
		SurgeInDoubt: b.capacity.InDoubt(),
	}
	b.noNodesKnown = b.noNodesKnown && !s.Policy.Nodes.KnowsAny(s.Group.Instances)
	if s.Policy.Nodes.Cluster != nil && !b.noNodesKnown {
		now.NotReady = s.Policy.Nodes.NotReady(s.Group.Instances)
	}
	step := b.by.next(now)
	if (step.Begins() || step.Raise > 0) && !b.group.IsOpen() {
		return refresh.Step{
			Waiting: "no batch begins: " + b.group.Config.Windows.Describe(now.Now), RecheckAfter: b.group.Config.PollInterval,
		}
	}
	if err := s.Policy.Nodes.Stale(); err != nil && now.NotReady != nil && step.Replaces() {
		return refresh.Step{Waiting: "waiting for the nodes to be readable again: " + err.Error()}
	}
	return step
}

// apply makes the calls of a step.
func (b *batches) apply(ctx context.Context, step refresh.Step) error {
	ctx, cancel := loop.Uncancelled(ctx)
	defer cancel()
	switch {
	case step.Confirm:
		_, err := b.capacity.Confirm(ctx)
		return err
	case step.Raise > 0:
		return b.capacity.Raise(ctx, step.Raise)
	case step.Lower:
		return b.capacity.Lower(ctx)
	case step.Replaces(), step.Forget:
		sent, err := b.by.send(ctx, step)
		b.sent, b.inFlight = b.sent || sent, b.inFlight || sent
		return err
	}
	return nil
}

// Undo restores the desired capacity. Nothing else can be undone.
func (b *batches) Undo(ctx context.Context) string {
	if err := b.group.Describe(ctx); err != nil {
		return fmt.Sprintf("%s; the desired capacity could not be read: %v", b.by.remains(), err)
	}
	before := b.group.State.Group.Desired
	if w, err := b.capacity.Confirm(ctx); w != nil || err != nil { // The next run finds out.
		return b.Remains()
	}
	if _, raised := refresh.SurgeOf(b.group.State.Group); !raised {
		return b.by.remains()
	}
	desired, err := b.capacity.TakeBack(ctx)
	if err != nil {
		return fmt.Sprintf("%s; the desired capacity could not be lowered again: %v", b.by.remains(), err)
	}
	return fmt.Sprintf("%s; the desired capacity was lowered from %d to %d", b.by.remains(), before, desired)
}

// Begun reports whether instances were replaced, or an earlier run has left something to do.
func (b *batches) Begun() bool { return b.sent || b.by.unfinished() }

// Remains describes what the group does without the trigger, and the desired capacity if that stays raised.
func (b *batches) Remains() string {
	return b.by.remains() + "; run the same command again to continue" + b.raised()
}

// raised describes the desired capacity if it stays raised.
func (b *batches) raised() string {
	surge, raised := refresh.SurgeOf(b.group.State.Group)
	if !raised {
		return ""
	}
	return fmt.Sprintf("; the desired capacity stays raised from %d to %d until the same command is run again",
		surge.From, surge.To)
}
