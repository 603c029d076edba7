package drain

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func TestDecideAttempts(t *testing.T) {
	given{}.expect(t, "a pod whose request is in flight is not touched", 0, "wait a requested; again 10m0s", pod("a", sent))
	given{}.expect(t, "an accepted eviction is not repeated while the watch may be behind",
		s, "wait a terminating; again 15s", pod("a", tried(Accepted, 15*s)))
	given{}.expect(t, "an eviction that shows no effect is repeated", 15*s, "evict a", pod("a", tried(Accepted, 15*s)))
	given{}.expect(t, "a deferred eviction is not retried before its pause", s, "wait a backing-off; again 10s", pod("a", tried(Deferred, 10*s)))
	given{}.expect(t, "a deferred eviction is retried after its pause", 10*s, "evict a", pod("a", tried(Deferred, 10*s)))
	given{}.expect(t, "a refused eviction is retried after a pause", s, "wait a backing-off; again 10s", pod("a", tried(Refused, 10*s)))
	given{budgets: onlyBudget(budget(4))}.expect(t, "a pod that backs off uses no disruption of its budget",
		s, "evict b; wait a backing-off; again 10s", guarded("a", tried(Deferred, 10*s)), guarded("b"))
	given{}.expect(t, "a terminating pod is waited for", s, "wait a terminating; again 10m0s", pod("a", terminating(30*s)))
	given{}.expect(t, "a terminating pod whose request is in flight is not touched",
		s, "wait a terminating; again 10m0s", pod("a", sent, terminating(30*s)))
}

func TestDecideStuckPods(t *testing.T) {
	five := func(p *Policy) { p.StuckAfter = 5 * m }
	lost := func(s *State) { s.Unreachable = true }
	given{}.expect(t, "without StuckAfter a pod past its grace period is waited for until the deadline",
		8*m, "wait a terminating; again 10m0s", pod("a", terminating(30*s)))
	given{policy: five}.expect(t, "with StuckAfter it is waited for until then",
		5*m+30*s-1, "wait a terminating; again 5m30s", pod("a", terminating(30*s)))
	given{policy: five}.expect(t, "after StuckAfter the drain no longer waits for it",
		5*m+30*s, "wait a terminating; done", pod("a", terminating(30*s)))
	given{policy: five}.expect(t, "the drain still waits for other pods",
		6*m, "wait a terminating, b terminating; again 10m0s", pod("a", terminating(30*s)), pod("b", terminating(6*m+10*s)))
	given{policy: func(p *Policy) { p.StuckAfter = 1 }}.expect(t, "StuckAfter is at least the time that the kubelet needs",
		31*s, "wait a terminating; again 32s", pod("a", terminating(30*s)))
	given{policy: func(p *Policy) { p.StuckAfter = m }}.expect(t, "StuckAfter counts from the end of the grace period",
		2*m, "wait a terminating; again 6m0s", pod("a", grace(m), terminating(5*m)))
	given{state: lost}.expect(t, "on an unreachable node a pod has its grace period",
		10*s, "wait a terminating; again 32s", pod("a", terminating(30*s)))
	given{state: lost}.expect(t, "on an unreachable node the drain does not wait for a pod past its grace period",
		32*s, "wait a terminating; done", pod("a", terminating(30*s)))
	given{state: lost}.expect(t, "pods of an unreachable node are evicted",
		40*s, "evict b; wait a terminating; again 10m0s", pod("a", terminating(30*s)), pod("b"))
}

func TestDecideWhetherTheDrainIsOver(t *testing.T) {
	all := func(p *Policy) { p.Settle, p.LoadBalancerWait, p.VolumeTimeout = 5*s, 3*m, 2*m }
	long := func(p *Policy) { p.Settle, p.LoadBalancerWait, p.VolumeTimeout = time.Hour, time.Hour, time.Hour }
	balancer := func(p *Policy) { p.LoadBalancerWait = 3 * m }
	volumes := func(p *Policy) { p.VolumeTimeout = 2 * m }
	attached := func(empty time.Duration, names ...string) func(*State) {
		return func(s *State) { s.EmptyAt, s.Attached = at(empty), names }
	}
	given{policy: balancer}.expect(t, "pods are evicted during the wait for load balancers", 0, "evict a", pod("a"))
	given{policy: all, state: func(s *State) { s.SchedulerWait = 20 * time.Second }}.expect(t,
		"a late scheduler is waited for", 6*s, "wait scheduler-behind, deregistering; again 20s")
	given{policy: volumes, state: func(s *State) { s.SchedulerWait = 20 * time.Second }}.expect(t, "and no longer", 20*s, "done")
	given{policy: func(p *Policy) { p.Settle = 30 * s }, state: func(s *State) { s.SchedulerWait = 20 * time.Second }}.expect(t,
		"the settle time is the least", 6*s, "again 30s")
	given{policy: volumes, state: attached(m, "pv-1", "pv-2")}.expect(t, "volumes are waited for",
		2*m, "wait volumes-attached pv-1, volumes-attached pv-2; again 3m0s")
	given{policy: volumes, state: attached(m, "pv-1")}.expect(t, "the wait for volumes counts from the instant when the node was empty", 3*m, "done")
	given{policy: volumes, state: func(s *State) { s.Attached = []string{"pv-1"} }}.expect(t,
		"a node that has just become empty waits for its volumes", m, "wait volumes-attached pv-1; again 3m0s")
	given{policy: volumes}.expect(t, "without attached volumes there is no wait", m, "done")
	given{policy: volumes, state: attached(m, "pv-1")}.expect(t, "the wait for volumes starts after the last pod",
		2*m, "wait a terminating; again 10m0s", pod("a", terminating(3*m)))
	given{policy: func(p *Policy) { p.VolumeTimeout, p.StuckAfter = 2*m, 10*s }, state: attached(m, "pv-1")}.expect(t,
		"volumes are waited for although a pod is stuck", 2*m, "wait a terminating, volumes-attached pv-1; again 3m0s", pod("a", terminating(50*s)))
	given{policy: all, state: attached(0, "pv-1")}.expect(t, "all waits run at the same time: settle time first",
		s, "wait deregistering, volumes-attached pv-1; again 5s")
	given{policy: all, state: attached(0, "pv-1")}.expect(t, "all waits at the same time: volumes next",
		m, "wait deregistering, volumes-attached pv-1; again 2m0s")
	given{policy: all, state: attached(0, "pv-1")}.expect(t, "all waits at the same time: load balancers last", 2*m, "wait deregistering; again 3m0s")
	given{policy: all, state: attached(0, "pv-1")}.expect(t, "all waits at the same time: over", 3*m, "done")
	given{policy: long, state: attached(10*m-1, "pv-1")}.expect(t,
		"no wait goes beyond the deadline", 10*m-1, "wait deregistering, volumes-attached pv-1; again 10m0s")
	given{policy: long, state: attached(10*m-1, "pv-1")}.expect(t,
		"all waits end at the deadline", 10*m, "done")
}

func TestRetriesOfDeferredRequests(t *testing.T) {
	evicting := func(p *Pod) { p.Try = Try{Last: Deferred, Next: at(10 * m), Failures: 7, Eviction: true} }
	given{}.expect(t, "the pause of a deferred eviction does not postpone the latest deletion", 9*m+30*s, "delete a in 30s", pod("a", evicting))
	given{}.expect(t, "a deferred eviction is not retried before its pause", 9*m+29*s, "wait a backing-off; again 9m30s", pod("a", evicting))
	t.Run("a deletion does not inherit the pauses of evictions", func(t *testing.T) {
		r := Removal{Pod: pod("a", evicting), Kind: Deletion, Reason: AtDeadline}
		try := r.next(Deferred, "busy", errors.New("busy"), t0)
		if pause := try.Next.Sub(t0); pause < s || pause > 2*s || try.Failures != 1 || try.Eviction {
			t.Errorf("got %+v", try)
		}
	})
	t.Run("a delay that the API server asks for is capped", func(t *testing.T) {
		try := Removal{Pod: pod("a")}.next(Deferred, "busy", apierrors.NewTooManyRequests("busy", 3600), t0)
		if pause := try.Next.Sub(t0); pause > 40*s {
			t.Errorf("got a pause of %v", pause)
		}
	})
	t.Run("a deletion that fails three times with an internal error is given up", func(t *testing.T) {
		broken := apierrors.NewInternalError(errors.New("failed calling webhook"))
		r := Removal{Pod: pod("a"), Kind: Deletion, Reason: AtDeadline}
		var got []Outcome
		for range 3 {
			r.Pod.Try = r.next(Deferred, "broken", broken, t0)
			got = append(got, r.Pod.Try.Last)
		}
		if diff := cmp.Diff([]Outcome{Deferred, Deferred, Denied}, got); diff != "" {
			t.Error(diff)
		}
	})
}
