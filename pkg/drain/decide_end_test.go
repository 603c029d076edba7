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
		{name: "a pod whose request is under way is left alone", pods: []Pod{pod("a", sent)}, want: "wait a requested; again 10m0s"},
		{
			name: "an eviction is not repeated while the watch is behind",
			pods: []Pod{pod("a", tried(Accepted, 15*s))}, now: s, want: "wait a terminating; again 15s",
		},
		{name: "an eviction that shows no effect is repeated", pods: []Pod{pod("a", tried(Accepted, 15*s))}, now: 15 * s, want: "evict a"},
		{name: "a busy API server is given its time", pods: []Pod{pod("a", tried(Deferred, 10*s))}, now: s, want: "wait a backing-off; again 10s"},
		{name: "and is asked again after it", pods: []Pod{pod("a", tried(Deferred, 10*s))}, now: 10 * s, want: "evict a"},
		{
			name: "a refused eviction is asked again after a pause", pods: []Pod{pod("a", tried(Refused, 10*s))}, now: s,
			want: "wait a backing-off; again 10s",
		},
		{
			name: "a pod that backs off takes nothing of its budget", budgets: onlyBudget(budget(4)), now: s,
			pods: []Pod{pod("a", budgeted("x/b"), tried(Deferred, 10*s)), pod("b", budgeted("x/b"))},
			want: "evict b; wait a backing-off; again 10s",
		},
		{name: "a terminating pod is waited for", pods: []Pod{pod("a", terminating(30*s))}, now: s, want: "wait a terminating; again 10m0s"},
		{
			name: "a terminating pod whose request is still under way is left alone",
			pods: []Pod{pod("a", sent, terminating(30*s))}, now: s, want: "wait a terminating; again 10m0s",
		},
	})
}

func TestDecideStuckPods(t *testing.T) {
	five := func(p *Policy) { p.StuckAfter = 5 * m }
	lost := func(s *State) { s.Unreachable = true }
	runRows(t, []row{
		{
			name: "a pod past its grace is waited for to the deadline, if no bound is set", pods: []Pod{pod("a", terminating(30*s))},
			now: 8 * m, want: "wait a terminating; again 10m0s",
		},
		{
			name: "otherwise for so long", pods: []Pod{pod("a", terminating(30*s))}, now: 5*m + 30*s - 1, policy: five,
			want: "wait a terminating; again 5m30s",
		},
		{
			name: "then it no longer holds up the drain", pods: []Pod{pod("a", terminating(30*s))}, now: 5*m + 30*s, policy: five,
			want: "wait a terminating; done",
		},
		{
			name: "the others are waited for nevertheless", now: 6 * m, policy: five,
			pods: []Pod{pod("a", terminating(30*s)), pod("b", terminating(6*m+10*s))},
			want: "wait a terminating, b terminating; again 10m0s",
		},
		{
			name: "a bound shorter than the kubelet's own time is that time", pods: []Pod{pod("a", terminating(30*s))},
			now: 31 * s, policy: func(p *Policy) { p.StuckAfter = 1 }, want: "wait a terminating; again 32s",
		},
		{
			name: "a grace that is not over is no reason to give up", pods: []Pod{pod("a", grace(m), terminating(5*m))}, now: 2 * m,
			policy: func(p *Policy) { p.StuckAfter = m }, want: "wait a terminating; again 6m0s",
		},
		{
			name: "on a node that does not answer, a pod has its grace", pods: []Pod{pod("a", terminating(30*s))}, now: 10 * s,
			state: lost, want: "wait a terminating; again 32s",
		},
		{
			name: "and then nobody is waited for who could tell of its end", pods: []Pod{pod("a", terminating(30*s))},
			now: 32 * s, state: lost, want: "wait a terminating; done",
		},
		{
			name: "pods of such a node are evicted like others", pods: []Pod{pod("a", terminating(30*s)), pod("b")},
			now: 40 * s, state: lost, want: "evict b; wait a terminating; again 10m0s",
		},
	})
}

func TestDecideTheEnd(t *testing.T) {
	all := func(p *Policy) { p.Settle, p.LoadBalancerWait, p.VolumeTimeout = 5*s, 3*m, 2*m }
	settle := func(p *Policy) { p.Settle = 5 * s }
	balancer := func(p *Policy) { p.LoadBalancerWait = 3 * m }
	volumes := func(p *Policy) { p.VolumeTimeout = 2 * m }
	attached := func(empty time.Duration, names ...string) func(*State) {
		return func(s *State) { s.EmptyAt, s.Attached = at(empty), names }
	}
	runRows(t, []row{
		{name: "a drain is not over before it has settled", policy: settle, now: 5*s - 1, want: "again 5s"},
		{name: "and then it is", policy: settle, now: 5 * s, want: "done"},
		{name: "load balancers are given time to let the node go", policy: balancer, now: 3*m - 1, want: "wait deregistering; again 3m0s"},
		{name: "counted from the taint", policy: balancer, now: 3 * m, want: "done"},
		{name: "pods are evicted meanwhile", policy: balancer, pods: []Pod{pod("a")}, want: "evict a"},
		{
			name: "volumes are waited for", policy: volumes, now: 2 * m, state: attached(m, "pv-1", "pv-2"),
			want: "wait volumes-attached pv-1, volumes-attached pv-2; again 3m0s",
		},
		{name: "from the instant when the node was empty", policy: volumes, now: 3 * m, state: attached(m, "pv-1"), want: "done"},
		{
			name: "which is now if it has not been noted", policy: volumes, now: m,
			state: func(s *State) { s.Attached = []string{"pv-1"} }, want: "wait volumes-attached pv-1; again 3m0s",
		},
		{name: "none of them attached, nothing is waited for", policy: volumes, now: m, want: "done"},
		{
			name: "volumes are not waited for while pods are there", policy: volumes, now: 2 * m, state: attached(m, "pv-1"),
			pods: []Pod{pod("a", terminating(3*m))}, want: "wait a terminating; again 10m0s",
		},
		{
			name: "volumes are waited for beside a pod that is stuck", now: 2 * m, state: attached(m, "pv-1"),
			policy: func(p *Policy) { p.VolumeTimeout, p.StuckAfter = 2*m, 10*s }, pods: []Pod{pod("a", terminating(50*s))},
			want: "wait a terminating, volumes-attached pv-1; again 3m0s",
		},
		{
			name: "all of this at the same time: first it settles", policy: all, now: s, state: attached(0, "pv-1"),
			want: "wait deregistering, volumes-attached pv-1; again 5s",
		},
		{name: "then volumes", policy: all, now: m, state: attached(0, "pv-1"), want: "wait deregistering, volumes-attached pv-1; again 2m0s"},
		{name: "then load balancers", policy: all, now: 2 * m, state: attached(0, "pv-1"), want: "wait deregistering; again 3m0s"},
		{name: "then it is over", policy: all, now: 3 * m, state: attached(0, "pv-1"), want: "done"},
		{
			name: "none of it goes beyond the deadline", now: 10*m - 1, state: attached(10*m-1, "pv-1"),
			policy: func(p *Policy) { p.Settle, p.LoadBalancerWait, p.VolumeTimeout = time.Hour, time.Hour, time.Hour },
			want:   "wait deregistering, volumes-attached pv-1; again 10m0s",
		},
		{
			name: "at which it is over", now: 10 * m, state: attached(10*m-1, "pv-1"),
			policy: func(p *Policy) { p.Settle, p.LoadBalancerWait, p.VolumeTimeout = time.Hour, time.Hour, time.Hour },
			want:   "done",
		},
	})
}

func TestWhatABusyAPIServerIsGiven(t *testing.T) {
	evicting := func(p *Pod) { p.Try = Try{Last: Deferred, Next: at(10 * m), Failures: 7, Eviction: true} }
	runRows(t, []row{
		{
			name: "an eviction that was put off does not put off the last call", now: 9*m + 30*s,
			pods: []Pod{pod("a", evicting)}, want: "delete a in 30s",
		},
		{name: "and nothing comes before that", now: 9*m + 29*s, pods: []Pod{pod("a", evicting)}, want: "wait a backing-off; again 9m30s"},
	})
	t.Run("a deletion has pauses of its own", func(t *testing.T) {
		r := Removal{Pod: pod("a", evicting), Reason: AtDeadline}
		try := r.next(Deferred, "busy", errors.New("busy"), t0)
		if pause := try.Next.Sub(t0); pause < s || pause > 2*s || try.Failures != 1 || try.Eviction {
			t.Errorf("got %+v", try)
		}
	})
	t.Run("nobody is given an hour", func(t *testing.T) {
		try := Removal{Pod: pod("a")}.next(Deferred, "busy", apierrors.NewTooManyRequests("busy", 3600), t0)
		if pause := try.Next.Sub(t0); pause > 40*s {
			t.Errorf("got a pause of %v", pause)
		}
	})
	t.Run("what it cannot do three times in a row it will not do", func(t *testing.T) {
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
