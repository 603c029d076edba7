package awsim

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Statuses of an Instance Refresh, in the API's own words.
const (
	refreshPending            = "Pending"
	refreshInProgress         = "InProgress"
	refreshSuccessful         = "Successful"
	refreshFailed             = "Failed"
	refreshCancelling         = "Cancelling"
	refreshCancelled          = "Cancelled"
	refreshRollbackInProgress = "RollbackInProgress"
	refreshRollbackFailed     = "RollbackFailed"
	refreshRollbackSuccessful = "RollbackSuccessful"
	refreshBaking             = "Baking"
)

const (
	// refreshGiveUp is how long a refresh may make no progress: an hour (Auto Scaling user guide). That the
	// hour starts again with each replaced instance is an assumption.
	refreshGiveUp = time.Hour
	// longestRefresh is how long a refresh may replace instances in all.
	longestRefresh = 14 * 24 * time.Hour
)

// refresh is one Instance Refresh of a group. Each reconcile of the group advances it, and its timer
// reconciles the group at the times for which it waits.
type refresh struct {
	id        string
	group     *group
	status    string
	reason    string
	startedAt time.Time
	endedAt   time.Time
	requested preferences // With the defaults filled in.
	prefs     preferences // The same, but for the checkpoints, which a rollback does not have.
	desired   *source     // DesiredConfiguration, if one was given.
	before    source      // What the group launched from when the refresh began.

	// What is replaced: as it began, or as its rollback began.
	since     time.Time // A new instance is one that came into service since then.
	targets   map[*instance]bool
	total     int // How many targets there were.
	remaining int // How many of them are not replaced yet.
	rollback  *rollback

	// The same for the warm pool, which is replaced last.
	poolTargets   map[*instance]bool
	poolTotal     int
	poolRemaining int

	toUpdate int // InstancesToUpdate: the instances that a rollback need not undo.
	percent  int

	progressAt time.Time // When it last made progress, or was resumed.
	paused     bool      // A process is suspended, or the delay of a checkpoint has not ended.
	passed     int       // How many checkpoints have been reached.
	holdUntil  time.Time // The end of the delay after a checkpoint, or of the bake time.
	wakeAt     time.Time // When the group is to be reconciled because of it; never, if zero.
}

// rollback is why a refresh was rolled back, and its progress at that time.
type rollback struct {
	reason  string
	percent int
}

// Refresh is the state of an Instance Refresh.
type Refresh struct {
	ID       string
	Status   string
	Reason   string
	Percent  int // PercentageComplete.
	ToUpdate int // InstancesToUpdate.
}

// WaitRefresh blocks until the group's latest Instance Refresh has one of the statuses, and returns it.
func (s AutoScaling) WaitRefresh(ctx context.Context, groupName string, statuses ...string) (Refresh, error) {
	var last Refresh
	err := s.asg.wait(ctx, func() bool {
		g := s.asg.groups[groupName]
		if g == nil || len(g.refreshes) == 0 {
			return false
		}
		last = g.refreshes[len(g.refreshes)-1].state()
		return slices.Contains(statuses, last.Status)
	})
	if err != nil {
		return last, fmt.Errorf("awsim: the refresh of %s is %+v, not %v: %w", groupName, last, statuses, err)
	}
	return last, nil
}

func (f *refresh) state() Refresh {
	return Refresh{ID: f.id, Status: f.status, Reason: f.reason, Percent: f.percent, ToUpdate: f.toUpdate}
}

func (f *refresh) ended() bool { return !f.endedAt.IsZero() }

// refreshing is the group's refresh that is under way, or nil.
func (g *group) refreshing() *refresh {
	if n := len(g.refreshes); n > 0 && !g.refreshes[n-1].ended() {
		return g.refreshes[n-1]
	}
	return nil
}

// launchFrom returns the source of the group's next instance. During a refresh that is the desired
// configuration, or the previous one during a rollback.
func (g *group) launchFrom() source {
	f := g.refreshing()
	switch {
	case f == nil || f.desired == nil || f.status == refreshCancelling:
		return g.source
	case f.status == refreshRollbackInProgress:
		return f.before
	default:
		return *f.desired
	}
}

// startRefresh needs mu.
func (a refreshEngine) startRefresh(g *group, p preferences, desired *source) (*refresh, error) {
	if g.refreshing() != nil {
		return nil, errorf("InstanceRefreshInProgress",
			"An Instance Refresh is already in progress and blocks the execution of this Instance Refresh.")
	}
	if desired != nil {
		if err := a.catalog.check(*desired); err != nil {
			return nil, err
		}
	}
	if err := a.alarms.check(p.alarms); err != nil {
		return nil, err
	}
	now := time.Now()
	f := &refresh{
		id: uuid(a.rand), group: g, status: refreshPending, startedAt: now, since: now, progressAt: now,
		requested: p, prefs: p, desired: desired, before: g.source,
	}
	g.refreshes = append(g.refreshes, f)
	a.selectTargets(f, func(inst *instance) bool {
		return !p.skipMatching || !a.catalog.matchesSource(g.launchFrom(), inst.template)
	})
	if a.delays.RefreshStart == 0 {
		a.later(func() { a.begin(f) })
	}
	a.spawn(func() { a.run(f, a.delays.RefreshStart) })
	return f, nil
}

// begin ends the time in which the refresh is Pending. It must be called without mu.
func (a refreshEngine) begin(f *refresh) {
	a.update(func() {
		if f.status == refreshPending {
			f.status, f.startedAt = refreshInProgress, time.Now()
			a.capacity.reconcile(f.group)
		}
	})
}

// selectTargets selects the instances to replace: outdated ones in service, launching or in standby.
func (a refreshEngine) selectTargets(f *refresh, outdated func(*instance) bool) {
	f.targets, f.poolTargets = map[*instance]bool{}, map[*instance]bool{}
	for _, inst := range f.group.members {
		if f.mayReplace(inst) && outdated(inst) {
			f.targets[inst] = true
		}
	}
	for _, inst := range f.group.pooled() {
		if outdated(inst) {
			f.poolTargets[inst] = true
		}
	}
	f.total, f.remaining = len(f.targets), len(f.targets)
	f.poolTotal, f.poolRemaining = len(f.poolTargets), len(f.poolTargets)
	if f.rollback == nil {
		f.toUpdate = f.total + f.poolTotal
	}
}

// reselectTargets evaluates skip matching again, because $Latest and $Default may have moved. An instance
// that no longer matches becomes a target, even a new one, and one that matches again is none. It needs mu.
func (a refreshEngine) reselectTargets(f *refresh) {
	want := f.group.launchFrom()
	if !f.prefs.skipMatching || f.rollback != nil || want.isPinned() {
		return
	}
	again := func(targets map[*instance]bool, inst *instance, total *int) {
		switch {
		case a.catalog.matchesSource(want, inst.template):
			delete(targets, inst)
		case !targets[inst]:
			targets[inst] = true
			*total++
		}
	}
	for _, inst := range f.group.members {
		if f.mayReplace(inst) {
			again(f.targets, inst, &f.total)
		}
	}
	for _, inst := range f.group.pooled() {
		again(f.poolTargets, inst, &f.poolTotal)
	}
}

// mayReplace reports whether the refresh is to replace the instance if it is outdated.
func (f *refresh) mayReplace(inst *instance) bool {
	if inst.protected && f.prefs.protected == "Ignore" {
		return false
	}
	if inStandby(inst) {
		return f.prefs.standby != "Ignore"
	}
	return inst.hasStatePrefix(statePending) || inst.state() == stateInService
}

// run begins the refresh after a while, and then reconciles its group at the times for which it waits.
func (a refreshEngine) run(f *refresh, after time.Duration) {
	if !a.pause(after) {
		return
	}
	a.begin(f)
	for {
		a.mu.Lock()
		at, over, changed := f.wakeAt, f.ended(), a.changed
		a.mu.Unlock()
		if over {
			return
		}
		due, goOn := sleepUntil(a.ctx, at, changed)
		if !goOn {
			return
		}
		if due {
			a.update(func() { a.capacity.reconcile(f.group) })
		}
	}
}

// sleepUntil waits until a time, or without limit if that is zero, until a change, or until ctx ends. It
// reports whether the time has been reached, and whether ctx is still open.
func sleepUntil(ctx context.Context, at time.Time, changed <-chan struct{}) (due, goOn bool) {
	var alarm <-chan time.Time
	if !at.IsZero() {
		timer := time.NewTimer(time.Until(at))
		defer timer.Stop()
		alarm = timer.C
	}
	select {
	case <-alarm:
		return true, true
	case <-changed:
		return false, true
	case <-ctx.Done():
		return false, false
	}
}

// cancelRefresh ends the group's refresh when launches and terminations that are under way have ended. What
// has been replaced stays so. It needs mu.
func (a refreshEngine) cancelRefresh(g *group) (*refresh, error) {
	f := g.refreshing()
	if f == nil || f.status == refreshCancelling {
		return nil, errNoRefresh(g)
	}
	f.status, f.reason, f.wakeAt = refreshCancelling, "Cancelled due to user request.", time.Time{}
	a.capacity.reconcile(g)
	return f, nil
}

// rollBack begins to replace what the group's refresh has replaced. One that is Pending has nothing to roll back,
// which AWS answers as if there were none. It needs mu.
func (a refreshEngine) rollBack(g *group) (*refresh, error) {
	f := g.refreshing()
	switch {
	case f == nil || contains([]string{refreshPending, refreshCancelling, refreshRollbackInProgress}, f.status):
		return nil, errNoRefresh(g)
	case !a.isReversible(f):
		return nil, errorf("IrreversibleInstanceRefresh", "The instance refresh of the group %s can not be "+
			"rolled back.", g.name)
	}
	a.beginRollback(f, "Rollback was initiated by a user request.")
	a.capacity.reconcile(g)
	return f, nil
}

func errNoRefresh(g *group) *Error {
	return errorf("ActiveInstanceRefreshNotFound",
		"No in progress or pending Instance Refresh found for Auto Scaling group %s", g.name)
}

// isReversible reports whether the refresh can be rolled back: it has a desired configuration, and neither the
// version nor the image that the group had before can have moved. It needs mu.
func (a refreshEngine) isReversible(f *refresh) bool {
	return f.desired != nil && f.before.isPinned() && !a.catalog.usesParameter(f.before)
}

// beginRollback needs mu. It leaves the reconciling to the caller.
func (a refreshEngine) beginRollback(f *refresh, reason string) {
	now := time.Now()
	f.rollback = &rollback{reason, f.percent}
	f.status, f.reason = refreshRollbackInProgress, reason
	f.since, f.progressAt, f.holdUntil = now, now, time.Time{}
	f.prefs.checkpoints = nil
	a.selectTargets(f, func(inst *instance) bool { return !a.catalog.matchesSource(f.before, inst.template) })
}

// endRefresh sets the last status of the refresh. It terminates the instances that the refresh has launched
// beyond the desired capacity and that were never in service, before any older instance could be terminated.
// It needs mu, and leaves the reconciling to the caller.
func (a refreshEngine) endRefresh(f *refresh, status string) {
	f.status, f.endedAt, f.wakeAt = status, time.Now(), time.Time{}
	if status == refreshSuccessful && f.desired != nil {
		f.group.source = *f.desired
	}
	for _, inst := range slices.Backward(f.group.live()) {
		if f.group.liveCount() <= f.group.desired || f.group.suspended["Terminate"] {
			return
		}
		if inst.hasStatePrefix(statePending) && !f.targets[inst] {
			a.fleet.terminate(inst)
		}
	}
}
