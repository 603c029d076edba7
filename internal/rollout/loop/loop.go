package loop

import (
	"context"
	"errors"
	"time"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/retry"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// Step decides what is to be done next, from what is known of the group, and does that. It returns what it waits for,
// or nil when nothing is left for it to do.
type Step func(ctx context.Context) (*Wait, error)

// Wait is why a step is taken again when the group was described again.
type Wait struct {
	Why      string           // for the user; empty if something was done, or AWS is at work
	Level    refresh.Level    // of the note that says why; none is made if it is empty
	Status   *refresh.Refresh // what is followed, or nil
	AtMost   time.Duration    // until the step is taken again, if it is shorter than a PollInterval; 0 is none
	Expected bool             // However long it takes, it is no stall.
}

// Run takes the steps in their order, each until it waits for nothing: it decides and acts on the group as it was
// described last, which is described again in between. All that takes time in a group is done here, so that it ends:
// with the last step, or with an error of a step, of ctx, or because nothing has changed for Config.StallTimeout.
func (g *Group) Run(ctx context.Context, steps ...Step) error {
	for _, take := range steps {
		for stall, tries, noted := newStall(g), 0, ""; ; {
			w, err := take(ctx)
			if err == nil && w == nil {
				break
			}
			if err == nil {
				tries = 0
			} else if w, err = g.tryAgain(ctx, err, &tries); err != nil {
				return err
			}
			if w.Level != "" && w.Why != "" && w.Why != noted {
				noted = w.Why
				g.Progress.Note(w.Level, "%s", w.Why)
			}
			if err := stall.check(w); err != nil {
				return err
			}
			if err := g.describeAgain(ctx, w.AtMost); err != nil {
				return err
			}
		}
	}
	return nil
}

// tryAgain returns the error of a step that ends the rollout, or what is waited for before the step is taken again: up
// to MaxFailures times in a row, or until Config.StallTimeout while another activity of Auto Scaling prevents it.
func (g *Group) tryAgain(ctx context.Context, err error, tries *int) (*Wait, error) {
	var end *EndError
	switch {
	case errors.As(err, &end), ctx.Err() != nil:
		return nil, err
	case errors.Is(err, refresh.ErrNoGroup):
		return nil, g.wasDeleted(err)
	case errors.Is(err, refresh.ErrBusy):
		return &Wait{Why: err.Error()}, nil
	}
	if *tries++; *tries == MaxFailures {
		return nil, err
	}
	g.Progress.Note(refresh.Warn, "step failed, retrying: %v", err)
	return &Wait{}, nil
}

// Final is the error of a step that is not taken again: repeating the call would not help.
func Final(ctx context.Context, err error) error {
	var end *EndError
	if err == nil || ctx.Err() != nil || errors.As(err, &end) {
		return err
	}
	return EndWith(report.Error, err.Error())
}

// Once is a step that waits for nothing. Its error is final.
func Once(do func(context.Context) error) Step {
	return func(ctx context.Context) (*Wait, error) { return nil, Final(ctx, do(ctx)) }
}

// describeAgain reads the group again after a pause, writes its records again if they are gone, and shows it.
func (g *Group) describeAgain(ctx context.Context, atMost time.Duration) error {
	if err := g.pause(ctx, atMost); err != nil {
		return err
	}
	if err := g.Retry(ctx, g.Describe); err != nil {
		return err
	}
	if err := g.Retry(ctx, g.writeRecords); err != nil {
		return err
	}
	g.Show(nil)
	return nil
}

// Retry repeats a call until it succeeds, up to MaxFailures times. That the group was deleted is final.
func (g *Group) Retry(ctx context.Context, call func(context.Context) error) error {
	for failures := 1; ; failures++ {
		err := call(ctx)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, refresh.ErrNoGroup):
			return g.wasDeleted(err)
		case failures == MaxFailures:
			return err
		}
		g.Progress.Note(refresh.Warn, "call failed, retrying: %v", err)
		if err := g.pause(ctx, 0); err != nil {
			return err
		}
	}
}

// wasDeleted is the end of a rollout whose group is gone.
func (g *Group) wasDeleted(err error) error {
	g.State.Deleted = true
	return EndWith(report.Error, "the group was deleted during the rollout, and its instances with it: "+err.Error())
}

// pause waits until the group is to be read again: for a PollInterval, or less if atMost is set and shorter.
// It returns an error if ctx ended.
func (g *Group) pause(ctx context.Context, atMost time.Duration) error {
	d := g.Config.PollInterval
	if atMost > 0 {
		d = min(d, atMost)
	}
	if !retry.Sleep(ctx, d) {
		return context.Cause(ctx)
	}
	return nil
}
