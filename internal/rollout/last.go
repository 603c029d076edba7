package rollout

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/text"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// callTimeout bounds a call that changes something. It is not cut off when the run is stopped: whether AWS
// had served it would not be known.
const callTimeout = time.Minute

// errUnanswered ends a call to which there was no answer in its time. It is no end of the run.
var errUnanswered = errors.New("no answer within " + callTimeout.String())

func calling(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(context.WithoutCancel(ctx), callTimeout, errUnanswered)
}

// last does what is asked for when a rollout is stopped before its end, and adds what is left behind. The id
// is that of the refresh which is followed; it is empty if there is none.
func (r *rollout) last(ctx context.Context, e ending, id string) ending {
	switch {
	case r.deleted:
	case e.outcome == report.Interrupted && r.cfg.OnInterrupt != Detach:
		e.message += ": " + r.undo(ctx, id)
	case e.outcome == report.Interrupted, e.outcome == report.TimedOut, e.outcome == report.Stalled,
		e.outcome == report.Error && id != "":
		e.message += ": " + r.leftBehind(id)
	case e.outcome == report.Error, e.outcome == report.Conflict:
		e.message += r.raised()
	}
	r.untaint(ctx, e)
	return e
}

// raised tells of a surge that is left behind.
func (r *rollout) raised() string {
	s, raised := refresh.SurgeOf(r.group)
	if r.cfg.Mode != refresh.ModeUnhealthy || !raised {
		return ""
	}
	return fmt.Sprintf("; the desired capacity stays raised from %d to %d until the same command is run again",
		s.From, s.To)
}

func (r *rollout) leftBehind(id string) string {
	const again = "run the same command again to go on"
	switch {
	case r.cfg.Mode == refresh.ModeUnhealthy:
		return "instances that are marked unhealthy are replaced, no further ones are marked; " + again + r.raised()
	case id == "":
		return "no instance refresh was started"
	case r.ended:
		return r.drains(id)
	default:
		return fmt.Sprintf("instance refresh %s goes on; %s, or stop it with trigger cancel --asg %s",
			id, again, r.group.Name)
	}
}

// drains says what is left when the refresh itself is over.
func (r *rollout) drains(id string) string {
	message := "instance refresh " + id + " is over"
	if n := len(r.leaving()); n > 0 {
		message += fmt.Sprintf("; %s on the way out, which goes on; run the same command again to follow that",
			text.Plural(n, "old instance is", "old instances are"))
	}
	return message
}

// undo cancels the refresh, or has it rolled back, and says what came of it. In ModeUnhealthy there is only a
// surge to be taken back.
func (r *rollout) undo(ctx context.Context, id string) string {
	ctx, cancel := calling(ctx)
	defer cancel()
	if r.cfg.Mode == refresh.ModeUnhealthy {
		return r.unsurge(ctx)
	}
	if id == "" || r.ended || !r.runs(ctx, id) {
		return r.leftBehind(id)
	}
	if r.cfg.OnInterrupt == Rollback {
		_, err := r.writer.Rollback(ctx, r.group.Name)
		switch {
		case err == nil:
			return "instance refresh " + id + " is rolled back, which goes on; trigger status tells how far it is"
		case errors.Is(err, refresh.ErrNoRefresh):
			return "instance refresh " + id + " had ended already"
		default:
			return fmt.Sprintf("instance refresh %s could not be rolled back and goes on: %v", id, err)
		}
	}
	_, err := r.writer.Cancel(ctx, r.group.Name)
	switch {
	case err == nil:
		return "instance refresh " + id + " is cancelled; instances that are being replaced go on, and so do " +
			"their drains"
	case errors.Is(err, refresh.ErrNoRefresh):
		return "instance refresh " + id + " had ended already"
	default:
		return fmt.Sprintf("instance refresh %s could not be cancelled and goes on: %v", id, err)
	}
}

// runs tells whether the refresh still runs. AWS cancels whatever refresh of the group it finds, which may be
// another one by now. If it cannot be asked, the refresh is taken to run.
func (r *rollout) runs(ctx context.Context, id string) bool {
	active, err := r.active(ctx, r.group.Name)
	r.ended = err == nil && (active == nil || active.ID != id)
	return !r.ended
}

func (r *rollout) unsurge(ctx context.Context) string {
	const marked = "instances that are marked unhealthy are replaced, no further ones are marked"
	g, err := r.reader.Group(ctx, r.group.Name)
	if err != nil {
		return fmt.Sprintf("%s; whether the desired capacity is raised could not be seen: %v", marked, err)
	}
	if _, surged := refresh.SurgeOf(g); !surged {
		return marked
	}
	restored, err := r.writer.Lower(ctx, g)
	switch {
	case err != nil:
		return fmt.Sprintf("%s; the desired capacity could not be given back: %v", marked, err)
	case restored:
		return marked + "; the desired capacity was given back"
	default:
		return fmt.Sprintf("%s; the desired capacity is left at %d: somebody else has changed it",
			marked, g.Desired)
	}
}
