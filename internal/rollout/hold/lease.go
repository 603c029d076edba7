package hold

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/retry"
	"github.com/node-drainer/node-drainer/internal/rollout/loop"
	"github.com/node-drainer/node-drainer/internal/rollout/plan"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// LeaseWriter writes and removes the lease of a group. While that is held, it remembers which tags record what the
// trigger has changed, and restores those that another client removes.
type LeaseWriter interface {
	Remember(g refresh.Group)
	Forget(group string)
	loop.Records
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

// Lease keeps other triggers from changing the group at the same time: in ModeUnhealthy always, and in ModeRefresh
// where something is held, since AWS excludes no more than a second Instance Refresh.
type Lease struct {
	Group *loop.Group
	AWS   LeaseWriter

	other  refresh.Lease // of another trigger, as it was seen first
	until  time.Time     // when that counts as dead unless it was renewed
	guards context.Context
	lose   context.CancelCauseFunc // ends guards
	end    func()                  // stops the renewals, if there are any; nil if the lease was not acquired
}

// Guard returns a context that ends if the lease is lost.
func (l *Lease) Guard(ctx context.Context) context.Context {
	l.guards, l.lose = context.WithCancelCause(ctx)
	return l.guards
}

// Acquire waits until the lease is held, if one is needed. A lease that is renewed by its holder is a conflict; one
// that is not, because the holder was killed, is taken over. It is no conflict if this run only follows, because
// nothing is outdated or a refresh is under way: then the holder is the other trigger, which gives back what it holds.
func (l *Lease) Acquire(ctx context.Context, attached bool) (w *loop.Wait, other bool, err error) {
	g := l.Group
	outdated, changed := g.State.IsDue(), l.isChanged()
	if !outdated && !changed {
		return nil, false, nil
	}
	w, err = l.AwaitExpiry(ctx)
	if conflict, ok := errors.AsType[*loop.EndError](err); ok && (attached || !outdated) {
		g.Progress.Note(refresh.Warn, "%s", conflict.Message)
		return nil, true, nil
	}
	if w != nil || err != nil || !changed && !g.Config.HoldsAny() {
		return w, false, err
	}
	if w, err = l.lookAgain(ctx); w != nil || err != nil {
		return w, false, err
	}
	return nil, false, l.Hold(ctx)
}

// lookAgain describes the group just before the lease is written: another trigger may have begun since.
func (l *Lease) lookAgain(ctx context.Context) (*loop.Wait, error) {
	if time.Since(l.Group.State.ReadAt) <= leaseSettles/2 {
		return nil, nil
	}
	if err := l.Group.Retry(ctx, l.Group.Describe); err != nil {
		return nil, err
	}
	return l.AwaitExpiry(ctx)
}

// Hold writes the lease, and renews it until release.
func (l *Lease) Hold(ctx context.Context) error {
	l.AWS.Remember(l.Group.State.Group)
	if err := l.write(ctx, longestLease); err != nil { // It is not renewed until it has settled.
		return err
	}
	l.end = func() {}
	if err := l.settle(ctx); err != nil {
		return err
	}
	renewing, stop := context.WithCancel(ctx)
	var renewals sync.WaitGroup
	renewals.Go(func() { l.renew(renewing) })
	l.end = func() {
		stop()
		renewals.Wait()
	}
	see := func(_ context.Context, g refresh.Group) {
		if err := l.check(g); err != nil {
			l.lose(err)
		}
	}
	see(ctx, l.Group.State.Group)
	l.Group.WhenDescribed(see)
	if err := l.Loss(); err != nil {
		return err
	}
	return l.write(ctx, l.duration()) // Whoever finds a killed trigger waits no longer than for any other renewal.
}

// settle returns when the group is described with the lease of each trigger that did not see this one. If AWS describes
// it late, another trigger may do so as long, and its lease appears as late. Until then the description may show one
// that was there before.
func (l *Lease) settle(ctx context.Context) error {
	began := time.Now()
	if err := l.describeAfter(ctx, leaseSettles); err != nil {
		return err
	}
	for l.isOther() && time.Since(began) < refresh.ShownWithin {
		if err := l.describeAfter(ctx, leaseSettles); err != nil {
			return err
		}
	}
	if conflict := l.check(l.Group.State.Group); conflict != nil {
		l.lose(conflict)
		return conflict
	}
	if late := time.Since(began) - leaseSettles; late > leaseSettles/2 {
		return l.describeAfter(ctx, late+2*leaseSettles)
	}
	return nil
}

// isOther reports whether the group is described with the lease of another trigger, which may have expired.
func (l *Lease) isOther() bool {
	now, held := refresh.LeaseOf(l.Group.State.Group)
	return held && now.Holder != l.Group.Config.Holder
}

func (l *Lease) describeAfter(ctx context.Context, pause time.Duration) error {
	if !retry.Sleep(ctx, pause) {
		return context.Cause(ctx)
	}
	return l.Group.Retry(ctx, l.Group.Describe)
}

// Loss returns how the rollout ends if its lease was lost. Else it returns nil.
func (l *Lease) Loss() error {
	if conflict, lost := errors.AsType[*loop.EndError](context.Cause(l.guards)); lost {
		return conflict
	}
	return nil
}

func (l *Lease) isChanged() bool { return IsChanged(l.Group.Config, l.Group.State.Group) }

// IsChanged reports whether a trigger that works on the group, or was killed, has changed it.
func IsChanged(cfg plan.Config, g refresh.Group) bool {
	tags := []string{refresh.SuspendedTag, refresh.ProtectedTag}
	if m, raised := refresh.RaisedMaxOf(g); raised && m.Kept(g) == "" { // Otherwise it cannot be restored yet.
		tags = append(tags, refresh.MaxTag)
	}
	if cfg.HoldsAny() {
		tags = append(tags, refresh.LeaseTag)
	}
	if cfg.Mode.InBatches() {
		tags = append(tags, refresh.SurgeTag, refresh.BegunTag)
	}
	return cfg.Mode == refresh.ModeStandby && refresh.StandbyUnfinished(g) ||
		slices.ContainsFunc(tags, func(tag string) bool { return g.Tags[tag] != "" })
}

// AwaitExpiry waits while another trigger may hold the lease: until that expires, and for a whole duration at least,
// since the clock of the holder may differ.
func (l *Lease) AwaitExpiry(context.Context) (*loop.Wait, error) {
	now, held := refresh.LeaseOf(l.Group.State.Group)
	switch seen := l.other != (refresh.Lease{}); {
	case !held, !seen && now.Expired(time.Now()):
		l.other = refresh.Lease{}
		return nil, nil
	case !seen:
		takes := max(l.duration(), min(time.Until(now.Expires), longestLease+refresh.ClockSkew))
		l.other, l.until = now, time.Now().Add(takes)
		l.Group.Progress.Note(refresh.Warn, "the trigger %s works on the group, or was killed: waiting %v to see whether "+
			"it renews its lease", now.Holder, takes.Round(time.Second))
	case now != l.other:
		return nil, conflictWith(now)
	}
	if time.Now().Before(l.until) {
		return &loop.Wait{Expected: true}, nil
	}
	return nil, nil
}

func conflictWith(l refresh.Lease) error {
	return loop.EndWith(report.Conflict, "another trigger replaces instances of the group: "+l.Holder+"; run the same "+
		"command again when it has ended")
}

func (l *Lease) duration() time.Duration {
	return min(max(leasePolls*l.Group.Config.PollInterval, shortestLease), longestLease)
}

func (l *Lease) write(ctx context.Context, lasts time.Duration) error {
	ctx, cancel := loop.Uncancelled(ctx)
	defer cancel()
	return l.AWS.WriteLease(ctx, l.Group.Name, refresh.Lease{
		Holder: l.Group.Config.Holder, Expires: time.Now().Add(lasts).Truncate(time.Second),
	})
}

// renew renews the lease until ctx ends. If another trigger has taken it, the lease is lost.
func (l *Lease) renew(ctx context.Context) {
	for retry.Sleep(ctx, l.duration()*renewalPolls/leasePolls) {
		g, err := l.Group.Read(ctx)
		if err == nil {
			if err = l.check(g); err != nil {
				l.lose(err)
				return
			}
			err = l.write(ctx, l.duration())
		}
		if err != nil && ctx.Err() == nil {
			l.Group.Progress.Note(refresh.Warn, "the lease of the group could not be renewed, retrying: %v", err)
		}
	}
}

// check returns an error if another trigger holds the lease of the group.
func (l *Lease) check(g refresh.Group) error {
	if now, held := refresh.HeldByOther(g, l.Group.Config.Holder, time.Now()); held {
		return conflictWith(now)
	}
	return nil
}

// Release gives the lease back.
func (l *Lease) Release(ctx context.Context) {
	if l.lose != nil {
		defer l.lose(nil)
	}
	if l.end == nil {
		return
	}
	if l.end(); l.Loss() != nil || l.Group.State.Deleted {
		l.AWS.Forget(l.Group.Name)
		return
	}
	defer l.AWS.Forget(l.Group.Name)
	ctx, cancel := loop.Uncancelled(ctx)
	defer cancel()
	if err := l.AWS.RemoveLease(ctx, l.Group.Name); err != nil {
		l.Group.Progress.Note(refresh.Warn, "the lease of the group could not be removed, and expires within %v: %v",
			l.duration(), err)
	}
}
