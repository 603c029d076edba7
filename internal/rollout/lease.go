package rollout

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/retry"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// leaseWriter writes and removes the lease of a group. While that is held, it remembers which tags record what the
// trigger has changed, and restores those that another client removes.
type leaseWriter interface {
	Remember(g refresh.Group)
	Forget(group string)
	Restore(ctx context.Context, g refresh.Group) (restored refresh.Group, keys []string, err error)
	WriteLease(ctx context.Context, group string, l refresh.Lease) error
	RemoveLease(ctx context.Context, group string) error
}

const (
	// leasePolls and renewalPolls are the duration of a lease and the time between renewals, in PollIntervals.
	leasePolls, renewalPolls = 12, 4
	// shortestLease and longestLease bound the duration of a lease.
	shortestLease, longestLease = 15 * time.Second, 2 * time.Minute
	// leaseSettles is how long another trigger that has read the group at the same time may take to write its lease.
	leaseSettles = 2 * time.Second
)

// lease keeps other triggers from changing the group at the same time: in ModeUnhealthy always, and in ModeRefresh
// where something is held, since AWS excludes no more than a second Instance Refresh.
type lease struct {
	group *group
	aws   leaseWriter
	end   func()      // stops the renewals; nil if the lease was not acquired
	lost  func() bool // reports whether another trigger has taken it; nil like end
}

// acquire returns when the lease is held, if one is needed. The returned context ends if it is lost. A lease that is
// renewed by its holder is a conflict; one that is not, because the holder was killed, is taken over. It is no conflict
// if this run only follows, because nothing is outdated or a refresh is under way: then the holder is the other
// trigger, which gives back what it holds.
func (l *lease) acquire(ctx context.Context, attached bool) (leased context.Context, other bool, err error) {
	g := l.group
	outdated, changed := g.state.isDue(), l.isChanged()
	if !outdated && !changed {
		return ctx, false, nil
	}
	if err := l.awaitExpiry(ctx); err != nil {
		if conflict, ok := errors.AsType[*endError](err); ok && (attached || !outdated) {
			g.progress.note(refresh.Warn, "%s", conflict.message)
			return ctx, true, nil
		}
		return ctx, false, err
	}
	if !changed && !g.cfg.holdsAny() {
		return ctx, false, nil
	}
	if time.Since(g.state.readAt) > leaseSettles/2 { // Another trigger may have begun since.
		if err := g.retry(ctx, g.describe); err != nil {
			return ctx, false, err
		}
		if err := l.awaitExpiry(ctx); err != nil {
			return ctx, false, err
		}
	}
	leased, err = l.hold(ctx)
	return leased, false, err
}

// hold writes the lease, and renews it until release. The returned context ends if the lease is lost.
func (l *lease) hold(ctx context.Context) (context.Context, error) {
	l.aws.Remember(l.group.state.group)
	if err := l.write(ctx); err != nil {
		return ctx, err
	}
	leased, lose := context.WithCancelCause(ctx)
	var renewals sync.WaitGroup
	renewals.Go(func() { l.renew(leased, lose) })
	l.lost = func() bool { return lossOf(leased) != nil }
	l.end = func() {
		lose(nil)
		renewals.Wait()
	}
	l.group.seen = func(g refresh.Group) {
		if err := l.check(g); err != nil {
			lose(err)
		}
	}
	if !retry.Sleep(ctx, leaseSettles) {
		return ctx, context.Cause(ctx)
	}
	if err := l.group.retry(ctx, l.group.describe); err != nil {
		return ctx, err
	}
	return leased, lossOf(leased)
}

// lossOf returns how the rollout ends if its lease was lost, and the context has ended with that. Else it returns nil.
func lossOf(ctx context.Context) error {
	if conflict, lost := errors.AsType[*endError](context.Cause(ctx)); lost {
		return conflict
	}
	return nil
}

func (l *lease) isChanged() bool { return isChanged(l.group.cfg, l.group.state.group) }

// isChanged reports whether a trigger that works on the group, or was killed, has changed it.
func isChanged(cfg Config, g refresh.Group) bool {
	tags := []string{refresh.SuspendedTag, refresh.MaxTag, refresh.ProtectedTag}
	if cfg.holdsAny() {
		tags = append(tags, refresh.LeaseTag)
	}
	if cfg.Mode.InBatches() {
		tags = append(tags, refresh.SurgeTag, refresh.BegunTag)
	}
	return cfg.Mode == refresh.ModeStandby && refresh.StandbyUnfinished(g) ||
		slices.ContainsFunc(tags, func(tag string) bool { return g.Tags[tag] != "" })
}

// awaitExpiry returns when no other trigger holds the lease. It waits until that expires, and for a whole duration at
// least, since the clock of the holder may differ.
func (l *lease) awaitExpiry(ctx context.Context) error {
	g := l.group
	first, held := refresh.LeaseOf(g.state.group)
	if !held || first.Expired(time.Now()) {
		return nil
	}
	wait := max(l.duration(), min(time.Until(first.Expires), longestLease+refresh.ClockSkew))
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
		g, err := l.group.read(ctx)
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
	if now, held := refresh.HeldByOther(g, l.group.cfg.Holder, time.Now()); held {
		return conflictWith(now)
	}
	return nil
}

// isLost reports whether another trigger has taken the lease.
func (l *lease) isLost() bool { return l.lost != nil && l.lost() }

// release gives the lease back.
func (l *lease) release(ctx context.Context) {
	if l.end == nil {
		return
	}
	if l.end(); l.isLost() || l.group.state.deleted {
		l.aws.Forget(l.group.name)
		return
	}
	defer l.aws.Forget(l.group.name)
	ctx, cancel := uncancelled(ctx)
	defer cancel()
	if err := l.aws.RemoveLease(ctx, l.group.name); err != nil {
		l.group.progress.note(refresh.Warn, "the lease of the group could not be removed, and expires within %v: %v",
			l.duration(), err)
	}
}
