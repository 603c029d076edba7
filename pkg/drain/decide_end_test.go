package drain

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func TestDecideAttempts(t *testing.T) {
	runRows(t, []row{
		{name: "a pod whose request is in flight is not touched", pods: []Pod{pod("a", sent)}, want: "wait a requested; again 10m0s"},
		{
			name: "an accepted eviction is not repeated while the watch may be behind",
			pods: []Pod{pod("a", tried(Accepted, 15*s))}, now: s, want: "wait a terminating; again 15s",
		},
		{name: "an eviction that shows no effect is repeated", pods: []Pod{pod("a", tried(Accepted, 15*s))}, now: 15 * s, want: "evict a"},
		{name: "a deferred eviction is not retried before its pause", pods: []Pod{pod("a", tried(Deferred, 10*s))}, now: s, want: "wait a backing-off; again 10s"},
		{name: "a deferred eviction is retried after its pause", pods: []Pod{pod("a", tried(Deferred, 10*s))}, now: 10 * s, want: "evict a"},
		{
			name: "a refused eviction is retried after a pause", pods: []Pod{pod("a", tried(Refused, 10*s))}, now: s,
			want: "wait a backing-off; again 10s",
		},
		{
			name: "a pod that backs off uses no disruption of its budget", budgets: onlyBudget(budget(4)), now: s,
			pods: []Pod{pod("a", budgeted("x/b"), tried(Deferred, 10*s)), pod("b", budgeted("x/b"))},
			want: "evict b; wait a backing-off; again 10s",
		},
		{name: "a terminating pod is waited for", pods: []Pod{pod("a", terminating(30*s))}, now: s, want: "wait a terminating; again 10m0s"},
		{
			name: "a terminating pod whose request is in flight is not touched",
			pods: []Pod{pod("a", sent, terminating(30*s))}, now: s, want: "wait a terminating; again 10m0s",
		},
	})
}

func TestDecideStuckPods(t *testing.T) {
	five := func(p *Policy) { p.StuckAfter = 5 * m }
	lost := func(s *State) { s.Unreachable = true }
	runRows(t, []row{
		{
			name: "without StuckAfter a pod past its grace period is waited for until the deadline", pods: []Pod{pod("a", terminating(30*s))},
			now: 8 * m, want: "wait a terminating; again 10m0s",
		},
		{
			name: "with StuckAfter it is waited for until then", pods: []Pod{pod("a", terminating(30*s))}, now: 5*m + 30*s - 1, policy: five,
			want: "wait a terminating; again 5m30s",
		},
		{
			name: "after StuckAfter the drain no longer waits for it", pods: []Pod{pod("a", terminating(30*s))}, now: 5*m + 30*s, policy: five,
			want: "wait a terminating; done",
		},
		{
			name: "the drain still waits for other pods", now: 6 * m, policy: five,
			pods: []Pod{pod("a", terminating(30*s)), pod("b", terminating(6*m+10*s))},
			want: "wait a terminating, b terminating; again 10m0s",
		},
		{
			name: "StuckAfter is at least the time that the kubelet needs", pods: []Pod{pod("a", terminating(30*s))},
			now: 31 * s, policy: func(p *Policy) { p.StuckAfter = 1 }, want: "wait a terminating; again 32s",
		},
		{
			name: "StuckAfter counts from the end of the grace period", pods: []Pod{pod("a", grace(m), terminating(5*m))}, now: 2 * m,
			policy: func(p *Policy) { p.StuckAfter = m }, want: "wait a terminating; again 6m0s",
		},
		{
			name: "on an unreachable node a pod has its grace period", pods: []Pod{pod("a", terminating(30*s))}, now: 10 * s,
			state: lost, want: "wait a terminating; again 32s",
		},
		{
			name: "on an unreachable node the drain does not wait for a pod past its grace period", pods: []Pod{pod("a", terminating(30*s))},
			now: 32 * s, state: lost, want: "wait a terminating; done",
		},
		{
			name: "pods of an unreachable node are evicted", pods: []Pod{pod("a", terminating(30*s)), pod("b")},
			now: 40 * s, state: lost, want: "evict b; wait a terminating; again 10m0s",
		},
	})
}

func TestDecideWhetherTheDrainIsOver(t *testing.T) {
	all := func(p *Policy) { p.Settle, p.LoadBalancerWait, p.VolumeTimeout = 5*s, 3*m, 2*m }
	settle := func(p *Policy) { p.Settle = 5 * s }
	balancer := func(p *Policy) { p.LoadBalancerWait = 3 * m }
	volumes := func(p *Policy) { p.VolumeTimeout = 2 * m }
	attached := func(empty time.Duration, names ...string) func(*State) {
		return func(s *State) { s.EmptyAt, s.Attached = at(empty), names }
	}
	runRows(t, []row{
		{name: "the settle time is waited for", policy: settle, now: 5*s - 1, want: "again 5s"},
		{name: "after the settle time the drain is over", policy: settle, now: 5 * s, want: "done"},
		{name: "load balancers are waited for", policy: balancer, now: 3*m - 1, want: "wait deregistering; again 3m0s"},
		{name: "the wait for load balancers counts from the taint", policy: balancer, now: 3 * m, want: "done"},
		{name: "pods are evicted during the wait for load balancers", policy: balancer, pods: []Pod{pod("a")}, want: "evict a"},
		{
			name: "volumes are waited for", policy: volumes, now: 2 * m, state: attached(m, "pv-1", "pv-2"),
			want: "wait volumes-attached pv-1, volumes-attached pv-2; again 3m0s",
		},
		{name: "the wait for volumes counts from the instant when the node was empty", policy: volumes, now: 3 * m, state: attached(m, "pv-1"), want: "done"},
		{
			name: "a node that has just become empty waits for its volumes", policy: volumes, now: m,
			state: func(s *State) { s.Attached = []string{"pv-1"} }, want: "wait volumes-attached pv-1; again 3m0s",
		},
		{name: "without attached volumes there is no wait", policy: volumes, now: m, want: "done"},
		{
			name: "the wait for volumes starts after the last pod", policy: volumes, now: 2 * m, state: attached(m, "pv-1"),
			pods: []Pod{pod("a", terminating(3*m))}, want: "wait a terminating; again 10m0s",
		},
		{
			name: "volumes are waited for although a pod is stuck", now: 2 * m, state: attached(m, "pv-1"),
			policy: func(p *Policy) { p.VolumeTimeout, p.StuckAfter = 2*m, 10*s }, pods: []Pod{pod("a", terminating(50*s))},
			want: "wait a terminating, volumes-attached pv-1; again 3m0s",
		},
		{
			name: "all waits run at the same time: settle time first", policy: all, now: s, state: attached(0, "pv-1"),
			want: "wait deregistering, volumes-attached pv-1; again 5s",
		},
		{name: "all waits at the same time: volumes next", policy: all, now: m, state: attached(0, "pv-1"), want: "wait deregistering, volumes-attached pv-1; again 2m0s"},
		{name: "all waits at the same time: load balancers last", policy: all, now: 2 * m, state: attached(0, "pv-1"), want: "wait deregistering; again 3m0s"},
		{name: "all waits at the same time: over", policy: all, now: 3 * m, state: attached(0, "pv-1"), want: "done"},
		{
			name: "no wait goes beyond the deadline", now: 10*m - 1, state: attached(10*m-1, "pv-1"),
			policy: func(p *Policy) { p.Settle, p.LoadBalancerWait, p.VolumeTimeout = time.Hour, time.Hour, time.Hour },
			want:   "wait deregistering, volumes-attached pv-1; again 10m0s",
		},
		{
			name: "all waits end at the deadline", now: 10 * m, state: attached(10*m-1, "pv-1"),
			policy: func(p *Policy) { p.Settle, p.LoadBalancerWait, p.VolumeTimeout = time.Hour, time.Hour, time.Hour },
			want:   "done",
		},
	})
}

func TestRetriesOfDeferredRequests(t *testing.T) {
	evicting := func(p *Pod) { p.Try = Try{Last: Deferred, Next: at(10 * m), Failures: 7, Eviction: true} }
	runRows(t, []row{
		{
			name: "the pause of a deferred eviction does not postpone the latest deletion", now: 9*m + 30*s,
			pods: []Pod{pod("a", evicting)}, want: "delete a in 30s",
		},
		{name: "a deferred eviction is not retried before its pause", now: 9*m + 29*s, pods: []Pod{pod("a", evicting)}, want: "wait a backing-off; again 9m30s"},
	})
	t.Run("a deletion does not inherit the pauses of evictions", func(t *testing.T) {
		r := Removal{Pod: pod("a", evicting), Reason: AtDeadline}
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
		r := Removal{Pod: pod("a"), Reason: AtDeadline}
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
