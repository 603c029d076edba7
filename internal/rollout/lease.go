package rollout

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/retry"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// leaseWriter writes and removes the lease of a group.
type leaseWriter interface {
	WriteLease(ctx context.Context, group string, l refresh.Lease) error
	RemoveLease(ctx context.Context, group string) error
}

const (
	// leasePolls and renewalPolls are the duration of a lease and the time between renewals, in PollIntervals.
	leasePolls, renewalPolls = 12, 4
	// shortestLease and longestLease bound the duration of a lease.
	shortestLease, longestLease = 5 * time.Second, 2 * time.Minute
	// leaseSettles is how long another trigger that has read the group at the same time may take to write its lease.
	leaseSettles = 2 * time.Second
	// clockSkew is by how much the clocks of two hosts may differ: AWS refuses requests beyond.
	clockSkew = 5 * time.Minute
)

// lease keeps other triggers from replacing instances of the group at the same time. Only ModeUnhealthy needs one.
type lease struct {
	group *group
	aws   leaseWriter

	end  func() // stops the renewals; nil if the lease is not held
	mu   sync.Mutex
	lost error // how the rollout ends if another trigger has taken the lease
}

// acquire returns when the lease is held, if anything is to be changed. The returned context ends if it is lost. A
// lease that is renewed by its holder is a conflict; one that is not, because the holder was killed, is taken over.
func (l *lease) acquire(ctx context.Context) (context.Context, error) {
	g := l.group
	if g.cfg.Mode != refresh.ModeUnhealthy || !g.state.anyOutdated() && !isChanged(g.state.group) {
		return ctx, nil
	}
	if err := l.awaitExpiry(ctx); err != nil {
		return ctx, err
	}
	if err := l.write(ctx); err != nil {
		return ctx, err
	}
	leased, cancel := context.WithCancelCause(ctx)
	var renewals sync.WaitGroup
	renewals.Go(func() { l.renew(leased, cancel) })
	l.end = func() { cancel(nil); renewals.Wait() }
	if err := g.pause(ctx, leaseSettles); err != nil {
		return ctx, err
	}
	if err := g.retry(ctx, g.describe); err != nil {
		return ctx, err
	}
	return leased, l.check(g.state.group)
}

// isChanged reports whether a trigger that works on the group, or was killed, has changed it.
func isChanged(g refresh.Group) bool {
	tags := []string{refresh.LeaseTag, refresh.SurgeTag, refresh.SuspendedTag}
	return slices.ContainsFunc(tags, func(tag string) bool { return g.Tags[tag] != "" })
}

// awaitExpiry returns when no other trigger holds the lease. It waits until that expires, and for a whole duration at
// least, since the clock of the holder may differ.
func (l *lease) awaitExpiry(ctx context.Context) error {
	g := l.group
	first, held := refresh.LeaseOf(g.state.group)
	if !held || time.Now().After(first.Expires.Add(clockSkew)) {
		return nil
	}
	wait := max(l.duration(), min(time.Until(first.Expires), longestLease+clockSkew))
	g.progress.note(refresh.Warn, "the trigger %s works on the group, or was killed: waiting %v to see whether it renews "+
		"its lease", first.Holder, wait.Round(time.Second))
	for end := time.Now().Add(wait); time.Now().Before(end); {
		if err := g.describeAgain(ctx, 0); err != nil {
			return err
		}
		now, held := refresh.LeaseOf(g.state.group)
		switch {
		case !held:
			return nil
		case now != first:
			return conflictWith(now)
		}
	}
	return nil
}

func conflictWith(l refresh.Lease) error {
	return &endError{report.Conflict, "another trigger replaces instances of the group: " + l.Holder + "; run the same " +
		"command again when it has ended"}
}

func (l *lease) duration() time.Duration {
	return min(max(leasePolls*l.group.cfg.PollInterval, shortestLease), longestLease)
}

func (l *lease) write(ctx context.Context) error {
	ctx, cancel := uncancelled(ctx)
	defer cancel()
	return l.aws.WriteLease(ctx, l.group.name, refresh.Lease{
		Holder: l.group.cfg.Holder, Expires: time.Now().Add(l.duration()).Truncate(time.Second),
	})
}

// renew renews the lease until ctx ends. If another trigger has taken it, renew ends ctx.
func (l *lease) renew(ctx context.Context, lose context.CancelCauseFunc) {
	for retry.Sleep(ctx, l.duration()*renewalPolls/leasePolls) {
		g, err := l.group.planner.reader.Group(ctx, l.group.name)
		if err == nil {
			if err = l.check(g); err != nil {
				lose(err)
				return
			}
			err = l.write(ctx)
		}
		if err != nil && ctx.Err() == nil {
			l.group.progress.note(refresh.Warn, "the lease of the group could not be renewed, retrying: %v", err)
		}
	}
}

// check returns an error if another trigger holds the lease of the group.
func (l *lease) check(g refresh.Group) error {
	now, held := refresh.HeldByOther(g, l.group.cfg.Holder, time.Now())
	if !held {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost = conflictWith(now)
	return l.lost
}

// cause returns why the lease was lost, instead of an error that follows from that.
func (l *lease) cause(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost != nil {
		return l.lost
	}
	return err
}

// release gives the lease back.
func (l *lease) release(ctx context.Context) {
	if l.end == nil {
		return
	}
	l.end()
	if l.cause(nil) != nil || l.group.state.deleted {
		return
	}
	ctx, cancel := uncancelled(ctx)
	defer cancel()
	if err := l.aws.RemoveLease(ctx, l.group.name); err != nil {
		l.group.progress.note(refresh.Warn, "the lease of the group could not be removed, and expires within %v: %v",
			l.duration(), err)
	}
}
