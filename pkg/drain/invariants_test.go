package drain

import (
	stdcmp "cmp"
	"fmt"
	"slices"
	"time"

	"github.com/node-drainer/node-drainer/pkg/handover"
)

// violation returns the first promise that the step breaks.
func violation(s State, step Step, now, deadline time.Time, policy Policy) string {
	named := map[string]int{}
	for _, r := range slices.Concat(step.Evict, step.Delete) {
		named[r.Pod.UID]++
		switch {
		case r.Pod.StayReason != "":
			return r.Pod.Name + " stays, and is removed"
		case r.Grace != 0 && r.Grace < time.Second:
			return r.Pod.Name + " is given less than a second"
		case step.Done:
			return r.Pod.Name + " is removed although all is done"
		case r.Pod.Try.Last == Sent:
			return r.Pod.Name + " is removed while a request is under way"
		case policy.AtDeadline == Delete && r.Pod.GraceEndsAt.IsZero() && r.Grace != time.Second &&
			now.Add(max(stdcmp.Or(r.Grace, r.Pod.Grace), time.Second)).After(deadline):
			return r.Pod.Name + " may run beyond the deadline"
		}
	}
	for _, r := range step.Release {
		named[r.Removal.Pod.UID]++
	}
	for _, fault := range []string{
		releaseViolation(s, step, now, deadline, policy),
		evictionViolation(s, step, now, deadline, policy), lastCallViolation(s, step, now, deadline, policy),
		deletionViolation(s, step, now, deadline, policy),
		waitViolation(step, named), annotationViolation(s, step, now, policy), endViolation(s, step, now, deadline, policy), budgetViolation(s, step, now),
	} {
		if fault != "" {
			return fault
		}
	}
	left := 0
	for _, p := range s.Pods {
		if p.StayReason != "" {
			continue
		}
		left++
		if named[p.UID] != 1 {
			return fmt.Sprintf("%s is in %d lists", p.Name, named[p.UID])
		}
	}
	if left != len(step.Left) || left != len(named) {
		return fmt.Sprintf("%d pods must leave, %d are in Left, %d are in the lists", left, len(step.Left), len(named))
	}
	if !step.Again.IsZero() && !step.Again.After(now) {
		return "again is in the past"
	}
	return ""
}

func evictionViolation(s State, step Step, now, deadline time.Time, policy Policy) string {
	for _, r := range step.Evict {
		switch p := r.Pod; {
		case now.Before(s.HoldUntil) && r.Kind != LastEviction:
			return p.Name + " is evicted while the drain is held"
		case !p.GraceEndsAt.IsZero():
			return p.Name + " is evicted though it is terminating"
		case len(p.Budgets) > 1:
			return p.Name + " is evicted, which the API server refuses for two budgets"
		case r.Kind == LastEviction:
			continue // see lastCallViolation
		case p.WaitReason != "" && (p.WaitUntil.IsZero() || now.Before(p.WaitUntil)) &&
			(p.WaitReason != OptedOut || now.Before(s.Since.Add(policy.AnnotationTimeout))):
			return p.Name + " is evicted, and was to be waited for"
		case now.Before(p.Try.Next):
			return p.Name + " is evicted before its pause is over"
		}
		for _, other := range s.Pods {
			stuck := !other.GraceEndsAt.IsZero() && (s.Unreachable || policy.StuckAfter > 0) // perhaps; it is not looked into
			stuck = stuck || isHeld(s, other, now)
			denied := other.Try.Last == Denied
			started := bounded(policy, r.Pod.Tier) || r.Pod.Tier < len(policy.TierList) && !now.Before(halfOf(s, deadline))
			if other.StayReason == "" && other.Tier < r.Pod.Tier && !stuck && !denied && !started {
				return r.Pod.Name + " is evicted before " + other.Name + " of an earlier tier"
			}
		}
	}
	return ""
}

// bounded reports whether each of the tiers before the tier has a bound.
func bounded(policy Policy, tier int) bool {
	for i := range tier {
		if i >= len(policy.TierList) || policy.TierList[i].Bound == 0 {
			return false
		}
	}
	return true
}

// halfOf is half of the drain.
func halfOf(s State, deadline time.Time) time.Time { return deadline.Add(-deadline.Sub(s.Since) / 2) }

// isHeld reports whether a pod that leaves briefly has been held for as long as it may be.
func isHeld(s State, p Pod, now time.Time) bool {
	start, started := s.TierSince[p.Tier]
	return p.Brief && started && !now.Before(start.Add(briefWait))
}

// lastCallViolation names a pod that is evicted for the last time too early, and one that is deleted although nothing
// has refused its eviction.
func lastCallViolation(s State, step Step, now, deadline time.Time, policy Policy) string {
	taken := map[string]int{}
	for _, r := range step.Evict {
		taken[r.Budget]++
		if r.Kind == LastEviction && (policy.AtDeadline == Leave || now.Before(halfOf(s, deadline)) && !isHeld(s, r.Pod, now)) {
			return r.Pod.Name + " is evicted for the last time, against the policy or too early"
		}
	}
	for _, r := range step.Delete {
		p := r.Pod
		if r.Reason != AtDeadline || p.Try.Last != None || !p.GraceEndsAt.IsZero() || len(p.Budgets) > 1 {
			continue
		}
		if len(p.Budgets) == 0 || s.Budgets[p.Budgets[0]].Allowed > taken[p.Budgets[0]] {
			return p.Name + " is deleted although its budgets permit its eviction"
		}
	}
	return ""
}

// releaseViolation names a pod that is asked although nothing says so, that is asked for too long, or at the same time as
// another of its namespace, and one that is evicted without being asked.
func releaseViolation(s State, step Step, now, deadline time.Time, policy Policy) string {
	turns := map[string]bool{}
	for _, r := range step.Release {
		p := r.Removal.Pod
		switch latest := deadline.Add(-min(max(p.Grace, time.Second), deadline.Sub(s.Since)/2)); {
		case p.HandOver.Kind == "" && !p.HandOver.Starting || p.HandOver.Closed || !p.GraceEndsAt.IsZero() || step.Done:
			return p.Name + " is asked without a reason"
		case policy.AtDeadline == Delete && r.Until.After(latest), r.Until.After(deadline), !r.Until.After(now):
			return fmt.Sprintf("%s is asked until %v, too late or too early", p.Name, r.Until)
		case r.TakeTurn && (turns[p.Namespace] || s.TurnsTaken[p.Namespace]), r.Evict && !r.TakeTurn:
			return p.Name + " is asked though it is not its turn"
		case r.Evict && (len(p.Budgets) > 1 || now.Before(p.Try.Next) || p.Try.Last == Sent):
			return p.Name + " is asked though it could not be evicted"
		}
		turns[p.Namespace] = turns[p.Namespace] || r.TakeTurn
	}
	for _, r := range step.Evict {
		h := r.Pod.HandOver
		expired := !h.FailingSince.IsZero() && !now.Before(h.FailingSince.Add(policy.HandOverTimeout)) ||
			isAnnotated(h) && !now.Before(s.Since.Add(policy.AnnotationTimeout))
		if r.Kind != LastEviction && h.Kind != "" && h.Last != handover.Unfit && !h.Closed && !expired && now.Before(deadline.Add(-time.Second-r.Pod.Grace)) &&
			now.Before(halfOf(s, deadline).Add(-time.Second)) {
			return r.Pod.Name + " is evicted without being asked"
		}
	}
	return ""
}

func deletionViolation(s State, step Step, now, deadline time.Time, policy Policy) string {
	for _, r := range step.Delete {
		switch {
		case r.Reason == "":
			return r.Pod.Name + " is deleted without a reason"
		case r.Reason == Unhealthy && (policy.ForceUnhealthy == 0 || r.Pod.Ready):
			return r.Pod.Name + " is deleted as unhealthy, against the policy"
		case r.Reason == AtDeadline && (policy.AtDeadline == Leave || r.Grace == 0):
			return r.Pod.Name + " is deleted, against the policy or without a grace"
		case r.Reason == AtDeadline && now.Before(halfOf(s, deadline)) && !isHeld(s, r.Pod, now):
			return r.Pod.Name + " is deleted in the first half of the time"
		}
	}
	return ""
}

func waitViolation(step Step, named map[string]int) string {
	for _, w := range step.Wait {
		node := w.Reason == VolumesAttached || w.Reason == Deregistering || w.Reason == SchedulerBehind && w.Pod.EvictAt.IsZero()
		switch {
		case node != (w.Pod.Name == ""):
			return fmt.Sprintf("%q waits for %s", w.Pod.Name, w.Reason)
		case !node:
			named[w.Pod.UID]++
		}
		held := w.Reason == BlockedByBudget || w.Reason == Misconfigured
		if held && len(w.Pod.Budgets) > 0 && (w.Budget == "" || w.Message == "") {
			return w.Pod.Name + " waits for a budget without a name, or a word about it"
		}
		if !slices.Contains(append(WaitReasons(), Terminating, Requested), w.Reason) {
			return fmt.Sprintf("%s waits for the unknown %q", w.Pod.Name, w.Reason)
		}
	}
	return ""
}

// annotationViolation names a pod that still waits because of its annotations when the time for that is over.
func annotationViolation(s State, step Step, now time.Time, policy Policy) string {
	if now.Before(s.Since.Add(policy.AnnotationTimeout)) {
		return ""
	}
	for _, w := range step.Wait {
		isWait := slices.Contains([]WaitReason{HandingOver, GroupBehind, Restarting}, w.Reason)
		if w.Reason == OptedOut || isWait && isAnnotated(w.Pod.HandOver) && !w.Pod.HandOver.Asking {
			return fmt.Sprintf("%s waits for %s for too long", w.Pod.Name, w.Reason)
		}
	}
	for _, r := range step.Release {
		if !r.Last && isAnnotated(r.Removal.Pod.HandOver) {
			return r.Removal.Pod.Name + " is asked when its annotation does not count any more"
		}
	}
	return ""
}

// isAnnotated reports whether an annotation of the pod, and not the configuration, says that it is asked.
func isAnnotated(h HandOver) bool {
	return h.Kind != handover.Restart || h.Pod != nil && h.Pod.Annotations[DrainAnnotation] == handover.Restart
}

func endViolation(s State, step Step, now, deadline time.Time, policy Policy) string {
	if s.EndNow {
		if !step.Done {
			return "not done, although a person has ended the drain"
		}
		return ""
	}
	early, bound := now.Before(deadline), laterOf(laterOf(deadline, s.Started), s.GrantedUntil).Add(endMargin)
	for _, p := range step.Left {
		stuck := !p.GraceEndsAt.IsZero() && now.After(p.GraceEndsAt) && (s.Unreachable || p.Returned || policy.StuckAfter > 0)
		dead := !p.GraceEndsAt.IsZero() && !s.DeadSince.IsZero() && now.After(laterOf(s.DeadSince, p.DeletedAt).Add(deadWait))
		if step.Done && early && !stuck && !dead && !isHeld(s, p, now) {
			return "done before the deadline though " + p.Name + " is left"
		}
	}
	switch {
	case step.Done && !step.Empty && now.Before(bound):
		return "done before its bound, and not empty"
	case !step.Done && !now.Before(bound):
		return "not done at its bound"
	case !step.Done && !early && (step.Again.IsZero() || step.Again.After(bound)):
		return "does not decide again at its bound"
	case step.Done && early && now.Before(s.Since.Add(policy.Settle)):
		return "done before it has settled"
	case step.Done && early && now.Before(s.Since.Add(policy.LoadBalancerWait)):
		return "done before load balancers have had their time"
	case step.Done && early && len(s.Attached) > 0 && now.Before(s.EmptyAt.Add(policy.VolumeTimeout)):
		return "done while volumes are attached"
	case step.Empty && !early && !step.Done:
		return "empty at the deadline, and not done"
	}
	return ""
}

// budgetViolation names a budget of which more was taken than it allows, or one more if it was to be probed, and one
// of which was taken in secret.
func budgetViolation(s State, step Step, now time.Time) string {
	taken := map[string]int{}
	evictions := slices.Clone(step.Evict)
	for _, r := range step.Release {
		if r.Evict {
			evictions = append(evictions, r.Removal)
		}
	}
	for _, r := range evictions {
		if r.Budget != "" {
			taken[r.Budget]++
			continue
		}
		for _, name := range r.Pod.Budgets {
			b := s.Budgets[name]
			if r.Pod.Ready || (!b.AlwaysAllow && (b.Desired == 0 || b.Healthy < b.Desired)) {
				return r.Pod.Name + " disrupts " + name + ", and does not name it"
			}
		}
	}
	for name, n := range taken {
		b, known := s.Budgets[name]
		allowed := max(b.Allowed, 0)
		if !b.ProbeAt.IsZero() && !now.Before(b.ProbeAt) {
			allowed = max(allowed, 1)
		}
		if !known || n > allowed {
			return fmt.Sprintf("%d pods of %s are evicted, it allows %d", n, name, allowed)
		}
	}
	return ""
}
