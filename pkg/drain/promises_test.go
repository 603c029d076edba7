package drain

import (
	stdcmp "cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var budgetNames = []string{"x/a", "x/b", "x/c"}

func oneOfThese[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

// randomState returns a state of few pods and budgets, so that they meet in many ways.
func randomState(r *rand.Rand, now time.Time) State {
	near := func() time.Time { return now.Add(time.Duration(r.IntN(41)-20) * time.Second) }
	s := State{Since: t0, Budgets: map[string]Budget{}, Unreachable: r.IntN(10) == 0}
	for _, name := range budgetNames {
		s.Budgets[name] = randomBudget(r, near)
	}
	for i := range r.IntN(12) {
		p := pod(fmt.Sprint(i))
		p.Grace = oneOfThese(r, 0, time.Second, 30*time.Second, 4*time.Minute, time.Hour)
		p.StayReason = oneOfThese[StayReason](r, "", "", "", "", DaemonSet, Mirror, Finished)
		p.Tier = oneOfThese(r, 0, 0, 0, 1, 2, 3, 4)
		p.Ready, p.UnreadySince = r.IntN(4) > 0, near().Add(-time.Duration(r.IntN(600))*time.Second)
		if p.Try.Last = oneOfThese(r, None, None, None, Sent, Accepted, Blocked, Deferred, Refused, Forced, Denied); p.Try.Last != None {
			p.Try.Next, p.Try.Failures = near(), r.IntN(3)
		}
		if r.IntN(5) == 0 {
			p.GraceEndsAt = near().Add(time.Duration(r.IntN(3)) * 10 * time.Minute)
		}
		if r.IntN(8) == 0 {
			p.WaitReason = oneOfThese(r, OptedOut, WaitedFor)
			p.WaitUntil = oneOfThese(r, time.Time{}, near())
		}
		for _, name := range budgetNames {
			if r.IntN(4) == 0 {
				p.Budgets = append(p.Budgets, name)
			}
		}
		s.Pods = append(s.Pods, p)
	}
	if r.IntN(4) == 0 {
		s.Attached = []string{"pv-1", "pv-2"}
		s.EmptyAt = oneOfThese(r, time.Time{}, near())
	}
	return s
}

func randomBudget(r *rand.Rand, near func() time.Time) Budget {
	b := Budget{Expected: r.IntN(5), AlwaysAllow: r.IntN(4) == 0}
	b.Healthy = r.IntN(b.Expected + 1)
	b.Desired = r.IntN(b.Expected + 1)
	b.Allowed = max(b.Healthy-b.Desired, 0) - oneOfThese(r, 0, 0, 1, 2)
	b.StaleUntil, b.ProbeAt = oneOfThese(r, time.Time{}, near()), oneOfThese(r, time.Time{}, near(), near())
	return b
}

func randomPolicy(r *rand.Rand) Policy {
	p := defaultPolicy()
	p.Force = r.IntN(4) > 0
	p.Tiers = []time.Duration{oneOfThese(r, 0, 2*time.Minute), oneOfThese(r, 0, time.Minute), 0}
	p.ForceSpacing = oneOfThese(r, 0, 30*time.Second, 5*time.Minute)
	p.ForceUnhealthy = oneOfThese(r, 0, 0, 3*time.Minute)
	p.StuckAfter = oneOfThese(r, 0, 10*time.Second, 5*time.Minute)
	p.Settle = oneOfThese(r, 0, 5*time.Second)
	p.LoadBalancerWait = oneOfThese(r, 0, 0, 4*time.Minute)
	p.VolumeTimeout = oneOfThese(r, 0, 2*time.Minute)
	return p
}

func TestDecideHoldsItsPromises(t *testing.T) {
	for seed := range uint64(5_000) {
		r := rand.New(rand.NewPCG(seed, 1))
		now := at(time.Duration(r.IntN(800)) * time.Second)
		policy, s := randomPolicy(r), randomState(r, now)
		var before State
		if seed%20 == 0 { // Comparing is slow.
			before = clone(s)
		}
		step := Decide(s, now, at(window), policy)
		if seed%20 == 0 {
			if diff := cmp.Diff(before, s); diff != "" {
				t.Fatalf("seed %d: the arguments have changed:\n%s", seed, diff)
			}
			if diff := cmp.Diff(step, Decide(s, now, at(window), policy)); diff != "" {
				t.Fatalf("seed %d: not deterministic:\n%s", seed, diff)
			}
		}
		if fault := violation(s, step, now, at(window), policy); fault != "" {
			t.Fatalf("seed %d, %v: %s\n%s", seed, now.Sub(t0), fault, format(step))
		}
	}
}

// TestNothingBecomesPossibleUnseen holds that a drain which does nothing need not look again before the
// instant that the step names: at every instant before it there is nothing to do either.
func TestNothingBecomesPossibleUnseen(t *testing.T) {
	idle := 0
	for seed := range uint64(15_000) {
		r := rand.New(rand.NewPCG(seed, 3))
		now := at(time.Duration(r.IntN(700)) * time.Second)
		policy, s := randomPolicy(r), randomState(r, now)
		s.Pods = s.Pods[:min(len(s.Pods), 1+r.IntN(4))] // with few pods there is often nothing to do
		if s.EmptyAt.IsZero() {
			s.Attached = nil // the loop notes when the node was empty before it comes back
		}
		step := Decide(s, now, at(window), policy)
		if len(step.Evict)+len(step.Delete) > 0 || step.Done {
			continue
		}
		idle++
		until := step.Again
		if until.IsZero() {
			until = at(window).Add(time.Hour)
		}
		for range 4 {
			then := now.Add(time.Duration(r.Int64N(int64(until.Sub(now)))))
			later := Decide(s, then, at(window), policy)
			if len(later.Evict)+len(later.Delete) > 0 || later.Done {
				t.Fatalf("seed %d: at %v: %s\nyet at %v: %s\n%+v", seed, now.Sub(t0), format(step), then.Sub(t0), format(later), policy)
			}
		}
	}
	if idle < 4_000 {
		t.Errorf("only %d states had nothing to do", idle)
	}
}

func clone(s State) State {
	c := s
	c.Budgets, c.Pods, c.Attached = maps.Clone(s.Budgets), slices.Clone(s.Pods), slices.Clone(s.Attached)
	for i := range c.Pods {
		c.Pods[i].Budgets = slices.Clone(c.Pods[i].Budgets)
	}
	return c
}

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
		case policy.Force && r.Pod.GraceEndsAt.IsZero() && now.Add(max(stdcmp.Or(r.Grace, r.Pod.Grace), time.Second)).After(deadline) &&
			r.Grace != time.Second:
			return r.Pod.Name + " may run beyond the deadline"
		}
	}
	for _, fault := range []string{
		evictionViolation(s, step, now, policy), deletionViolation(s, step, now, deadline, policy),
		waitViolation(step, named), endViolation(s, step, now, deadline, policy), budgetViolation(s, step, now),
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
		return fmt.Sprintf("%d pods are left, %d are told, %d are named", left, len(step.Left), len(named))
	}
	if !step.Again.IsZero() && !step.Again.After(now) {
		return "again is in the past"
	}
	return ""
}

func evictionViolation(s State, step Step, now time.Time, policy Policy) string {
	for _, r := range step.Evict {
		switch p := r.Pod; {
		case !p.GraceEndsAt.IsZero():
			return p.Name + " is evicted though it is terminating"
		case len(p.Budgets) > 1:
			return p.Name + " is evicted, which the API server refuses for two budgets"
		case p.WaitReason != "" && (p.WaitUntil.IsZero() || now.Before(p.WaitUntil)):
			return p.Name + " is evicted, and was to be waited for"
		case now.Before(p.Try.Next):
			return p.Name + " is evicted before its pause is over"
		}
		for _, other := range s.Pods {
			stuck := !other.GraceEndsAt.IsZero() && (s.Unreachable || policy.StuckAfter > 0) // perhaps; it is not looked into
			denied := other.Try.Last == Denied
			if other.StayReason == "" && other.Tier < r.Pod.Tier && !stuck && !denied && !bounded(policy, r.Pod.Tier) {
				return r.Pod.Name + " is evicted before " + other.Name + " of an earlier tier"
			}
		}
	}
	return ""
}

// bounded tells whether each of the tiers before the tier has a bound.
func bounded(policy Policy, tier int) bool {
	for i := range tier {
		if i >= len(policy.Tiers) || policy.Tiers[i] == 0 {
			return false
		}
	}
	return true
}

func deletionViolation(s State, step Step, now, deadline time.Time, policy Policy) string {
	half := deadline.Sub(s.Since) / 2
	for _, r := range step.Delete {
		switch {
		case r.Reason == "":
			return r.Pod.Name + " is deleted without a reason"
		case r.Reason == Unhealthy && (policy.ForceUnhealthy == 0 || r.Pod.Ready):
			return r.Pod.Name + " is deleted as unhealthy, against the policy"
		case r.Reason == AtDeadline && (!policy.Force || r.Grace == 0):
			return r.Pod.Name + " is deleted, against the policy or without a grace"
		case r.Reason == AtDeadline && now.Before(deadline.Add(-half)):
			return r.Pod.Name + " is deleted in the first half of the time"
		}
	}
	return ""
}

func waitViolation(step Step, named map[string]int) string {
	for _, w := range step.Wait {
		node := w.Reason == VolumesAttached || w.Reason == Deregistering
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

func endViolation(s State, step Step, now, deadline time.Time, policy Policy) string {
	early := now.Before(deadline)
	for _, p := range step.Left {
		stuck := !p.GraceEndsAt.IsZero() && now.After(p.GraceEndsAt) && (s.Unreachable || policy.StuckAfter > 0)
		if step.Done && early && !stuck {
			return "done before the deadline though " + p.Name + " is left"
		}
	}
	switch {
	case step.Done && !step.Empty:
		return "done, and not empty"
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

// budgetViolation names a budget of which more was taken than it allows, or one more if it was to be asked, and one
// of which was taken in secret.
func budgetViolation(s State, step Step, now time.Time) string {
	taken := map[string]int{}
	for _, r := range step.Evict {
		if r.Budget != "" {
			taken[r.Budget]++
			continue
		}
		for _, name := range r.Pod.Budgets {
			b := s.Budgets[name]
			if r.Pod.Ready || (!b.AlwaysAllow && (b.Desired == 0 || b.Healthy < b.Desired)) {
				return r.Pod.Name + " takes of " + name + ", and does not say so"
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

// A fleet is a node without an API, on which time goes from one instant of interest to the next.
type simulatedNode struct {
	r     *rand.Rand
	state State
	gone  map[string]time.Time // by UID: when the pod has really stopped; zero never
	away  [2]time.Time         // the API server cannot be reached between these
}

func newSimulatedNode(r *rand.Rand) *simulatedNode {
	f := &simulatedNode{r: r, state: randomState(r, t0), gone: map[string]time.Time{}}
	f.state.Attached, f.state.EmptyAt = nil, time.Time{}
	for i := range f.state.Pods {
		p := &f.state.Pods[i]
		p.Try = Try{}
		if !p.GraceEndsAt.IsZero() {
			f.stop(p, p.GraceEndsAt)
		}
	}
	if r.IntN(3) == 0 {
		f.away[0] = at(time.Duration(r.IntN(700)) * time.Second)
		f.away[1] = f.away[0].Add(time.Duration(r.IntN(400)) * time.Second)
	}
	return f
}

// stop lets a pod end by goneBy; one in ten is held by a finalizer for ever.
func (f *simulatedNode) stop(p *Pod, goneBy time.Time) {
	if p.GraceEndsAt.IsZero() || goneBy.Before(p.GraceEndsAt) {
		p.GraceEndsAt = goneBy
	}
	if _, stuck := f.gone[p.UID]; !stuck && f.r.IntN(10) == 0 {
		f.gone[p.UID] = time.Time{}
	} else if !stuck || !f.gone[p.UID].IsZero() {
		f.gone[p.UID] = p.GraceEndsAt
	}
}

// answer is what the API server makes of a removal, and the loop of its answer.
func (f *simulatedNode) answer(r Removal, force bool, now time.Time) {
	for i := range f.state.Pods {
		p := &f.state.Pods[i]
		if p.UID != r.Pod.UID {
			continue
		}
		outcome := f.outcome(r, force, now)
		if outcome == Accepted || outcome == Forced {
			own := p.Grace
			if r.Grace > 0 {
				own = r.Grace
			}
			f.stop(p, now.Add(own))
		}
		p.Try = r.next(outcome, "", nil, now)
	}
}

func (f *simulatedNode) outcome(r Removal, force bool, now time.Time) Outcome {
	switch {
	case !now.Before(f.away[0]) && now.Before(f.away[1]), f.r.IntN(20) == 0:
		return Deferred
	case force && f.r.IntN(20) == 0:
		return Denied
	case force:
		return Forced
	case r.Budget == "":
		return Accepted
	}
	b := f.state.Budgets[r.Budget]
	b.ProbeAt = now.Add(time.Duration(1+f.r.IntN(60)) * time.Second) // as the account does
	defer func() { f.state.Budgets[r.Budget] = b }()
	if b.Allowed <= 0 {
		return Blocked
	}
	b.Allowed--
	b.Healthy--
	return Accepted
}

// elapse removes the pods that are gone at now, and returns the next instant at which one goes.
func (f *simulatedNode) elapse(now time.Time) (next time.Time) {
	kept := f.state.Pods[:0]
	for _, p := range f.state.Pods {
		end, ends := f.gone[p.UID]
		if ends && !end.IsZero() && !end.After(now) {
			for _, name := range p.Budgets {
				if f.r.IntN(2) == 0 { // its successor is ready
					b := f.state.Budgets[name]
					b.Allowed++
					b.Healthy++
					f.state.Budgets[name] = b
				}
			}
			continue
		}
		kept = append(kept, p)
		if ends && end.After(now) && (next.IsZero() || end.Before(next)) {
			next = end
		}
	}
	f.state.Pods = kept
	return next
}

func TestEveryDrainEnds(t *testing.T) {
	for seed := range uint64(2_000) {
		r := rand.New(rand.NewPCG(seed, 2))
		f, policy := newSimulatedNode(r), randomPolicy(r)
		now, deadline := t0, at(window)
		// Beyond the deadline, or the return of the API server, there is one pause and the shortest grace.
		latest := deadline.Add(2*time.Second + terminationLag)
		if f.away[1].After(deadline) {
			latest = f.away[1]
		}
		latest = latest.Add(5 * (lastRetry + lastRetry/4)) // one call in twenty is put off
		for turn := 0; ; turn++ {
			event := f.elapse(now)
			step := Decide(f.state, now, deadline, policy)
			if fault := violation(f.state, step, now, deadline, policy); fault != "" {
				t.Fatalf("seed %d, %v: %s\n%s", seed, now.Sub(t0), fault, format(step))
			}
			if step.Done {
				break
			}
			for _, r := range step.Delete {
				f.answer(r, true, now)
			}
			for _, r := range step.Evict {
				f.answer(r, false, now)
			}
			if len(step.Evict)+len(step.Delete) == 0 {
				now = earliest(step.Again, event)
			}
			if now.IsZero() || now.After(latest) || turn > 3_000 {
				t.Fatalf("seed %d, turn %d: the drain does not end: %s", seed, turn, format(step))
			}
		}
	}
}
