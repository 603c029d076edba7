package mode

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/node-drainer/node-drainer/internal/cluster"
	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/rollout/loop"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// standbyReturner returns instances from Standby.
type standbyReturner interface {
	ExitStandby(ctx context.Context, group string, ids []string) error
	StartMachines(ctx context.Context, ids []string) error
	MachineStates(ctx context.Context, ids []string) (map[string]string, error)
	WithdrawDrain(ctx context.Context, n cluster.Node) error
}

// StandbyReturn returns the instances of the record of a group to service.
type StandbyReturn struct {
	standby
	aws      Writer
	Returned int
}

// NewStandbyReturn returns the return of what the record of the group lists.
func NewStandbyReturn(g *loop.Group, aws Writer) *StandbyReturn {
	return &StandbyReturn{standby: standby{aws: aws, marker: newMarker(g, aws)}, aws: aws}
}

// Step does what is to be done next. It describes the group just before it adds to the desired capacity.
func (r *StandbyReturn) Step(ctx context.Context) (*loop.Wait, error) {
	step, err := r.next(ctx)
	if err == nil && len(step.Exit) > 0 {
		if err = r.group.Describe(ctx); err == nil {
			step, err = r.next(ctx)
		}
	}
	w := &loop.Wait{Why: step.Waiting, Level: refresh.OK}
	switch {
	case err != nil || step.Done:
		return nil, err
	case step.Problem != "":
		return nil, loop.EndWith(report.Refused, step.Problem)
	}
	ctx, cancel := loop.Uncancelled(ctx)
	defer cancel()
	return w, r.apply(ctx, step)
}

// readAges reads when instances were launched that were not read before.
func (r *StandbyReturn) readAges(ctx context.Context) error {
	g := r.group.State.Group
	if !slices.ContainsFunc(g.Instances, func(i refresh.Instance) bool { return i.Launched.IsZero() }) {
		return nil
	}
	return r.group.Planner.Reader.Complete(ctx, []refresh.Group{g})
}

func (r *StandbyReturn) next(ctx context.Context) (refresh.ReturnStep, error) {
	s := r.group.State
	if err := r.readAges(ctx); err != nil {
		return refresh.ReturnStep{}, err
	}
	now := refresh.ReturnSnapshot{
		Group: s.Group, RaiseMax: r.group.Config.RaiseMax, SurgeInDoubt: r.capacity.InDoubt(),
	}
	record := refresh.StandbyOf(s.Group)
	held := s.Group.InstanceIDs(func(i refresh.Instance) bool { _, ours := record[i.ID]; return ours && i.Standby() })
	if len(held) > 0 {
		machines, err := r.aws.MachineStates(ctx, held)
		if err != nil {
			return refresh.ReturnStep{}, err
		}
		now.Machines = machines
	}
	if s.Policy.Nodes.Cluster != nil {
		now.Drains, now.NotReady = r.drains(), s.Policy.Nodes.NotReady(s.Group.Instances)
		for _, i := range s.Group.Instances {
			if n := s.Policy.Nodes.Of(i.ID); n != nil && n.Marked && i.InService() {
				now.NotReady[i.ID] = true
			}
		}
	}
	return refresh.NextReturn(now), nil
}

// apply makes the calls of a step.
func (r *StandbyReturn) apply(ctx context.Context, step refresh.ReturnStep) error {
	switch {
	case step.Confirm:
		_, err := r.capacity.Confirm(ctx)
		return err
	case len(step.Start) > 0:
		return r.note(step.Start, "started", r.aws.StartMachines(ctx, step.Start))
	case len(step.Withdraw) > 0:
		return r.withdraw(ctx, step.Withdraw)
	case len(step.Exit) > 0:
		return r.exit(ctx, step.Exit)
	case len(step.Terminate) > 0:
		return r.giveBack(ctx, step.Terminate)
	case step.Settle:
		if err := r.capacity.Write(ctx, refresh.Surge{}); err != nil {
			return err
		}
		return r.write(ctx, refresh.StandbyRecord{})
	}
	return nil
}

func (r *StandbyReturn) note(ids []string, done string, err error) error {
	if err != nil {
		return err
	}
	for _, id := range ids {
		r.group.Progress.Note(refresh.OK, "%s %s", id, done)
	}
	return nil
}

func (r *StandbyReturn) withdraw(ctx context.Context, ids []string) error {
	for _, id := range ids {
		if n := r.group.State.Policy.Nodes.Of(id); n != nil {
			if err := r.aws.WithdrawDrain(ctx, *n); err != nil {
				return err
			}
		}
	}
	return r.note(ids, "is not to be drained any more", nil)
}

// exit records the surge before and after the call that adds it, so that another process knows what is left of it. If
// the maximum size has no room for it, and may be raised, it raises that before.
func (r *StandbyReturn) exit(ctx context.Context, ids []string) error {
	desired, c := r.group.State.Group.Desired, r.capacity
	if err := c.RaiseMax(ctx, desired+len(ids)); err != nil {
		return err
	}
	surge := refresh.Surge{
		From: desired, To: desired + len(ids), Raising: true, Before: desired, Since: time.Now().Truncate(time.Second),
	}
	if err := c.Write(ctx, surge); err != nil {
		return err
	}
	if err := r.aws.ExitStandby(ctx, r.group.Name, ids); err != nil {
		return err
	}
	r.Returned += len(ids)
	surge = refresh.Surge{From: surge.From, To: surge.To}
	return r.note(ids, "moved out of Standby", c.Write(ctx, surge))
}

// giveBack terminates new instances, each with its part of the surge.
func (r *StandbyReturn) giveBack(ctx context.Context, ids []string) error {
	for _, id := range ids {
		err := r.capacity.Terminate(ctx, id)
		if errors.Is(err, refresh.ErrGone) {
			continue
		}
		if err := r.note([]string{id}, "terminated, and the desired capacity lowered by one", err); err != nil {
			return err
		}
	}
	return nil
}
