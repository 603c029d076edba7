package drain

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Every drain of these tests begins at t0, and must be over ten minutes later.
var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

const window = 10 * time.Minute

func at(offset time.Duration) time.Time { return t0.Add(offset) }

// pod returns a Ready pod with a grace of 30 s, which the changes make what the row needs.
func pod(name string, changes ...func(*Pod)) Pod {
	p := Pod{Namespace: "x", Name: name, UID: "uid-" + name, Ready: true, Grace: 30 * time.Second}
	for _, change := range changes {
		change(&p)
	}
	return p
}

func stay(why Stays) func(*Pod)              { return func(p *Pod) { p.Stays = why } }
func grace(g time.Duration) func(*Pod)       { return func(p *Pod) { p.Grace = g } }
func budgeted(names ...string) func(*Pod)    { return func(p *Pod) { p.Budgets = names } }
func goneBy(offset time.Duration) func(*Pod) { return func(p *Pod) { p.GoneBy = at(offset) } }
func unready(p *Pod)                         { p.Ready = false }
func critical(p *Pod)                        { p.Critical = true }

func tried(last Outcome, next time.Duration) func(*Pod) {
	return func(p *Pod) { p.Try = Try{Last: last, Next: at(next), N: 1} }
}

// show writes a step in one line: what is done to which pod, and when to look again, counted from t0.
func show(s Step) string {
	var parts []string
	list := func(verb string, names []string) {
		if len(names) > 0 {
			parts = append(parts, verb+" "+strings.Join(names, ", "))
		}
	}
	removals := func(rs []Removal) (names []string) {
		for _, r := range rs {
			name := r.Pod.Name
			if r.Grace != 0 {
				name += " in " + r.Grace.String()
			}
			names = append(names, name)
		}
		return names
	}
	var waits []string
	for _, w := range s.Wait {
		waits = append(waits, strings.TrimSpace(fmt.Sprintf("%s %s %s", w.Pod.Name, w.Reason, w.Budget)))
	}
	list("evict", removals(s.Evict))
	list("delete", removals(s.Delete))
	list("wait", waits)
	if !s.Again.IsZero() {
		parts = append(parts, "again "+s.Again.Sub(t0).String())
	}
	if s.Done {
		parts = append(parts, "done")
	}
	return strings.Join(parts, "; ")
}

func TestDecide(t *testing.T) {
	const s, m = time.Second, time.Minute
	one := map[string]int{"x/b": 1}
	none := map[string]int{"x/b": 0}
	tests := []struct {
		name    string
		pods    []Pod
		allowed map[string]int
		now     time.Duration
		leave   bool
		want    string
	}{
		// What must go, and in which order.
		{name: "an empty node is done", want: "done"},
		{name: "a pod is evicted, with its own grace", pods: []Pod{pod("a")}, want: "evict a"},
		{
			name: "daemons, mirrors and finished pods stay, and hold nothing up",
			pods: []Pod{pod("a", stay(DaemonSet)), pod("b", stay(Mirror)), pod("c", stay(Finished))}, want: "done",
		},
		{
			name: "the longest grace goes first, then names decide",
			pods: []Pod{pod("c"), pod("b"), pod("a", grace(5*s)), pod("d", grace(m))}, want: "evict d, b, c, a",
		},
		{
			name: "critical pods wait for the others",
			pods: []Pod{pod("dns", critical), pod("a")}, want: "evict a; wait dns later-tier; again 9m30s",
		},
		{
			name: "critical pods wait for the others to be gone, not only to be asked",
			pods: []Pod{pod("dns", critical), pod("a", goneBy(20*s))},
			want: "wait a terminating, dns later-tier; again 9m30s",
		},
		{name: "critical pods go last", pods: []Pod{pod("dns", critical), pod("d", stay(DaemonSet))}, want: "evict dns"},
		{
			name: "critical pods do not wait past the time they need",
			pods: []Pod{pod("dns", critical), pod("a", grace(5*s), tried(Blocked, 10*m), budgeted("x/b"))}, allowed: none,
			now: 9*m + 30*s, want: "delete dns in 30s; wait a budgeted x/b; again 9m55s",
		},

		// Budgets.
		{
			name: "a budget that allows one of three", pods: []Pod{
				pod("a", budgeted("x/b")), pod("b", budgeted("x/b")), pod("c", budgeted("x/b")),
			},
			allowed: one, want: "evict a; wait b budgeted x/b, c budgeted x/b; again 9m30s",
		},
		{
			name: "one budget does not hold the pods of another", pods: []Pod{pod("a", budgeted("x/b")), pod("b")},
			allowed: none, want: "evict b; wait a budgeted x/b; again 9m30s",
		},
		{
			name: "an unready pod is tried past its budget and takes nothing of it",
			pods: []Pod{pod("a", budgeted("x/b"), unready), pod("b", budgeted("x/b"))}, allowed: one, want: "evict a, b",
		},
		{
			name: "a budget that allows none does not hold an unready pod",
			pods: []Pod{pod("a", budgeted("x/b"), unready)}, allowed: none, want: "evict a",
		},
		{
			name: "a budget that is less than met allows none", pods: []Pod{pod("a", budgeted("x/b"))},
			allowed: map[string]int{"x/b": -1}, want: "wait a budgeted x/b; again 9m30s",
		},
		{
			name: "a budget that nothing is known of holds nothing", pods: []Pod{pod("a", budgeted("x/new"))},
			want: "evict a",
		},
		{
			name: "a blocked pod is tried early when its budget allows it",
			pods: []Pod{pod("a", budgeted("x/b"), tried(Blocked, 20*s))}, allowed: one, now: 5 * s, want: "evict a",
		},
		{
			name: "of two blocked pods one is tried early when their budget allows one", pods: []Pod{
				pod("a", budgeted("x/b"), tried(Blocked, 20*s)), pod("b", budgeted("x/b"), tried(Blocked, 25*s)),
			},
			allowed: one, now: 5 * s, want: "evict a; wait b budgeted x/b; again 25s",
		},
		{
			name: "a pod that was refused though its budget seemed to allow it is given a moment", pods: []Pod{
				pod("a", budgeted("x/b"), func(p *Pod) { p.Try = Try{Last: Blocked, Soon: at(6 * s), Next: at(20 * s), N: 1} }),
			},
			allowed: one, now: 5 * s, want: "wait a budgeted x/b; again 6s",
		},
		{
			name: "a blocked pod is tried when its budget has gone",
			pods: []Pod{pod("a", tried(Blocked, 20*s))}, now: 5 * s, want: "evict a",
		},
		{
			name: "a blocked pod is not tried early when its budget does not allow it",
			pods: []Pod{pod("a", budgeted("x/b"), tried(Blocked, 20*s))}, allowed: none, now: 5 * s,
			want: "wait a budgeted x/b; again 20s",
		},
		{
			name: "a blocked pod is tried when its time has come, whatever the watch says of its budget",
			pods: []Pod{pod("a", budgeted("x/b"), tried(Blocked, 20*s))}, allowed: none, now: 20 * s, want: "evict a",
		},
		{
			name: "a pod of two budgets is evicted when both allow it", pods: []Pod{pod("a", budgeted("x/b", "x/c"))},
			allowed: map[string]int{"x/b": 1, "x/c": 1}, want: "evict a",
		},
		{
			name: "a pod of two budgets waits when one does not allow it", pods: []Pod{pod("a", budgeted("x/b", "x/c"))},
			allowed: map[string]int{"x/b": 1, "x/c": 0}, want: "wait a budgeted x/c; again 9m30s",
		},
		{
			name: "a pod of two budgets that was blocked is not tried early: the API serves no such pod",
			pods: []Pod{pod("a", budgeted("x/b", "x/c"), tried(Blocked, 20*s))}, now: 5 * s,
			allowed: map[string]int{"x/b": 1, "x/c": 1}, want: "wait a budgeted x/b; again 20s",
		},

		// Attempts.
		{
			name: "a pod whose request is under way is left alone",
			pods: []Pod{pod("a", func(p *Pod) { p.Try.Last = Sent })}, want: "wait a backing-off; again 10m0s",
		},
		{
			name: "an eviction is not repeated while the watch is behind",
			pods: []Pod{pod("a", tried(Accepted, 15*s))}, now: s, want: "wait a terminating; again 15s",
		},
		{
			name: "an eviction that shows no effect is repeated",
			pods: []Pod{pod("a", tried(Accepted, 15*s))}, now: 15 * s, want: "evict a",
		},
		{
			name: "a busy API server is given its time", pods: []Pod{pod("a", tried(Deferred, 10*s))}, now: s,
			want: "wait a backing-off; again 10s",
		},
		{name: "and is asked again after it", pods: []Pod{pod("a", tried(Deferred, 10*s))}, now: 10 * s, want: "evict a"},
		{
			name: "a refused eviction is asked again after a pause", pods: []Pod{pod("a", tried(Refused, 10*s))}, now: s,
			want: "wait a backing-off; again 10s",
		},
		{
			name: "a terminating pod is waited for", pods: []Pod{pod("a", goneBy(30*s))}, now: s,
			want: "wait a terminating; again 10m0s",
		},
		{
			name: "a pod that is stuck past its grace is waited for, to the deadline", pods: []Pod{pod("a", goneBy(30*s))},
			now: 5 * m, want: "wait a terminating; again 10m0s",
		},

		// The deadline.
		{
			name: "a grace that would end after the deadline is cut",
			pods: []Pod{pod("a", grace(10*m))}, now: 2 * m, want: "evict a in 8m0s",
		},
		{
			name: "a blocked pod is deleted when its grace must begin", now: 9*m + 30*s, allowed: none,
			pods: []Pod{pod("a", budgeted("x/b"), tried(Blocked, 10*m))}, want: "delete a in 30s",
		},
		{
			name: "and not before", now: 9*m + 30*s - 1, allowed: none,
			pods: []Pod{pod("a", budgeted("x/b"), tried(Blocked, 10*m))}, want: "wait a budgeted x/b; again 9m30s",
		},
		{
			name: "a pod without grace is deleted a second before the deadline, with that second", allowed: none,
			pods: []Pod{pod("a", grace(0), budgeted("x/b"), tried(Blocked, 10*m))}, now: 10*m - s, want: "delete a in 1s",
		},
		{
			name: "a grace longer than half of the window leaves the other half to the budget", now: 5*m - 1, allowed: none,
			pods: []Pod{pod("a", grace(time.Hour), budgeted("x/b"))}, want: "wait a budgeted x/b; again 5m0s",
		},
		{
			name: "and is cut to the half that is left", now: 5 * m, allowed: none,
			pods: []Pod{pod("a", grace(time.Hour), budgeted("x/b"))}, want: "delete a in 5m0s",
		},
		{
			name: "what is left of a grace is told in whole seconds", now: 9*m + 45*s + 600*time.Millisecond,
			pods: []Pod{pod("a")}, want: "delete a in 14s",
		},
		{
			name: "what is left of a grace is never below a second", now: 10*m - 200*time.Millisecond,
			pods: []Pod{pod("a")}, want: "delete a in 1s",
		},
		{
			// The API server counts a shorter grace from the first deletion, and kills at once what is past it then.
			name: "a terminating pod whose grace ends after the deadline keeps it for as long as there is time",
			pods: []Pod{pod("a", grace(time.Hour), goneBy(30*m))}, now: 2 * m, want: "wait a terminating; again 9m59s",
		},
		{
			name: "and is shortened when there is none", now: 10*m - s,
			pods: []Pod{pod("a", grace(time.Hour), goneBy(30*m))}, want: "delete a in 1s",
		},
		{
			name: "a grace that ends within the second after the deadline is not shortened", now: 10*m - s,
			pods: []Pod{pod("a", goneBy(10*m+s))}, want: "wait a terminating; again 10m0s",
		},
		{
			name: "a forced deletion is not repeated while the watch is behind",
			pods: []Pod{pod("a", tried(Forced, 9*m+45*s))}, now: 9*m + 31*s, want: "wait a terminating; again 9m45s",
		},
		{
			name: "a forced deletion that shows no effect is repeated",
			pods: []Pod{pod("a", tried(Forced, 9*m+45*s))}, now: 9*m + 45*s, want: "delete a in 15s",
		},
		{
			name: "an eviction that was just accepted is no reason for force",
			pods: []Pod{pod("a", tried(Accepted, 9*m+44*s))}, now: 9*m + 30*s, want: "wait a terminating; again 9m44s",
		},
		{
			name: "a forced deletion that a busy API server put off is asked for again, of a critical pod too",
			pods: []Pod{pod("a", goneBy(9*m)), pod("dns", critical, tried(Deferred, 9*m+35*s))}, now: 9*m + 31*s,
			want: "wait a terminating, dns backing-off; again 9m35s",
		},
		{
			name: "a shortening that a busy API server put off is asked for again", now: 10 * m,
			pods: []Pod{pod("a", goneBy(30*m), tried(Deferred, 10*m+5*s))}, want: "wait a backing-off; again 10m5s",
		},
		{
			name: "denied force is followed by evictions", pods: []Pod{pod("a", tried(Denied, 9*m+40*s))}, now: 9*m + 40*s,
			want: "evict a in 20s",
		},
		{
			name: "denied force waits its pause", pods: []Pod{pod("a", tried(Denied, 9*m+40*s))}, now: 9*m + 35*s,
			want: "wait a backing-off; again 9m40s",
		},
		{
			name: "denied force is over at the deadline", pods: []Pod{pod("a", tried(Denied, 9*m+40*s))}, now: 10 * m,
			want: "wait a backing-off; done",
		},

		// After the deadline: the API server was away.
		{
			name: "after the deadline there is still one forced deletion", now: 20 * m,
			pods: []Pod{pod("a", tried(Deferred, 19*m))}, want: "delete a in 1s",
		},
		{
			name: "for which a busy API server is given its time", now: 20 * m,
			pods: []Pod{pod("a", tried(Deferred, 20*m+5*s))}, want: "wait a backing-off; again 20m5s",
		},
		{
			name: "and which is done only when its grace is over", now: 20 * m,
			pods: []Pod{pod("a", goneBy(20*m+s), tried(Forced, 20*m+15*s))}, want: "wait a terminating; again 20m3s",
		},
		{
			name: "and the kubelet has had time to tell", now: 20*m + 3*s,
			pods: []Pod{pod("a", goneBy(20*m+s), tried(Forced, 20*m+15*s))}, want: "wait a terminating; done",
		},
		{
			name: "one pod's last grace holds the end up for all", now: 10 * m,
			pods: []Pod{pod("a", goneBy(10*m+s)), pod("b", goneBy(9*m))},
			want: "wait a terminating, b terminating; again 10m3s",
		},

		// Leave.
		{
			name: "with leave, a budget holds to the deadline", leave: true, now: 9*m + 50*s, allowed: none,
			pods: []Pod{pod("a", budgeted("x/b"))}, want: "wait a budgeted x/b; again 10m0s",
		},
		{
			name: "with leave, no grace is cut", leave: true, now: 9*m + 50*s, pods: []Pod{pod("a")}, want: "evict a",
		},
		{
			name: "with leave, a terminating pod keeps its grace", leave: true, now: 10*m - s,
			pods: []Pod{pod("a", goneBy(30*m))}, want: "wait a terminating; again 10m0s",
		},
		{
			name: "with leave, the deadline ends it all", leave: true, now: 10 * m, allowed: none,
			pods: []Pod{pod("a", budgeted("x/b"), tried(Blocked, 10*m)), pod("b")},
			want: "wait a budgeted x/b, b backing-off; done",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			step := Decide(State{Since: t0, Pods: tt.pods, Allowed: tt.allowed}, at(tt.now), at(window), Policy{Force: !tt.leave})
			if diff := cmp.Diff(tt.want, show(step)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// randomState returns a state of few pods and budgets, so that they meet in many ways.
func randomState(r *rand.Rand, now time.Time) State {
	s := State{Since: t0, Allowed: map[string]int{}}
	budgets := []string{"x/a", "x/b", "x/c"}
	for _, name := range budgets[:r.IntN(len(budgets)+1)] {
		s.Allowed[name] = r.IntN(4) - 1
	}
	graces := []time.Duration{0, time.Second, 30 * time.Second, 4 * time.Minute, time.Hour}
	stays := []Stays{"", "", "", "", DaemonSet, Mirror, Finished}
	outcomes := []Outcome{None, None, None, Sent, Accepted, Blocked, Deferred, Refused, Forced, Denied}
	near := func() time.Time { return now.Add(time.Duration(r.IntN(41)-20) * time.Second) }
	for i := range r.IntN(12) {
		p := pod(fmt.Sprint(i))
		p.Grace, p.Stays = graces[r.IntN(len(graces))], stays[r.IntN(len(stays))]
		p.Ready, p.Critical = r.IntN(4) > 0, r.IntN(4) == 0
		if p.Try.Last = outcomes[r.IntN(len(outcomes))]; p.Try.Last != None {
			p.Try.Next, p.Try.N = near(), r.IntN(3)
		}
		if r.IntN(5) == 0 {
			p.GoneBy = near().Add(time.Duration(r.IntN(3)) * 10 * time.Minute)
		}
		for _, name := range budgets {
			if r.IntN(3) == 0 {
				p.Budgets = append(p.Budgets, name)
			}
		}
		s.Pods = append(s.Pods, p)
	}
	return s
}

func TestDecideHoldsItsPromises(t *testing.T) {
	for seed := range uint64(5_000) {
		r := rand.New(rand.NewPCG(seed, 1))
		now := at(time.Duration(r.IntN(800)) * time.Second)
		policy := Policy{Force: r.IntN(4) > 0}
		s := randomState(r, now)
		before := clone(s)
		step := Decide(s, now, at(window), policy)
		if seed%20 == 0 { // Comparing is slow.
			if diff := cmp.Diff(before, s); diff != "" {
				t.Fatalf("seed %d: the arguments have changed:\n%s", seed, diff)
			}
			if diff := cmp.Diff(step, Decide(s, now, at(window), policy)); diff != "" {
				t.Fatalf("seed %d: not deterministic:\n%s", seed, diff)
			}
		}
		if fault := judge(s, step, now, policy); fault != "" {
			t.Fatalf("seed %d: %s\n%s", seed, fault, show(step))
		}
	}
}

func clone(s State) State {
	c := State{Since: s.Since, Allowed: maps.Clone(s.Allowed)}
	for _, p := range s.Pods {
		p.Budgets = append([]string(nil), p.Budgets...)
		c.Pods = append(c.Pods, p)
	}
	return c
}

// judge returns the first promise that the step breaks.
func judge(s State, step Step, now time.Time, policy Policy) string {
	named := map[string]int{}
	for _, r := range append(append([]Removal{}, step.Evict...), step.Delete...) {
		named[r.Pod.UID]++
		switch {
		case r.Pod.Stays != "":
			return r.Pod.Name + " stays, and is removed"
		case r.Grace != 0 && r.Grace < time.Second:
			return r.Pod.Name + " is given less than a second"
		case step.Done:
			return r.Pod.Name + " is removed although all is done"
		}
	}
	for _, r := range step.Delete {
		if !policy.Force || r.Grace == 0 {
			return r.Pod.Name + " is deleted, against the policy or without a grace"
		}
	}
	for _, w := range step.Wait {
		named[w.Pod.UID]++
		if w.Reason == Budgeted && len(w.Pod.Budgets) > 0 && w.Budget == "" {
			return w.Pod.Name + " waits for a budget without a name"
		}
	}
	left := 0
	for _, p := range s.Pods {
		if p.Stays != "" {
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
	if left > 0 && step.Done && now.Before(at(window)) {
		return "done before the deadline with pods left"
	}
	return overspent(s, step, now)
}

// overspent names a budget of which more was taken than it allows. A pod that was tried before and whose pause is
// over is tried whatever the watch says, and does not count.
func overspent(s State, step Step, now time.Time) string {
	taken := map[string]int{}
	for _, r := range step.Evict {
		retry := r.Pod.Try.Last != None && !now.Before(r.Pod.Try.Next)
		for _, name := range r.Pod.Budgets {
			if r.Pod.Ready && !retry {
				taken[name]++
			}
		}
	}
	for name, n := range taken {
		if allowed, known := s.Allowed[name]; known && n > max(allowed, 0) {
			return fmt.Sprintf("%d pods of %s are evicted, it allows %d", n, name, allowed)
		}
	}
	return ""
}

// A fleet is a cluster without an API, in which time goes from one instant of interest to the next.
type fleet struct {
	r     *rand.Rand
	state State
	gone  map[string]time.Time // by UID: when the pod has really stopped; zero never
	away  [2]time.Time         // the API server cannot be reached between these
}

func newFleet(r *rand.Rand) *fleet {
	f := &fleet{r: r, state: randomState(r, t0), gone: map[string]time.Time{}}
	for i := range f.state.Pods {
		p := &f.state.Pods[i]
		p.Try = Try{}
		if !p.GoneBy.IsZero() {
			f.stop(p, p.GoneBy)
		}
	}
	if r.IntN(3) == 0 {
		f.away[0] = at(time.Duration(r.IntN(700)) * time.Second)
		f.away[1] = f.away[0].Add(time.Duration(r.IntN(400)) * time.Second)
	}
	return f
}

// stop lets a pod end by goneBy; one in ten is held by a finalizer for ever.
func (f *fleet) stop(p *Pod, goneBy time.Time) {
	if p.GoneBy.IsZero() || goneBy.Before(p.GoneBy) {
		p.GoneBy = goneBy
	}
	if _, stuck := f.gone[p.UID]; !stuck && f.r.IntN(10) == 0 {
		f.gone[p.UID] = time.Time{}
	} else if !stuck || !f.gone[p.UID].IsZero() {
		f.gone[p.UID] = p.GoneBy
	}
}

// answer is what the API server makes of a removal.
func (f *fleet) answer(r Removal, force bool, now time.Time) {
	for i := range f.state.Pods {
		p := &f.state.Pods[i]
		if p.UID != r.Pod.UID {
			continue
		}
		outcome := f.outcome(*p, force, now)
		if outcome == Accepted || outcome == Forced {
			own := p.Grace
			if r.Grace > 0 {
				own = r.Grace
			}
			f.stop(p, now.Add(own))
		}
		p.Try = p.next(outcome, "", nil, now)
	}
}

func (f *fleet) outcome(p Pod, force bool, now time.Time) Outcome {
	switch {
	case !now.Before(f.away[0]) && now.Before(f.away[1]), f.r.IntN(20) == 0:
		return Deferred
	case force && f.r.IntN(20) == 0:
		return Denied
	case force:
		return Forced
	case len(p.Budgets) > 1:
		return Blocked
	}
	for _, name := range p.Budgets {
		if n, known := f.state.Allowed[name]; p.Ready && known {
			if n <= 0 {
				return Blocked
			}
			f.state.Allowed[name]--
		}
	}
	return Accepted
}

// elapse removes the pods that are gone at now, and returns the next instant at which one goes.
func (f *fleet) elapse(now time.Time) (next time.Time) {
	kept := f.state.Pods[:0]
	for _, p := range f.state.Pods {
		end, ends := f.gone[p.UID]
		if ends && !end.IsZero() && !end.After(now) {
			for _, name := range p.Budgets {
				if _, known := f.state.Allowed[name]; known && f.r.IntN(2) == 0 {
					f.state.Allowed[name]++ // its successor is ready
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
	for seed := range uint64(800) {
		f := newFleet(rand.New(rand.NewPCG(seed, 2)))
		policy := Policy{Force: seed%4 > 0}
		now, deadline := t0, at(window)
		// Beyond the deadline, or the return of the API server, there is one pause and the shortest grace.
		latest := deadline.Add(2*time.Second + stopLag)
		if f.away[1].After(deadline) {
			latest = f.away[1]
		}
		latest = latest.Add(5 * (lastRetry + lastRetry/4)) // one call in twenty is put off
		for turn := 0; ; turn++ {
			event := f.elapse(now)
			step := Decide(f.state, now, deadline, policy)
			if fault := judge(f.state, step, now, policy); fault != "" {
				t.Fatalf("seed %d, %v: %s\n%s", seed, now.Sub(t0), fault, show(step))
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
				now = sooner(step.Again, event)
			}
			if now.IsZero() || now.After(latest) || turn > 3_000 {
				t.Fatalf("seed %d, turn %d: the drain does not end: %s", seed, turn, show(step))
			}
		}
	}
}

func sooner(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}

func BenchmarkDecide(b *testing.B) {
	s := State{Since: t0, Allowed: map[string]int{"x/b": 10}}
	for i := range 100 {
		s.Pods = append(s.Pods, pod(fmt.Sprintf("pod-%03d", i), budgeted("x/b"), grace(time.Duration(i%5)*time.Minute)))
	}
	b.ReportAllocs()
	for b.Loop() {
		Decide(s, at(time.Minute), at(window), Policy{Force: true})
	}
}
