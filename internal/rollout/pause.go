package rollout

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/node-drainer/node-drainer/internal/autoscaler"
	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/retry"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// Autoscaler is the Deployment of the Cluster Autoscaler: see autoscaler.Deployment.
type Autoscaler interface {
	String() string
	State(ctx context.Context) (autoscaler.State, error)
	Pause(ctx context.Context, owner string, expires time.Time, dead *autoscaler.Pause) error
	Renew(ctx context.Context, owner string, expires time.Time) error
	Resume(ctx context.Context, p autoscaler.Pause) (resumed bool, err error)
}

const (
	// pauseDuration is how long a pause lasts without a renewal, and pauseRenewal the time between two of them.
	pauseDuration, pauseRenewal = 2 * time.Minute, 30 * time.Second
)

// pause pauses the Cluster Autoscaler from the first group that is changed to the end of the last one.
type pause struct {
	scaler Autoscaler // nil: it is not paused
	cfg    Config
	groups atomic.Int32 // that have not ended

	turn chan struct{} // It is full while a group pauses it.
	done bool
	err  error
	end  func() // stops the renewals; nil if this run has not paused it
}

// noter notes what was done or found.
type noter func(level refresh.Level, format string, args ...any)

func newPause(cfg Config, groups int) *pause {
	p := &pause{scaler: cfg.Autoscaler, cfg: cfg, turn: make(chan struct{}, 1)}
	p.groups.Store(int32(groups)) //nolint:gosec // an account has fewer groups
	return p
}

// begin pauses the autoscaler for a group, if anything is to be replaced. That another trigger has paused it is no
// conflict if a refresh is only followed.
func (p *pause) begin(ctx context.Context, r *rollout) error {
	if r.other || !r.attached && !r.group.state.isDue() {
		return nil
	}
	err := p.take(ctx, r.group.progress.note)
	if err != nil && r.attached && ctx.Err() == nil {
		r.group.progress.note(refresh.Warn, "%v", err)
		return nil
	}
	return err
}

// take pauses the autoscaler for the first group that calls it. The error says that another trigger has paused it; the
// rollout continues after any other one.
func (p *pause) take(ctx context.Context, note noter) error {
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

func (p *pause) acquire(ctx context.Context, note noter) error {
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
func (p *pause) awaitExpiry(ctx context.Context, note noter) (dead *autoscaler.Pause, err error) {
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

func (p *pause) conflict(owner string) error {
	return &endError{report.Conflict, owner + " has paused the Cluster Autoscaler " + p.scaler.String() +
		": run the same command again when it has ended, or without --pause-autoscaler"}
}

// write pauses the autoscaler.
func (p *pause) write(ctx context.Context, dead *autoscaler.Pause) error {
	ctx, cancel := uncancelled(ctx)
	defer cancel()
	return p.scaler.Pause(ctx, p.cfg.Holder, expiry(), dead)
}

// expiry is when a pause expires that is written now.
func expiry() time.Time { return time.Now().Add(pauseDuration).Truncate(time.Second) }

// renew renews the pause until ctx ends, or somebody else has scaled the autoscaler up.
func (p *pause) renew(ctx context.Context, note noter) {
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

// groupEnded resumes the autoscaler if the group was the last one of the run. It returns false if that failed.
func (p *pause) groupEnded(ctx context.Context, note noter) bool {
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
	ctx, cancel := uncancelled(ctx)
	defer cancel()
	resumed := false
	err := untilGivenBack(ctx, func() (err error) {
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
