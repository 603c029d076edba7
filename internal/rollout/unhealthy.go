package rollout

import (
	"context"
	"errors"
	"time"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// replace is the rollout by marking instances unhealthy: a batch at a time, and the next one when the last
// has been replaced. What was done before, by a trigger that was killed for instance, is seen in what AWS
// says.
func (r *rollout) replace(ctx context.Context) ending {
	b := &batches{rollout: r, marked: map[string]bool{}, stall: r.newStall()}
	for failures := 0; ; {
		again, e := b.step(ctx)
		switch {
		case e.over() && e.outcome != report.Error:
			return e
		case e.over() && ctx.Err() != nil: // The call was not cut off, and failed on its own.
			return stopped(ctx)
		case e.over():
			if failures++; failures == patience {
				return e
			}
			r.card.note(refresh.Warn, "will be tried again: %s", e.message)
		default:
			failures = 0
		}
		if !r.rest(ctx, again) {
			return stopped(ctx)
		}
		if e := b.look(ctx); e.over() {
			return e
		}
	}
}

// batches is what this run has done.
type batches struct {
	*rollout
	marked   map[string]bool // marked unhealthy, or terminated
	flying   bool            // A batch is on its way.
	batched  time.Time       // when the last one was seen to be over
	waiting  string
	stall    *stall
	failures int // looks in a row
}

// step does what is to be done next.
func (b *batches) step(ctx context.Context) (again time.Duration, e ending) {
	step := refresh.Next(b.moment(), b.cfg.Pace)
	if b.flying && !step.InFlight {
		b.flying, b.batched = false, time.Now()
		step = refresh.Next(b.moment(), b.cfg.Pace)
	}
	if step.Done {
		return 0, b.close(ctx)
	}
	if step.Waiting != "" && step.Waiting != b.waiting {
		b.waiting = step.Waiting
		b.card.note(refresh.OK, "%s", step.Waiting)
	}
	if len(step.Mark)+len(step.Terminate) > 0 {
		if e := b.aim(ctx); e.over() {
			return 0, e
		}
		step = refresh.Next(b.moment(), b.cfg.Pace)
	}
	if e := b.do(ctx, step); e.over() {
		return 0, e
	}
	if step.RecheckAfter > 0 { // it is told to wait
		b.stall.since = time.Now()
	}
	return step.RecheckAfter, b.stall.judge(b.group, nil, step.Waiting)
}

// aim asks what instances should be now, before a batch is chosen: if $Latest has moved, what the group has
// launched since would be taken for outdated, without an end.
func (b *batches) aim(ctx context.Context) ending {
	if e := b.ask(ctx); e.over() {
		return e
	}
	if now := b.assessed().target; now.Text != b.target.Text {
		b.target = now
		b.card.set(func(g *report.Group) { g.Target = now.Text })
		b.card.note(refresh.Warn, "the target has changed meanwhile: instances are now launched from %s", now.Text)
	}
	return ending{}
}

// close waits for old instances to leave, as far as is asked for, and looks whether all is done.
func (b *batches) close(ctx context.Context) ending {
	if e := b.drained(ctx); e.over() {
		return e
	}
	return b.verify(ctx)
}

// do does a step.
func (b *batches) do(ctx context.Context, step refresh.Step) ending {
	ctx, cancel := calling(ctx)
	defer cancel()
	switch {
	case step.Raise > 0:
		s, err := b.writer.Raise(ctx, b.group, step.Raise)
		if err != nil {
			return b.broken(ctx, err)
		}
		b.card.note(refresh.OK, "desired capacity raised from %d to %d", s.From, s.To)
	case step.Lower:
		return b.lower(ctx)
	case len(step.Mark)+len(step.Terminate) > 0:
		return b.send(ctx, step)
	}
	return ending{}
}

func (b *batches) lower(ctx context.Context) ending {
	restored, err := b.writer.Lower(ctx, b.group)
	switch {
	case err != nil:
		return b.broken(ctx, err)
	case restored:
		b.card.note(refresh.OK, "desired capacity given back")
	default:
		b.card.note(refresh.Warn, "the desired capacity is left at %d: somebody else has changed it since it was "+
			"raised", b.group.Desired)
	}
	return ending{}
}

// send sends a batch on its way, unless a refresh is under way: two that replace instances know nothing of
// each other.
func (b *batches) send(ctx context.Context, step refresh.Step) ending {
	active, err := b.active(ctx, b.group.Name)
	if err != nil {
		return b.broken(ctx, err)
	}
	if active != nil {
		return ending{report.Conflict, "instance refresh " + active.ID + " was started meanwhile: no further " +
			"instance is marked; run the same command again when it is over"}
	}
	for _, id := range step.Mark {
		if e := b.sent(ctx, id, b.writer.MarkUnhealthy(ctx, id), "marked unhealthy"); e.over() {
			return e
		}
	}
	for _, id := range step.Terminate {
		err := b.writer.Terminate(ctx, id)
		if e := b.sent(ctx, id, err, "terminated, and the desired capacity lowered by it"); e.over() {
			return e
		}
	}
	return ending{}
}

// sent keeps and tells that an instance was sent on its way. One that went on its own is as good.
func (b *batches) sent(ctx context.Context, id string, err error, what string) ending {
	if err != nil && !errors.Is(err, refresh.ErrGone) {
		return b.broken(ctx, err)
	}
	if err != nil {
		what = "is going already"
	}
	b.marked[id], b.flying = true, true
	b.card.note(refresh.OK, "%s %s", id, what)
	return ending{}
}

// moment is what is known now.
func (b *batches) moment() refresh.Snapshot {
	m := refresh.Snapshot{
		Now: time.Now(), Group: b.group, Outdated: b.replaceable(),
		Marked: b.marked, LastBatchEnded: b.batched,
	}
	if b.view == nil || b.blind {
		return m
	}
	m.NotReady = map[string]bool{}
	for _, i := range b.group.Instances {
		if node := b.node(i.ID); i.InService() && (node == nil || !node.Ready) {
			m.NotReady[i.ID] = true
		}
	}
	return m
}

// look describes the group anew, and shows it.
func (b *batches) look(ctx context.Context) ending {
	g, err := b.reader.Group(ctx, b.group.Name)
	switch {
	case ctx.Err() != nil:
		return stopped(ctx)
	case err != nil:
		return b.failed(&b.failures, err)
	default:
		b.failures = 0
		b.remember(g)
		b.show(nil)
	}
	return ending{}
}
