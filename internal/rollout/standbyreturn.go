package rollout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/node-drainer/node-drainer/internal/cluster"
	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/text"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// standbyReturner returns instances from Standby.
type standbyReturner interface {
	ExitStandby(ctx context.Context, group string, ids []string) error
	StartMachines(ctx context.Context, ids []string) error
	MachineStates(ctx context.Context, ids []string) (map[string]string, error)
	WithdrawDrain(ctx context.Context, n cluster.Node) error
}

// standbyReturn returns the instances of the record of a group to service.
type standbyReturn struct {
	standby
	aws      Writer
	returned int
	waiting  string // noted last
}

// returnStandby returns what the trigger has moved into Standby, and gives the new instances back.
func (t *Trigger) returnStandby(ctx context.Context, g *group) (ending, error) {
	l := &lease{group: g, aws: t.writer}
	if err := l.awaitExpiry(ctx); err != nil {
		return ending{}, err
	}
	leased, err := l.hold(ctx)
	defer l.release(ctx)
	if err != nil {
		return ending{}, err
	}
	r := &standbyReturn{standby: standby{g, t.writer, marker{g, t.writer, marks{}}}, aws: t.writer}
	if err := r.run(leased); err != nil {
		if lost := lossOf(leased); lost != nil {
			err = lost
		}
		return ending{}, fmt.Errorf("%w; run the same command again to continue", err)
	}
	(&beginning{group: g, aws: t.writer}).forget(ctx)
	return newHolds(g, t.writer).giveBack(leased, ending{report.Done, fmt.Sprintf("%s from Standby in service again",
		text.Plural(r.returned, "instance is", "instances are"))}), nil
}

// run takes one step after the other until nothing is left to do.
func (r *standbyReturn) run(ctx context.Context) error {
	stall := newStall(r.group)
	return r.group.repeat(ctx, func(ctx context.Context) (done bool, recheckAfter time.Duration, err error) {
		step, err := r.step(ctx)
		if err == nil && !step.Done {
			err = stall.check(nil, step.Waiting)
		}
		return step.Done, 0, err
	})
}

// step does what is to be done next. It describes the group just before it adds to the desired capacity.
func (r *standbyReturn) step(ctx context.Context) (refresh.ReturnStep, error) {
	step, err := r.next(ctx)
	if err == nil && len(step.Exit) > 0 {
		if err = r.group.describe(ctx); err == nil {
			step, err = r.next(ctx)
		}
	}
	switch {
	case err != nil || step.Done:
		return step, err
	case step.Problem != "":
		return step, &endError{report.Refused, step.Problem}
	case step.Waiting != "" && step.Waiting != r.waiting:
		r.waiting = step.Waiting
		r.group.progress.note(refresh.OK, "%s", step.Waiting)
	}
	ctx, cancel := uncancelled(ctx)
	defer cancel()
	return step, r.apply(ctx, step)
}

// readAges reads when instances were launched that were not read before.
func (r *standbyReturn) readAges(ctx context.Context) error {
	g := r.group.state.group
	if !slices.ContainsFunc(g.Instances, func(i refresh.Instance) bool { return i.Launched.IsZero() }) {
		return nil
	}
	return r.group.planner.reader.Complete(ctx, []refresh.Group{g})
}

func (r *standbyReturn) next(ctx context.Context) (refresh.ReturnStep, error) {
	s := r.group.state
	if err := r.readAges(ctx); err != nil {
		return refresh.ReturnStep{}, err
	}
	now := refresh.ReturnSnapshot{Group: s.group, RaiseMax: r.group.cfg.RaiseMax}
	record := refresh.StandbyOf(s.group)
	held := s.group.InstanceIDs(func(i refresh.Instance) bool { _, ours := record[i.ID]; return ours && i.Standby() })
	if len(held) > 0 {
		machines, err := r.aws.MachineStates(ctx, held)
		if err != nil {
			return refresh.ReturnStep{}, err
		}
		now.Machines = machines
	}
	if s.policy.nodes.cluster != nil {
		now.Drains, now.NotReady = r.drains(), s.policy.nodes.notReady(s.group.Instances)
		for _, i := range s.group.Instances {
			if n := s.policy.nodes.of(i.ID); n != nil && n.Marked && i.InService() {
				now.NotReady[i.ID] = true
			}
		}
	}
	return refresh.NextReturn(now), nil
}

// apply makes the calls of a step.
func (r *standbyReturn) apply(ctx context.Context, step refresh.ReturnStep) error {
	switch {
	case len(step.Start) > 0:
		return r.note(step.Start, "started", r.aws.StartMachines(ctx, step.Start))
	case len(step.Withdraw) > 0:
		return r.withdraw(ctx, step.Withdraw)
	case len(step.Exit) > 0:
		return r.exit(ctx, step.Exit)
	case len(step.Terminate) > 0:
		return r.giveBack(ctx, step.Terminate)
	case step.Settle:
		if err := (capacity{r.group, r.aws}).write(ctx, refresh.Surge{}); err != nil {
			return err
		}
		return r.write(ctx, refresh.StandbyRecord{})
	}
	return nil
}

func (r *standbyReturn) note(ids []string, done string, err error) error {
	if err != nil {
		return err
	}
	for _, id := range ids {
		r.group.progress.note(refresh.OK, "%s %s", id, done)
	}
	return nil
}

func (r *standbyReturn) withdraw(ctx context.Context, ids []string) error {
	for _, id := range ids {
		if n := r.group.state.policy.nodes.of(id); n != nil {
			if err := r.aws.WithdrawDrain(ctx, *n); err != nil {
				return err
			}
		}
	}
	return r.note(ids, "is not to be drained any more", nil)
}

// exit records the surge before and after the call that adds it, so that another process knows what is left of it. If
// the maximum size has no room for it, and may be raised, it raises that before.
func (r *standbyReturn) exit(ctx context.Context, ids []string) error {
	desired, c := r.group.state.group.Desired, capacity{r.group, r.aws}
	if err := c.raiseMax(ctx, desired+len(ids)); err != nil {
		return err
	}
	surge := refresh.Surge{From: desired, To: desired + len(ids), Raising: true}
	if err := c.write(ctx, surge); err != nil {
		return err
	}
	if err := r.aws.ExitStandby(ctx, r.group.name, ids); err != nil {
		return err
	}
	r.returned += len(ids)
	surge.Raising = false
	return r.note(ids, "moved out of Standby", c.write(ctx, surge))
}

// giveBack terminates new instances, each with its part of the surge.
func (r *standbyReturn) giveBack(ctx context.Context, ids []string) error {
	for _, id := range ids {
		err := capacity{r.group, r.aws}.terminate(ctx, id)
		if errors.Is(err, refresh.ErrGone) {
			continue
		}
		if err := r.note([]string{id}, "terminated, and the desired capacity lowered by one", err); err != nil {
			return err
		}
	}
	return nil
}
