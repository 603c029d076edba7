package mode

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/rollout/hold"
	"github.com/node-drainer/node-drainer/internal/rollout/loop"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// markVisible is how long after a mark the description of an instance may still show it as healthy. Auto Scaling
// documents no time; calls later than this describe what is so.
const markVisible = time.Minute

// mostMarks is how often an instance is marked unhealthy. A health check, or another client, may set it healthy again
// until its termination begins.
const mostMarks = 3

// mark is what this run has done to an instance.
type mark struct {
	at         time.Time
	times      int
	terminated bool // It was terminated, not marked unhealthy.
	takenBack  bool // The instance is healthy again.
}

// marks are the instances that this run has marked unhealthy or terminated, by their ids.
type marks map[string]mark

func (m marks) add(id string, terminated bool) {
	m[id] = mark{at: time.Now(), times: m[id].times + 1, terminated: terminated}
}

// active are the instances whose marks were not taken back.
func (m marks) active() map[string]bool {
	active := map[string]bool{}
	for id, mark := range m {
		active[id] = !mark.takenBack
	}
	return active
}

// takeBack finds the instances that are in service and healthy long after they were marked, and counts their marks as
// taken back.
func (m marks) takeBack(g refresh.Group) (found []string) {
	for _, i := range g.Instances {
		mark, marked := m[i.ID]
		done := !marked || mark.terminated || mark.takenBack
		if done || !i.Healthy || !i.InService() || time.Since(mark.at) < markVisible {
			continue
		}
		mark.takenBack = true
		m[i.ID] = mark
		found = append(found, i.ID)
	}
	return found
}

// marker marks instances unhealthy, and terminates them.
type marker struct {
	group    *loop.Group
	aws      batchWriter
	capacity *hold.Capacity
	marks    marks
}

func (m marker) next(now refresh.Snapshot) refresh.Step {
	now.Marked = m.marks.active()
	return refresh.Next(now, m.group.Config.Pace)
}

func (m marker) unfinished() bool {
	_, raised := refresh.SurgeOf(m.group.State.Group)
	return raised
}

func (marker) remains() string {
	return "instances that are marked unhealthy are replaced, no further ones are marked"
}

// check looks for marks that were taken back. Such an instance is marked again in one of the next batches. A
// problem ends the rollout, because that does not help.
func (m marker) check(context.Context) (problem string) {
	return m.checkTakenBack("%s is healthy again after %d marks: look for what sets the health of the group's "+
		"instances, then run the same command again",
		"%s is healthy again, although it was marked unhealthy: it will be marked again")
}

// checkTakenBack notes the instances of which a mark was taken back, and returns the problem if one has been mostMarks
// times. The texts are formats for the instance, and for how often that was.
func (m marker) checkTakenBack(problem, note string) string {
	for _, id := range m.marks.takeBack(m.group.State.Group) {
		if times := m.marks[id].times; times >= mostMarks {
			return fmt.Sprintf(problem, id, times)
		}
		m.group.Progress.Note(refresh.Warn, note, id)
	}
	return ""
}

// send marks and terminates the instances of a batch, unless a refresh is under way: AWS would replace more
// instances at a time than either of the two intends.
func (m marker) send(ctx context.Context, step refresh.Step) (sent bool, err error) {
	if err := m.checkNoRefresh(ctx); err != nil {
		return false, err
	}
	if len(step.Mark) > 0 {
		if err := m.capacity.KeepSurge(ctx); err != nil {
			return false, err
		}
	}
	for _, id := range slices.Concat(step.Mark, step.Terminate) {
		terminate := slices.Contains(step.Terminate, id)
		call, done := m.aws.MarkUnhealthy, "marked unhealthy"
		if terminate {
			call, done = m.capacity.Terminate, "terminated, and the desired capacity lowered by one"
		}
		err := call(ctx, id)
		switch {
		case errors.Is(err, refresh.ErrGone):
			done = "is terminating already"
		case err != nil:
			return sent, err
		}
		m.marks.add(id, terminate)
		sent = true
		m.group.Progress.Note(refresh.OK, "%s %s", id, done)
	}
	return sent, nil
}

// checkNoRefresh returns an error if another client has started a refresh of the group.
func (m marker) checkNoRefresh(ctx context.Context) error {
	active, err := m.group.Planner.ActiveRefresh(ctx, m.group.Name)
	if err != nil || active == nil {
		return err
	}
	return loop.EndWith(report.Conflict, "instance refresh "+active.ID+" was started by another client: no further "+
		"instance is replaced; run the same command again when it has ended")
}
