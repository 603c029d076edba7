package awsim

import (
	"math"
	"slices"
	"strconv"
	"time"
)

// readPreferences are those of an Instance Refresh, with the defaults filled in.
type preferences struct {
	min          int
	max          int // Zero if it was not given, which is not the same as 100.
	warmup       time.Duration
	skipMatching bool
	autoRollback bool
	checkpoints  []int
	delay        time.Duration // After each checkpoint.
	bake         time.Duration
	protected    string // Refresh, Ignore or Wait.
	standby      string // Terminate, Ignore or Wait.
	alarms       []string
	rootVolume   bool    // It replaces root volumes, not instances.
	call         *reader // That started the refresh.
}

// bounds returns how many instances must be in service, healthy and warm during a refresh, and how many may
// exist. If the percentages allow neither fewer nor more instances than desired, one more is launched first
// if a maximum was given or all must stay in service; without a maximum one is terminated first.
func (p preferences) bounds(desired int) (fewest, most int) {
	fewest, most = int(math.Ceil(float64(desired*p.min)/100)), desired
	if p.max > 0 {
		most = desired * p.max / 100
	}
	switch {
	case desired == 0 || fewest < desired || most > desired:
		return fewest, most
	case p.max == 0 && p.min < 100:
		return desired - 1, desired
	default:
		return desired, desired + 1
	}
}

// goal is how many of so many targets the refresh replaces: up to the last checkpoint, be it below 100.
func (p preferences) goal(total int) int {
	if len(p.checkpoints) == 0 {
		return total
	}
	return share(total, p.checkpoints[len(p.checkpoints)-1])
}

// share is a percentage of a number, rounded up.
func share(n, percent int) int { return (n*percent + 99) / 100 }

// census is what a refresh sees of its group.
type census struct {
	ready  int // In service, healthy, and warm if they are new instances.
	live   int // In service, or on their way there.
	old    int // Targets that are still there.
	free   []*instance
	warmAt time.Time // When the next new instance will be warm; zero without one.
	reason string    // Why the refresh waits, with one instance as an example.
}

// count counts the group's instances.
func (f *refresh) count(now time.Time) census {
	c := census{live: f.group.liveCount()}
	for _, inst := range f.group.members {
		if f.targets[inst] && !inst.isTerminating() && !inst.warm {
			c.addOld(f, inst)
		}
		if inst.state() == stateInService && inst.health == healthy {
			c.addServing(f, inst, now)
		}
		if inst.hasStatePrefix(statePending) && !f.targets[inst] {
			c.waitFor(inst, " has insufficient data to evaluate its health with Amazon EC2.")
		}
	}
	return c
}

// addOld counts a target. It may be terminated in service, and also while it launches.
func (c *census) addOld(f *refresh, inst *instance) {
	c.old++
	switch {
	case inst.protected && f.prefs.protected == "Wait":
		c.waitFor(inst, " is protected from scale in.")
	case inStandby(inst) && f.prefs.standby == "Wait":
		c.waitFor(inst, " is in standby.")
	case inst.health == healthy:
		c.free = append(c.free, inst)
	}
}

func (c *census) addServing(f *refresh, inst *instance, now time.Time) {
	warmAt := inst.inServiceAt.Add(f.prefs.warmup)
	if f.targets[inst] || inst.inServiceAt.Before(f.since) || !now.Before(warmAt) {
		c.ready++
		return
	}
	if c.warmAt.IsZero() || warmAt.Before(c.warmAt) {
		c.warmAt = warmAt
	}
	c.reason = "Waiting for instances to warm up before continuing. For example: " + inst.id + " is warming up."
}

func (c *census) waitFor(inst *instance, why string) {
	if c.warmAt.IsZero() {
		c.reason = "Waiting for remaining instances to be available. For example: " + inst.id + why
	}
}

// next is a target that may go now, or nil. One that serves may if enough others do; how many may be left is
// up to the next checkpoint.
func (c census) next(fewest, left int) *instance {
	if c.old <= left {
		return nil
	}
	for _, inst := range c.free {
		if inst.state() != stateInService || c.ready > fewest {
			return inst
		}
	}
	return nil
}

// targetsToKeep is how many targets the refresh leaves alone until it has passed its next checkpoint.
func (f *refresh) targetsToKeep() int {
	if f.passed < len(f.prefs.checkpoints) {
		return f.total - share(f.total, f.prefs.checkpoints[f.passed])
	}
	return f.total - f.prefs.goal(f.total)
}

// suspendedProcess names the suspended process that keeps a refresh from replacing anything; empty if none
// does.
func (f *refresh) suspendedProcess() string {
	for _, process := range []string{"InstanceRefresh", "Launch", "Terminate"} {
		if f.group.suspended[process] {
			return process
		}
	}
	return ""
}

// wanted is how many instances the group is to have for the sake of its refresh: with every target that may
// go a new instance in advance, as far as the percentages allow. A refresh that pauses, or is being
// cancelled, keeps what there is.
func (f *refresh) wanted(now time.Time) int {
	c, desired := f.count(now), f.group.desired
	_, most := f.prefs.bounds(desired)
	switch {
	case f.prefs.rootVolume:
		return desired
	case f.suspendedProcess() != "",
		contains([]string{refreshCancelling, refreshPending, refreshBaking}, f.status):
		return max(desired, min(c.live, most))
	case now.Before(f.holdUntil):
		return desired
	default:
		return max(desired, min(desired+min(c.replaceable(), max(0, c.old-f.targetsToKeep())), most))
	}
}

// replaceable is how many of the serving targets a new instance may be launched for in advance.
func (c census) replaceable() int {
	n := 0
	for _, inst := range c.free {
		n += score(inst.state() == stateInService)
	}
	return n
}

// advance takes the group's refresh as far as it can go now. It needs mu.
func (a refreshEngine) advance(g *group) {
	f := g.refreshing()
	if f == nil {
		return
	}
	now := time.Now()
	switch f.status {
	case refreshInProgress, refreshRollbackInProgress:
		if !a.alarms.mayContinue(a, f) {
			return
		}
		a.replaceOld(f, now)
	case refreshCancelling:
		if !slices.ContainsFunc(g.members, isTransitioning) {
			a.endRefresh(f, refreshCancelled)
		}
	case refreshBaking:
		if a.alarms.mayContinue(a, f) && !now.Before(f.holdUntil) {
			f.reason = ""
			a.endRefresh(f, refreshSuccessful)
		}
	}
}

// isTransitioning reports whether the instance is launching or terminating, hooks included.
func isTransitioning(i *instance) bool {
	return i.hasStatePrefix(statePending) || i.hasStatePrefix("Terminating") && i.state() != stateRetained ||
		isReplacingVolume(i)
}

// replaceOld terminates the targets that may go, and ends the refresh when all is done or nothing moves. What
// is missing then is launched like any missing capacity.
func (a refreshEngine) replaceOld(f *refresh, now time.Time) {
	a.reselectTargets(f)
	c := f.count(now)
	f.updateProgress(c, now)
	f.passCheckpoints(now)
	f.wakeAt = time.Time{}
	if process := f.suspendedProcess(); process != "" {
		f.paused, f.reason = true, "Waiting because the process "+process+" is suspended."
		return
	}
	if f.waitsAtCheckpoint(now) {
		return
	}
	if f.paused {
		f.paused, f.progressAt = false, now
	}
	fewest, _ := f.prefs.bounds(f.group.desired)
	for !f.ended() {
		inst := c.next(fewest, f.targetsToKeep())
		if inst == nil {
			break
		}
		a.volumes.replace(f, inst)
		c = f.count(now)
	}
	if f.ended() {
		return
	}
	f.updateProgress(c, now)
	if f.remaining == 0 {
		a.pools.replacePool(f)
		f.updateProgress(f.count(now), now)
	}
	if f.passCheckpoints(now); !f.waitsAtCheckpoint(now) {
		a.finishOrWait(f, c, now)
	}
}

// waitsAtCheckpoint reports whether the delay after a checkpoint runs, and if so sets the timer to its end.
func (f *refresh) waitsAtCheckpoint(now time.Time) bool {
	if !now.Before(f.holdUntil) {
		return false
	}
	f.paused, f.wakeAt = true, f.holdUntil
	return true
}

// updateProgress computes the progress: a target is replaced when it is terminated and no instance is
// missing.
func (f *refresh) updateProgress(c census, now time.Time) {
	remaining, pool := min(f.total, c.old+max(0, f.group.desired-c.ready)), f.poolLeft()
	if remaining+pool < f.remaining+f.poolRemaining {
		f.progressAt = now
	}
	f.remaining, f.poolRemaining = remaining, pool
	done := percentDone(f.total+f.poolTotal, remaining+pool)
	if f.rollback != nil {
		f.percent = f.rollback.percent * (100 - done) / 100
		return
	}
	f.toUpdate, f.percent = remaining+pool, done
}

func percentDone(total, remaining int) int {
	if total == 0 {
		return 100
	}
	return (total - remaining) * 100 / total
}

// passCheckpoints passes the checkpoints that have been reached. The last one ends the refresh: no delay
// follows it.
func (f *refresh) passCheckpoints(now time.Time) {
	for f.passed < len(f.prefs.checkpoints) && f.remaining <= f.targetsToKeep() {
		percentage := f.prefs.checkpoints[f.passed]
		f.passed++
		if f.passed < len(f.prefs.checkpoints) {
			f.holdUntil = now.Add(f.prefs.delay)
			f.reason = "Waiting after the checkpoint of " + strconv.Itoa(percentage) + " percent before continuing."
		}
	}
}

// finishOrWait ends a refresh that is done, or that has not moved for too long, and else sets its alarm.
func (a refreshEngine) finishOrWait(f *refresh, c census, now time.Time) {
	giveUp := a.delays.RefreshGiveUp
	if giveUp == 0 {
		giveUp = refreshGiveUp
	}
	stuckAt := f.progressAt.Add(giveUp)
	if !c.warmAt.IsZero() {
		stuckAt = time.Time{} // Who warms up will be ready.
	}
	lastAt := f.startedAt.Add(longestRefresh)
	f.reason = c.reason
	switch {
	case f.remaining <= f.targetsToKeep() && (f.poolRemaining == 0 || f.targetsToKeep() > 0):
		a.succeed(f, now)
	case !now.Before(lastAt):
		a.fail(f, "it took longer than 14 days")
	case !stuckAt.IsZero() && !now.Before(stuckAt):
		a.fail(f, "it made no progress for "+giveUp.String())
	default:
		f.wakeAt = earliest(stuckAt, lastAt, c.warmAt)
	}
}

func earliest(times ...time.Time) time.Time {
	var first time.Time
	for _, t := range times {
		if !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	return first
}

func (a refreshEngine) succeed(f *refresh, now time.Time) {
	f.reason = ""
	switch {
	case f.rollback != nil:
		a.endRefresh(f, refreshRollbackSuccessful)
	case f.prefs.bake > 0:
		f.status, f.holdUntil = refreshBaking, now.Add(f.prefs.bake)
		f.wakeAt, f.reason = f.holdUntil, "Waiting for the bake time to pass."
	default:
		a.endRefresh(f, refreshSuccessful)
	}
}

// fail ends the refresh with what it waited for last, or rolls it back if it is to do that by itself.
func (a refreshEngine) fail(f *refresh, why string) {
	f.reason = "The instance refresh failed because " + why + ". " + f.reason
	switch {
	case f.rollback != nil:
		a.endRefresh(f, refreshRollbackFailed)
	case f.prefs.autoRollback && a.isReversible(f):
		a.beginRollback(f, "Rollback was initiated automatically. "+f.reason)
		a.replaceOld(f, time.Now())
	default:
		a.endRefresh(f, refreshFailed)
	}
}
