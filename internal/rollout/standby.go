package rollout

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/node-drainer/node-drainer/internal/cluster"
	"github.com/node-drainer/node-drainer/internal/text"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// standbyWriter moves instances into Standby, and has them leave.
type standbyWriter interface {
	EnterStandby(ctx context.Context, group string, ids []string) error
	TerminateStandby(ctx context.Context, instanceID string) error
	WriteStandby(ctx context.Context, g refresh.Group, record refresh.StandbyRecord) error
	Stop(ctx context.Context, ids []string) error
	RequestDrain(ctx context.Context, n cluster.Node) error
}

// standby replaces the instances of batches by way of Standby. The record in the tags of the group is written before
// instances are moved, so that another process continues with them.
type standby struct {
	group *group
	aws   standbyWriter
	marker
}

func (s *standby) next(now refresh.Snapshot) refresh.Step {
	now.Marked, now.Left, now.Drains = s.marks.active(), s.marks.terminated(), s.drains()
	return refresh.NextStandby(now, s.group.cfg.Pace)
}

// check looks for instances that are in service again, for whatever reason. They are moved again.
func (s *standby) check() (problem string) {
	for _, id := range s.marks.takeBack(s.group.state.group) {
		if times := s.marks[id].times; times >= mostMarks {
			return fmt.Sprintf("%s is in service again after it was moved into Standby %d times: look for what returns it, "+
				"then run the same command again", id, times)
		}
		s.group.progress.note(refresh.Warn, "%s is in service again, although it was moved into Standby: it will be moved "+
			"again", id)
	}
	return ""
}

// send makes the calls of a step. Instances that terminate together with a surge are left to marker.
func (s *standby) send(ctx context.Context, step refresh.Step) (sent bool, err error) {
	switch {
	case step.Forget:
		return false, s.forget(ctx)
	case len(step.Terminate) > 0:
		return s.marker.send(ctx, step)
	}
	if err := s.checkNoRefresh(ctx); err != nil {
		return false, err
	}
	switch {
	case len(step.Standby) > 0:
		return s.enter(ctx, step.Standby)
	case len(step.Drain) > 0:
		return s.drain(ctx, step.Drain)
	case len(step.Keep) > 0:
		return true, s.keep(ctx, step.Keep)
	}
	return s.leave(ctx, step.Leave)
}

// drains are the drains of the nodes of the group. An instance without a node has nothing to drain.
func (s *standby) drains() map[string]refresh.DrainState {
	drains := map[string]refresh.DrainState{}
	for _, i := range s.group.state.group.Instances {
		n := s.group.state.policy.nodes.of(i.ID)
		if n == nil {
			drains[i.ID] = refresh.DrainState{Done: true}
			continue
		}
		drains[i.ID] = refresh.DrainState{
			Requested: n.DrainRequested, Done: n.DrainRequested && n.Marked && n.Drain != nil && n.Drain.Done,
		}
	}
	return drains
}

// drain asks the agent to drain the nodes.
func (s *standby) drain(ctx context.Context, ids []string) (sent bool, err error) {
	for _, id := range ids {
		n := s.group.state.policy.nodes.of(id)
		if n == nil {
			continue
		}
		if err := s.aws.RequestDrain(ctx, *n); err != nil {
			return sent, err
		}
		sent = true
		s.group.progress.note(refresh.OK, "%s: the agent was asked to drain node %s", id, n.Name)
	}
	return sent, nil
}

// keep records that the instances are replaced. With ThenStop it stops them before, which can be repeated.
func (s *standby) keep(ctx context.Context, ids []string) error {
	done := "replaced, and kept in Standby"
	if s.group.cfg.Pace.Then == refresh.ThenStop {
		if err := s.aws.Stop(ctx, ids); err != nil {
			return err
		}
		done = "replaced, stopped, and kept in Standby"
	}
	record := refresh.StandbyOf(s.group.state.group)
	for _, id := range ids {
		record[id] = true
	}
	if err := s.write(ctx, record); err != nil {
		return err
	}
	for _, id := range ids {
		s.group.progress.note(refresh.OK, "%s %s", id, done)
	}
	return nil
}

// enter records the instances, and then moves them. If one of them is not in service any more, AWS moves none: then the
// next step is decided on what is so.
func (s *standby) enter(ctx context.Context, ids []string) (sent bool, err error) {
	record := refresh.StandbyOf(s.group.state.group)
	for _, id := range ids {
		record[id] = false
	}
	if err := s.write(ctx, record); err != nil {
		return false, err
	}
	err = s.aws.EnterStandby(ctx, s.group.name, ids)
	if errors.Is(err, refresh.ErrGone) {
		s.group.progress.note(refresh.Warn, "not all of them were moved: %v", err)
		return false, nil
	}
	if err != nil {
		return false, err
	}
	for _, id := range ids {
		s.marks.add(id, false)
		s.group.progress.note(refresh.OK, "%s moved into Standby", id)
	}
	return true, nil
}

// leave terminates instances in Standby.
func (s *standby) leave(ctx context.Context, ids []string) (sent bool, err error) {
	for _, id := range ids {
		done := "terminated"
		switch err := s.aws.TerminateStandby(ctx, id); {
		case errors.Is(err, refresh.ErrGone):
			done = "is terminating already"
		case err != nil:
			return sent, err
		}
		sent = true
		s.marks.add(id, true)
		s.group.progress.note(refresh.OK, "%s %s", id, done)
	}
	return sent, nil
}

// forget removes from the record what is not in Standby any more.
func (s *standby) forget(ctx context.Context) error {
	return s.write(ctx, refresh.StandbyOf(s.group.state.group).Held(s.group.state.group))
}

func (s *standby) write(ctx context.Context, record refresh.StandbyRecord) error {
	g := &s.group.state.group
	if err := s.aws.WriteStandby(ctx, *g, record); err != nil {
		return err
	}
	set, remove := refresh.StandbyTags(*g, record)
	g.Tags = maps.Clone(g.Tags)
	maps.Copy(g.Tags, set)
	for _, key := range remove {
		delete(g.Tags, key)
	}
	return nil
}

func (s *standby) unfinished() bool {
	return refresh.StandbyUnfinished(s.group.state.group) || s.marker.unfinished()
}

func (s *standby) stopped() string { return "no further instance is moved into Standby" }

// leftBehind describes the instances that are in Standby, and what the group does without the trigger.
func (s *standby) leftBehind() string {
	ids := []string{}
	for id, kept := range refresh.StandbyOf(s.group.state.group) {
		if !kept {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return s.stopped()
	}
	return fmt.Sprintf("%s; %s in Standby until the same command is run again", s.stopped(),
		text.Plural(len(ids), "instance stays", "instances stay"))
}

// terminated are the instances that this run has terminated a moment ago, so that their description may not show it.
func (m marks) terminated() map[string]bool {
	terminated := map[string]bool{}
	for id, mark := range m {
		terminated[id] = mark.terminated && time.Since(mark.at) < markVisible
	}
	return terminated
}
