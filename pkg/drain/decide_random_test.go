package drain

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/node-drainer/node-drainer/pkg/handover"
)

var budgetNames = []string{"x/a", "x/b", "x/c"}

func oneOfThese[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

// randomState returns a state of few pods and budgets, so that they meet in many ways.
func randomState(r *rand.Rand, now time.Time) State {
	near := func() time.Time { return now.Add(time.Duration(r.IntN(41)-20) * time.Second) }
	s := State{Since: t0, Budgets: map[string]Budget{}, Unreachable: r.IntN(10) == 0, EndNow: r.IntN(40) == 0}
	if r.IntN(8) == 0 {
		s.HoldUntil = near().Add(time.Duration(r.IntN(10)) * time.Minute)
	}
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
		if p.Try.Last == Forced {
			p.Try.EndsAt = oneOfThese(r, near(), now.Add(time.Hour))
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
	addHandOvers(r, &s, near)
	if r.IntN(2) == 0 {
		addRareStates(r, &s, near)
	}
	if r.IntN(4) == 0 {
		s.Attached = []string{"pv-1", "pv-2"}
		s.EmptyAt = oneOfThese(r, time.Time{}, near())
	}
	return s
}

// addRareStates has some pods return, or leave last, and a kubelet or a scheduler fail.
func addRareStates(r *rand.Rand, s *State, near func() time.Time) {
	before := func() time.Time { return near().Add(-time.Duration(r.IntN(60)) * time.Second) }
	s.TierSince = map[int]time.Time{}
	for tier := range oneOfThese(r, 0, 1, 3, 5) {
		s.TierSince[tier] = before()
	}
	s.DeadSince = oneOfThese(r, time.Time{}, time.Time{}, before())
	s.SchedulerWait = oneOfThese(r, 0, 0, time.Duration(r.IntN(120))*time.Second)
	for i := range s.Pods {
		p := &s.Pods[i]
		switch r.IntN(8) {
		case 0:
			p.Returned, p.Brief = true, true
		case 1:
			p.Brief = true
		case 2:
			p.Brief, p.Unmounts = true, true
		case 3:
			p.EvictAt = near()
		}
		if !p.GraceEndsAt.IsZero() {
			p.DeletedAt = p.GraceEndsAt.Add(-p.Grace)
			s.GrantedUntil = oneOfThese(r, s.GrantedUntil, p.GraceEndsAt)
		}
	}
}

// addHandOvers has some pods hand over, in half of the states.
func addHandOvers(r *rand.Rand, s *State, near func() time.Time) {
	if r.IntN(2) == 0 {
		return
	}
	s.TurnsTaken = map[string]bool{"x": r.IntN(3) == 0}
	for i := range s.Pods {
		if r.IntN(3) > 0 {
			continue
		}
		h := HandOver{Kind: handover.GateKind, Closed: r.IntN(8) == 0, Asking: r.IntN(4) == 0}
		if r.IntN(2) == 0 {
			h.Last, h.Next = oneOfThese(r, handover.HandingOver, handover.GroupBehind, handover.Refused, noAnswer), near()
		}
		if h.Last != handover.GroupBehind {
			h.FailingSince = oneOfThese(r, time.Time{}, near())
		}
		h.Reserved = h.Asking && len(s.Pods[i].Budgets) == 1
		if r.IntN(3) == 0 {
			h.Kind, h.Closed, h.Reserved = handover.Restart, false, false
			h.Last = oneOfThese(r, "", handover.Restarting, handover.Unfit, noAnswer)
			h.Pod = oneOfThese(r, nil, &handover.Pod{Annotations: map[string]string{DrainAnnotation: handover.Restart}})
		}
		s.Pods[i].HandOver = h
	}
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
	p.AtDeadline = oneOfThese(r, Delete, Delete, Delete, Leave)
	p.TierList[0].Bound, p.TierList[1].Bound = oneOfThese(r, 0, 2*time.Minute), oneOfThese(r, 0, time.Minute)
	p.ForceSpacing = oneOfThese(r, 0, 30*time.Second, 5*time.Minute)
	p.ForceUnhealthy = oneOfThese(r, 0, 0, 3*time.Minute)
	p.StuckAfter = oneOfThese(r, 0, 10*time.Second, 5*time.Minute)
	p.Settle = oneOfThese(r, 0, 5*time.Second)
	p.LoadBalancerWait = oneOfThese(r, 0, 0, 4*time.Minute)
	p.VolumeTimeout = oneOfThese(r, 0, 2*time.Minute)
	p.HandOverTimeout, p.AnnotationTimeout = time.Minute, oneOfThese(r, 0, 3*time.Minute, time.Hour, time.Hour)
	p.EvictionDelay = oneOfThese(r, 0, 0, 30*time.Second, 20*time.Minute)
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
// instant that the step names: at every instant before it there is nothing to do either, except what the step has left
// to budgets.
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
		if len(step.Release)+len(step.Evict)+len(step.Delete) > 0 || step.Done {
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
			if len(later.Delete) > 0 || later.Done || beginsUnqueued(step, later) {
				t.Fatalf("seed %d: at %v: %s\nyet at %v: %s\n%+v", seed, now.Sub(t0), format(step), then.Sub(t0), format(later), policy)
			}
		}
	}
	if idle < 4_000 {
		t.Errorf("only %d states had nothing to do", idle)
	}
}

// beginsUnqueued reports whether a later step begins with a pod that the step has not left to its budget.
func beginsUnqueued(step, later Step) bool {
	queued := map[string]bool{}
	for _, w := range step.Wait {
		queued[w.Pod.UID] = w.Then != nil
	}
	return slices.ContainsFunc(later.Evict, func(r Removal) bool { return r.Kind == LastEviction || !queued[r.Pod.UID] }) ||
		slices.ContainsFunc(later.Release, func(r Release) bool { return !r.Evict || !queued[r.Removal.Pod.UID] })
}

func clone(s State) State {
	c := s
	c.Budgets, c.Pods, c.Attached = maps.Clone(s.Budgets), slices.Clone(s.Pods), slices.Clone(s.Attached)
	for i := range c.Pods {
		c.Pods[i].Budgets = slices.Clone(c.Pods[i].Budgets)
	}
	return c
}

// TestEveryDrainEnds soon after the deadline, or after the return of the API server: whatever the configuration is, the
// pods and their budgets, and the answers of the API server.
func TestEveryDrainEnds(t *testing.T) {
	for seed := range uint64(300) {
		virtual(t, fmt.Sprint(seed), func(t *testing.T) {
			r, c := rand.New(rand.NewPCG(seed, 2)), newCluster(t)
			seconds := func(n int) time.Duration { return time.Duration(r.IntN(n)) * time.Second }
			away := seconds(700)
			back := away + seconds(400)*time.Duration(r.IntN(2))
			c.answer = func(verb string) error {
				switch since := time.Since(c.since); {
				case since >= away && since < back, r.IntN(20) == 0:
					return errUnavailable
				case verb == "delete" && r.IntN(20) == 0:
					return errForbidden
				}
				return nil
			}
			apps := []string{"a", "b", "c", ""}
			for _, app := range apps[:3] {
				c.addBudget(app, r.IntN(5), r.IntN(3))
			}
			c.podsNeverEnd, c.starts = r.IntN(10) == 0, constant(seconds(100)) // because of a finalizer
			for i := range r.IntN(12) {
				c.addPod("n", fmt.Sprint(i), oneOfThese(r, apps...), gracePeriod(oneOfThese[int64](r, 1, 30, 240, 3600)),
					func(p *corev1.Pod) {
						p.Spec.Priority = oneOfThese(r, nil, new(int32(1000)), new(int32(2000)))
						p.Annotations = map[string]string{DrainAnnotation: oneOfThese(r, "", "", "3m", Wait)}
						p.Status.Conditions[0].Status = oneOfThese(r, corev1.ConditionTrue, corev1.ConditionTrue, corev1.ConditionFalse)
					})
			}
			c.start(Config{
				AtDeadline: oneOfThese(r, Delete, Delete, Leave), Tiers: oneOfThese(r, "0", "0,1000,2000", "0=2m,1000=1m,2000"),
				ForceSpacing:   oneOfThese(r, 0, 30*time.Second, 5*time.Minute),
				ForceUnhealthy: oneOfThese(r, 0, 3*time.Minute), StuckAfter: oneOfThese(r, 0, 10*time.Second, 5*time.Minute),
				Settle: seconds(6), LoadBalancerWait: oneOfThese(r, 0, 4*time.Minute),
				AnnotationTimeout: oneOfThese(r, time.Minute, time.Hour),
			})
			report, err := c.drain("n", window)()
			// Beyond that there is the shortest grace period, and a pause or a few: one call in ten fails.
			latest := max(window, back) + 2*time.Second + terminationLag + 5*(lastRetry+lastRetry/4)
			if err != nil || report.Took > latest {
				t.Errorf("got %+v, %v; want an end after %v", report, err, latest)
			}
		})
	}
}
