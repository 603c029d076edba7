package mode

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/node-drainer/node-drainer/internal/cluster"
	"github.com/node-drainer/node-drainer/internal/rollout/plan"
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
	aws standbyWriter
	marker
	emptied map[string]bool // instances whose nodes are empty, although the agent has left pods there
}

func (s *standby) next(now refresh.Snapshot) refresh.Step {
	now.Marked, now.Left, now.Drains = s.marks.active(), s.marks.terminated(), s.drains()
	return refresh.NextStandby(now, s.group.Config.Pace)
}

// check looks for instances that are in service again, for whatever reason. They are moved again.
func (s *standby) check(ctx context.Context) (problem string) {
	problem = s.checkTakenBack("%s is in service again after it was moved into Standby %d times: look for what returns "+
		"it, then run the same command again",
		"%s is in service again, although it was moved into Standby: it will be moved again")
	if problem != "" {
		return problem
	}
	return s.leftPods(ctx)
}

// leftPods names the instances in Standby whose drains have ended with pods on their nodes, which would be killed with
// them. The agent does not drain these again, and says nothing when the pods have left.
func (s *standby) leftPods(ctx context.Context) string {
	if then := s.group.Config.Pace.Then; then != refresh.ThenStop && then != refresh.ThenKeep {
		return ""
	}
	nodes := s.withPodsLeft()
	if s.emptied = map[string]bool{}; len(nodes) == 0 {
		return ""
	}
	loads, err := s.group.State.Policy.Nodes.Cluster.Loads(ctx, slices.Collect(maps.Values(nodes)))
	var left []string
	for id, node := range nodes {
		if load, ok := loads[node]; ok && err == nil && load.Pods == 0 {
			s.emptied[id] = true
			continue
		}
		left = append(left, fmt.Sprintf("%s (node %s: %s)", id, node, s.group.State.Policy.Nodes.Of(id).Drain.Message))
	}
	if len(left) == 0 {
		return ""
	}
	slices.Sort(left)
	found := fmt.Sprintf("the agent has left pods on the nodes of %s in Standby: %s", text.Count(len(left), "instance"),
		text.First(left, plan.MostNames))
	if err != nil {
		found += fmt.Sprintf("; whether they are there now is not known: %v", err)
	}
	return found + "; move the pods, or return the instances with trigger rollback, then run the same command again"
}

// withPodsLeft are the nodes, by instance, of which the agent says that it has left pods there.
func (s *standby) withPodsLeft() map[string]string {
	nodes := map[string]string{}
	for id, kept := range refresh.StandbyOf(s.group.State.Group).Held(s.group.State.Group) {
		n := s.group.State.Policy.Nodes.Of(id)
		if !kept && n != nil && n.DrainRequested && n.Drain != nil && n.Drain.LeftBehind {
			nodes[id] = n.Name
		}
	}
	return nodes
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
	for _, i := range s.group.State.Group.Instances {
		n := s.group.State.Policy.Nodes.Of(i.ID)
		if n == nil {
			drains[i.ID] = refresh.DrainState{Done: true}
			continue
		}
		isDone := n.Marked && n.Drain != nil && (n.Drain.Done || s.emptied[i.ID])
		drains[i.ID] = refresh.DrainState{Requested: n.DrainRequested, Done: n.DrainRequested && isDone}
	}
	return drains
}

// drain asks the agent to drain the nodes.
func (s *standby) drain(ctx context.Context, ids []string) (sent bool, err error) {
	for _, id := range ids {
		n := s.group.State.Policy.Nodes.Of(id)
		if n == nil {
			continue
		}
		if err := s.aws.RequestDrain(ctx, *n); err != nil {
			return sent, err
		}
		sent = true
		s.group.Progress.Note(refresh.OK, "%s: the agent was asked to drain node %s", id, n.Name)
	}
	return sent, nil
}

// keep records that the instances are replaced. With ThenStop it stops them before, which can be repeated.
func (s *standby) keep(ctx context.Context, ids []string) error {
	done := "replaced, and kept in Standby"
	if s.group.Config.Pace.Then == refresh.ThenStop {
		if err := s.aws.Stop(ctx, ids); err != nil {
			return err
		}
		done = "replaced, stopped, and kept in Standby"
	}
	record := refresh.StandbyOf(s.group.State.Group)
	for _, id := range ids {
		record[id] = true
	}
	if err := s.write(ctx, record); err != nil {
		return err
	}
	for _, id := range ids {
		s.group.Progress.Note(refresh.OK, "%s %s", id, done)
	}
	return nil
}

// enter records the instances, and then moves them. If one of them is not in service any more, AWS moves none: then the
// next step is decided on what is so.
func (s *standby) enter(ctx context.Context, ids []string) (sent bool, err error) {
	record := refresh.StandbyOf(s.group.State.Group)
	for _, id := range ids {
		record[id] = false
	}
	if err := s.write(ctx, record); err != nil {
		return false, err
	}
	err = s.aws.EnterStandby(ctx, s.group.Name, ids)
	if errors.Is(err, refresh.ErrGone) {
		s.group.Progress.Note(refresh.Warn, "not all of them were moved: %v", err)
		return false, nil
	}
	if err != nil {
		return false, err
	}
	for _, id := range ids {
		s.marks.add(id, false)
		s.group.Progress.Note(refresh.OK, "%s moved into Standby", id)
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
		s.group.Progress.Note(refresh.OK, "%s %s", id, done)
	}
	return sent, nil
}

// forget removes from the record what is not in Standby any more.
func (s *standby) forget(ctx context.Context) error {
	return s.write(ctx, refresh.StandbyOf(s.group.State.Group).Held(s.group.State.Group))
}

func (s *standby) write(ctx context.Context, record refresh.StandbyRecord) error {
	g := &s.group.State.Group
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
	return refresh.StandbyUnfinished(s.group.State.Group) || s.marker.unfinished()
}

// remains describes the instances that are in Standby, and what the group does without the trigger.
func (s *standby) remains() string {
	const stopped = "no further instance is moved into Standby"
	ids := []string{}
	for id, kept := range refresh.StandbyOf(s.group.State.Group) {
		if !kept {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return stopped
	}
	return fmt.Sprintf("%s; %s in Standby until the same command is run again", stopped,
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
