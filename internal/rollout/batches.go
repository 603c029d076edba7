package rollout

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// batchWriter replaces single instances, and raises the desired capacity for that.
type batchWriter interface {
	MarkUnhealthy(ctx context.Context, instanceID string) error
	capacityWriter
}

// changer is how batches replaces instances in one of the modes.
type changer interface {
	// next decides on the next step, from what is known of the group.
	next(now refresh.Snapshot) refresh.Step
	// check looks for what other clients have undone. A problem ends the rollout.
	check() (problem string)
	// send makes the calls of a step, and reports whether a batch is being replaced.
	send(ctx context.Context, step refresh.Step) (sent bool, err error)
	// unfinished reports whether an earlier run has left something to do, also if nothing is outdated.
	unfinished() bool
	// stopped describes that the trigger stops, and leftBehind also what the group does without it.
	stopped() string
	leftBehind() string
}

// batches replaces instances, one batch after the other. What a trigger that was
// killed has done is seen in what AWS says of the group.
type batches struct {
	group        *group
	aws          batchWriter
	by           changer
	beginning    *beginning
	inFlight     bool      // A batch is being replaced.
	batchEnded   time.Time // when the last one was seen to be replaced
	waiting      string    // noted last
	stall        *stall
	readiness    *readiness
	noNodesKnown bool // The cluster knows none of the group's instances.
}

// attach checks whether the cluster knows any of the group's instances. If not, it is most likely another
// group's cluster: its nodes would never become ready, and its labels would exclude no instance.
func (b *batches) attach(context.Context, *refresh.Refresh) (attached bool, err error) {
	s := b.group.state
	if !s.isDue() || s.policy.nodes.knowsAny(s.group.Instances) {
		return false, nil
	}
	b.noNodesKnown = true
	const text = "no instance of the group is a node of the Kubernetes cluster"
	if len(b.group.cfg.Exclude) > 0 {
		return false, &endError{report.Refused, "nothing was changed: " + text + ", so that --exclude-node-label " +
			"cannot be honored: name the group's own cluster with --kubeconfig and --context"}
	}
	if then := b.group.cfg.Pace.Then; then == refresh.ThenStop || then == refresh.ThenKeep {
		return false, &endError{report.Refused, "nothing was changed: " + text + ", so that no agent would drain their " +
			"nodes for --then " + string(then) + ": name the group's own cluster with --kubeconfig and --context"}
	}
	b.group.progress.note(refresh.Warn, "%s: new nodes are not waited for; if it is not the group's own "+
		"cluster, name that with --kubeconfig and --context", text)
	return false, nil
}

// settle does nothing: the preflight refuses a group with a refresh under way.
func (*batches) settle(context.Context) (settled bool, err error) { return false, nil }

// start marks nothing yet: which instances are in the first batch is decided when the nodes are tainted.
func (*batches) start(context.Context) error { return nil }

// surge takes the steps that come before the first batch.
func (b *batches) surge(ctx context.Context) error {
	if b.group.cfg.Pace.Surge == (refresh.Amount{}) || !b.group.state.isDue() {
		return nil
	}
	return b.stepUntil(ctx, func(s refresh.Step) bool { return s.Done || s.Lower || len(s.Mark)+len(s.Terminate) > 0 })
}

// follow replaces batch after batch, until nothing is left to replace. It waits for no node and no launch if
// there was nothing to replace: a node that is not ready then has nothing to do with the rollout.
func (b *batches) follow(ctx context.Context) error {
	if len(b.group.state.old) == 0 && !b.by.unfinished() {
		return nil
	}
	return b.stepUntil(ctx, func(s refresh.Step) bool { return s.Done })
}

// stepUntil takes one step after the other, and returns before the first one that is to be left.
func (b *batches) stepUntil(ctx context.Context, left func(refresh.Step) bool) error {
	b.stall, b.readiness = newStall(b.group), newReadiness(b.group)
	return b.group.repeat(ctx, func(ctx context.Context) (done bool, recheckAfter time.Duration, err error) {
		step, err := b.step(ctx, left)
		return left(step), step.RecheckAfter, err
	})
}

// step does what is to be done next, unless that is to be left.
func (b *batches) step(ctx context.Context, left func(refresh.Step) bool) (step refresh.Step, err error) {
	if problem := b.by.check(); problem != "" {
		return refresh.Step{}, &endError{report.Failed, problem + b.afterError()}
	}
	if problem := b.readiness.problem(); problem != "" {
		return refresh.Step{}, &endError{report.Failed, problem + "; " + b.by.stopped() + ": fix the cause, then " +
			"run the same command again" + b.afterError()}
	}
	step = b.decide()
	if left(step) {
		return step, nil
	}
	if step.Waiting != "" && step.Waiting != b.waiting {
		b.waiting = step.Waiting
		b.group.progress.note(refresh.OK, "%s", step.Waiting)
	}
	if step.Begins() || step.Raise > 0 {
		if step, err = b.choose(ctx, step); err != nil {
			return refresh.Step{}, err
		}
	}
	if err := b.apply(ctx, step); err != nil {
		return refresh.Step{}, err
	}
	if step.RecheckAfter > 0 { // The pause between batches is no stall.
		b.stall.since = time.Now()
	}
	return step, b.stall.check(nil, step.Waiting)
}

// choose decides on the next step again when the gate has passed, and it is known what instances should be launched
// from now. A surge, and what is left of it, do without the gate.
func (b *batches) choose(ctx context.Context, step refresh.Step) (refresh.Step, error) {
	if step.Begins() && b.group.state.isDue() {
		err := b.group.gates.pass(ctx, b.group, atBatch)
		if end, failed := errors.AsType[*endError](err); failed {
			return refresh.Step{}, &endError{end.outcome, end.message + b.afterError()}
		} else if err != nil {
			return refresh.Step{}, err
		}
		b.stall.since = time.Now()
	}
	if err := b.group.updateTarget(ctx); err != nil {
		return refresh.Step{}, err
	}
	err := b.beginning.check(ctx)
	if end, ineffective := errors.AsType[*endError](err); ineffective {
		err = &endError{end.outcome, end.message + b.afterError()}
	}
	return b.next(), err
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
	s := b.group.state
	now := refresh.Snapshot{
		Now: time.Now(), Group: s.group, Outdated: s.replaceable(), LastBatchEnded: b.batchEnded,
	}
	if s.policy.nodes.cluster != nil && !b.noNodesKnown {
		now.NotReady = s.policy.nodes.notReady(s.group.Instances)
	}
	step := b.by.next(now)
	if (step.Begins() || step.Raise > 0) && !b.group.hours.open() {
		return refresh.Step{
			Waiting: "no batch begins: " + b.group.cfg.Windows.Describe(now.Now), RecheckAfter: b.group.cfg.PollInterval,
		}
	}
	if err := s.policy.nodes.stale(); err != nil && now.NotReady != nil && step.Replaces() {
		return refresh.Step{Waiting: "waiting for the nodes to be readable again: " + err.Error()}
	}
	return step
}

// apply makes the calls of a step.
func (b *batches) apply(ctx context.Context, step refresh.Step) error {
	ctx, cancel := uncancelled(ctx)
	defer cancel()
	switch {
	case step.Confirm, step.Raise > 0, step.Lower:
		return (capacity{b.group, b.aws}).set(ctx, b.next)
	case step.Replaces(), step.Forget:
		sent, err := b.by.send(ctx, step)
		b.inFlight = b.inFlight || sent
		return err
	}
	return nil
}

// stop restores the desired capacity. Nothing else can be undone.
func (b *batches) stop(ctx context.Context) string {
	g, err := b.group.read(ctx)
	if err != nil {
		return fmt.Sprintf("%s; the desired capacity could not be read: %v", b.by.leftBehind(), err)
	}
	surge, raised := refresh.SurgeOf(g)
	switch {
	case !raised:
		return b.by.leftBehind()
	case surge.InDoubt(g.Desired): // The next run finds out.
		return b.leftBehind()
	}
	desired, err := b.aws.Lower(ctx, g)
	if err != nil {
		return fmt.Sprintf("%s; the desired capacity could not be lowered again: %v", b.by.leftBehind(), err)
	}
	return fmt.Sprintf("%s; the desired capacity was lowered from %d to %d", b.by.leftBehind(), g.Desired, desired)
}

func (*batches) continues() bool { return false }

func (b *batches) leftBehind() string {
	return b.by.leftBehind() + "; run the same command again to continue" + b.afterError()
}

// afterError describes the desired capacity if it stays raised.
func (b *batches) afterError() string {
	surge, raised := refresh.SurgeOf(b.group.state.group)
	if !raised {
		return ""
	}
	return fmt.Sprintf("; the desired capacity stays raised from %d to %d until the same command is run again",
		surge.From, surge.To)
}
