package hold

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/node-drainer/node-drainer/internal/autoscaler"
	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/retry"
	"github.com/node-drainer/node-drainer/internal/rollout/loop"
	"github.com/node-drainer/node-drainer/internal/rollout/plan"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

const (
	// pauseDuration is how long a pause lasts without a renewal, and pauseRenewal the time between two of them.
	pauseDuration, pauseRenewal = 2 * time.Minute, 30 * time.Second
)

// Pause pauses the Cluster Autoscaler from the first group that is changed to the end of the last one.
type Pause struct {
	scaler plan.Autoscaler // nil: it is not paused
	cfg    plan.Config
	groups atomic.Int32 // that have not ended

	turn chan struct{} // It is full while a group pauses it.
	done bool
	err  error
	end  func() // stops the renewals; nil if this run has not paused it
}

// noter notes what was done or found.
type noter func(level refresh.Level, format string, args ...any)

// NewPause returns the pause of a run that has so many groups.
func NewPause(cfg plan.Config, groups int) *Pause {
	p := &Pause{scaler: cfg.Autoscaler, cfg: cfg, turn: make(chan struct{}, 1)}
	p.groups.Store(int32(groups)) //nolint:gosec // an account has fewer groups
	return p
}

// Begin pauses the autoscaler for a group. That another trigger has paused it is no conflict if a refresh is only
// followed.
func (p *Pause) Begin(ctx context.Context, g *loop.Group, attached bool) error {
	err := p.take(ctx, g.Progress.Note)
	if err != nil && attached && ctx.Err() == nil {
		g.Progress.Note(refresh.Warn, "%v", err)
		return nil
	}
	return err
}

// take pauses the autoscaler for the first group that calls it. The error says that another trigger has paused it; the
// rollout continues after any other one.
func (p *Pause) take(ctx context.Context, note noter) error {
	if p.scaler == nil {
		return nil
	}
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if !p.done {
		p.err = p.acquire(ctx, note)
		p.done = ctx.Err() == nil // Otherwise only this group ends.
	}
	return p.err
}

func (p *Pause) acquire(ctx context.Context, note noter) error {
	dead, err := p.awaitExpiry(ctx, note)
	if err != nil {
		return err
	}
	s, err := p.scaler.State(ctx)
	if err == nil {
		err = p.write(ctx, dead)
	}
	switch {
	case errors.Is(err, autoscaler.ErrHeld):
		return p.conflict("another trigger")
	case err != nil:
		note(refresh.Warn, "the rollout continues beside the Cluster Autoscaler: %v", err)
		return nil
	}
	note(refresh.OK, "the Cluster Autoscaler %s is paused: scaled from %d to 0 replicas", p.scaler, s.Replicas)
	if s.Manager != "" {
		note(refresh.Warn, "%s manages the Deployment %s, and may scale it up during the rollout", s.Manager, p.scaler)
	}
	renewing, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var renewals sync.WaitGroup
	renewals.Go(func() { p.renew(renewing, note) })
	p.end = func() { cancel(); renewals.Wait() }
	return nil
}

// awaitExpiry returns when no other trigger has paused the autoscaler, or the pause of a dead one. It waits to see
// whether a pause is renewed, as leases do.
func (p *Pause) awaitExpiry(ctx context.Context, note noter) (dead *autoscaler.Pause, err error) {
	s, err := p.scaler.State(ctx)
	if err != nil || s.Pause == nil || s.Pause.Owner == p.cfg.Holder || s.Pause.Expired(time.Now()) {
		return s.Pause, nil //nolint:nilerr // The next call returns the error, too.
	}
	first := *s.Pause
	note(refresh.Warn, "the trigger %s has paused the Cluster Autoscaler, or was killed: waiting %v to see whether it "+
		"renews that", first.Owner, pauseDuration)
	for end := time.Now().Add(pauseDuration); time.Now().Before(end); {
		if !retry.Sleep(ctx, p.cfg.PollInterval) {
			return nil, context.Cause(ctx)
		}
		switch s, err := p.scaler.State(ctx); {
		case err != nil:
		case s.Pause == nil:
			return nil, nil
		case *s.Pause != first:
			return nil, p.conflict("the trigger " + s.Pause.Owner)
		}
	}
	return &first, nil
}

func (p *Pause) conflict(owner string) error {
	return loop.EndWith(report.Conflict, owner+" has paused the Cluster Autoscaler "+p.scaler.String()+
		": run the same command again when it has ended, or without --pause-autoscaler")
}

// write pauses the autoscaler.
func (p *Pause) write(ctx context.Context, dead *autoscaler.Pause) error {
	ctx, cancel := loop.Uncancelled(ctx)
	defer cancel()
	return p.scaler.Pause(ctx, p.cfg.Holder, expiry(), dead)
}

// expiry is when a pause expires that is written now.
func expiry() time.Time { return time.Now().Add(pauseDuration).Truncate(time.Second) }

// renew renews the pause until ctx ends, or somebody else has scaled the autoscaler up.
func (p *Pause) renew(ctx context.Context, note noter) {
	for retry.Sleep(ctx, pauseRenewal) {
		switch err := p.scaler.Renew(ctx, p.cfg.Holder, expiry()); {
		case errors.Is(err, autoscaler.ErrLost):
			note(refresh.Warn, "the Cluster Autoscaler runs again during the rollout: %v", err)
			return
		case err != nil && ctx.Err() == nil:
			note(refresh.Warn, "the pause of the Cluster Autoscaler could not be renewed, retrying: %v", err)
		}
	}
}

// GroupEnded resumes the autoscaler if the group was the last one of the run. It returns false if that failed.
func (p *Pause) GroupEnded(ctx context.Context, note noter) bool {
	if p.groups.Add(-1) > 0 || p.scaler == nil || p.err != nil {
		return true
	}
	left := &autoscaler.Pause{Owner: p.cfg.Holder, Expires: expiry().Add(pauseDuration)} // Whatever expiry it has.
	if p.end != nil {
		p.end()
	} else {
		var err error
		if left, err = p.awaitExpiry(ctx, note); err != nil || left == nil {
			return true
		}
	}
	ctx, cancel := loop.Uncancelled(ctx)
	defer cancel()
	resumed := false
	err := loop.UntilGivenBack(ctx, func() (err error) {
		resumed, err = p.scaler.Resume(ctx, *left)
		return err
	})
	switch {
	case err != nil:
		note(refresh.Warn, "the Cluster Autoscaler may still be paused, run trigger resume --pause-autoscaler %s: %v",
			p.scaler, err)
	case resumed:
		note(refresh.OK, "the Cluster Autoscaler %s is resumed", p.scaler)
	}
	return err == nil
}
