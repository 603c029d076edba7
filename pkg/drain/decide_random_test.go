package drain

import (
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

func TestDecideKeepsItsInvariants(t *testing.T) {
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

// TestNextDecisionIsEarlyEnough tests that a drain which does nothing need not decide again before the
// instant that the step names: at every instant before it there is nothing to do either.
func TestNextDecisionIsEarlyEnough(t *testing.T) {
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

// A simulatedNode is a node without an API, on which time jumps from one instant of interest to the next.
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

// stop ends a pod when its grace period ends; one in ten never ends, because of a finalizer.
func (f *simulatedNode) stop(p *Pod, graceEndsAt time.Time) {
	if p.GraceEndsAt.IsZero() || graceEndsAt.Before(p.GraceEndsAt) {
		p.GraceEndsAt = graceEndsAt
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
	b.ProbeAt = now.Add(time.Duration(1+f.r.IntN(60)) * time.Second) // as the pdbTracker does
	defer func() { f.state.Budgets[r.Budget] = b }()
	if b.Allowed <= 0 {
		return Blocked
	}
	b.Allowed--
	b.Healthy--
	return Accepted
}

// elapse removes the pods that are gone at now, and returns the next instant at which one ends.
func (f *simulatedNode) elapse(now time.Time) (next time.Time) {
	kept := f.state.Pods[:0]
	for _, p := range f.state.Pods {
		end, ends := f.gone[p.UID]
		if ends && !end.IsZero() && !end.After(now) {
			for _, name := range p.Budgets {
				if f.r.IntN(2) == 0 { // its replacement is ready
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
