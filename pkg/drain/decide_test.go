package drain

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Every drain of these tests starts at t0, and its deadline is ten minutes later.
var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

const window = 10 * time.Minute

func at(offset time.Duration) time.Time { return t0.Add(offset) }

// pod returns a Ready pod with a grace period of 30 s, with changes.
func pod(name string, changes ...func(*Pod)) Pod {
	p := Pod{Namespace: "x", Name: name, UID: "uid-" + name, Ready: true, Grace: 30 * time.Second}
	for _, change := range changes {
		change(&p)
	}
	return p
}

func stays(why StayReason) func(*Pod) { return func(p *Pod) { p.StayReason = why } }

func grace(g time.Duration) func(*Pod) { return func(p *Pod) { p.Grace = g } }

func budgeted(names ...string) func(*Pod) { return func(p *Pod) { p.Budgets = names } }

func terminating(offset time.Duration) func(*Pod) { return func(p *Pod) { p.GraceEndsAt = at(offset) } }

func tier(n int) func(*Pod) { return func(p *Pod) { p.Tier = n } }

func waiting(why WaitReason) func(*Pod) { return func(p *Pod) { p.WaitReason = why } }

func waitingUntil(why WaitReason, offset time.Duration) func(*Pod) {
	return func(p *Pod) { p.WaitReason, p.WaitUntil = why, at(offset) }
}

// unready makes a pod not Ready, since t0.
func unready(p *Pod) { p.Ready, p.UnreadySince = false, t0 }

func sent(p *Pod) { p.Try.Last = Sent }

// blocked is the Try of a pod whose budget seemed to allow an eviction that the API server refused.
func blocked(p *Pod) { p.Try = Try{Last: Blocked, Message: "the API server says so"} }

func tried(last Outcome, next time.Duration) func(*Pod) {
	return func(p *Pod) { p.Try = Try{Last: last, Next: at(next), Failures: 1, Message: "the API server says so"} }
}

// budget is a PodDisruptionBudget over five pods that requires three.
func budget(healthy int, changes ...func(*Budget)) Budget {
	b := Budget{Allowed: max(healthy-3, 0), Healthy: healthy, Desired: 3, Expected: 5}
	for _, change := range changes {
		change(&b)
	}
	return b
}

func alwaysAllow(b *Budget) { b.AlwaysAllow = true }

func probeAt(offset time.Duration) func(*Budget) { return func(b *Budget) { b.ProbeAt = at(offset) } }

func staleUntil(offset time.Duration) func(*Budget) {
	return func(b *Budget) { b.StaleUntil = at(offset) }
}

func allowing(n int) func(*Budget) { return func(b *Budget) { b.Allowed = n } }

// fullBudget is a budget that asks for all of its pods.
func fullBudget(pods int, changes ...func(*Budget)) Budget {
	b := Budget{Healthy: pods, Desired: pods, Expected: pods}
	for _, change := range changes {
		change(&b)
	}
	return b
}

// onlyBudget is the one budget of most rows.
func onlyBudget(b Budget) map[string]Budget { return map[string]Budget{"x/b": b} }

// format writes a step in one line: what is done to which pod, and when to look again, counted from t0.
func format(s Step) string {
	var parts []string
	list := func(verb string, names []string) {
		if len(names) > 0 {
			parts = append(parts, verb+" "+strings.Join(names, ", "))
		}
	}
	removals := func(rs []Removal) (names []string) {
		for _, r := range rs {
			name := r.Pod.Name
			if r.Reason == Unhealthy {
				name += " unhealthy"
			}
			if r.Grace != 0 {
				name += " in " + r.Grace.String()
			}
			names = append(names, name)
		}
		return names
	}
	var waits []string
	for _, w := range s.Wait {
		text := fmt.Sprintf("%s %s %s", w.Pod.Name, w.Reason, w.Budget)
		if w.Reason == VolumesAttached {
			text += w.Message
		}
		waits = append(waits, strings.TrimSpace(text))
	}
	list("evict", removals(s.Evict))
	list("delete", removals(s.Delete))
	list("wait", waits)
	if !s.Again.IsZero() && !s.Done {
		parts = append(parts, "again "+s.Again.Sub(t0).String())
	}
	if s.Done {
		parts = append(parts, "done")
	}
	return strings.Join(parts, "; ")
}

// A row is a state, an instant, and the expected step.
type row struct {
	name    string
	pods    []Pod
	budgets map[string]Budget
	now     time.Duration
	leave   bool          // instead of deleting at the deadline
	policy  func(*Policy) // changes of defaultPolicy
	state   func(*State)  // changes of the state
	want    string
}

// defaultPolicy is the policy of a row that says nothing else: three tiers without a bound, and none of what is opt-in.
func defaultPolicy() Policy { return Policy{Force: true, Tiers: []time.Duration{0, 0, 0}} }

func (r row) run(t *testing.T) {
	t.Helper()
	policy, state := defaultPolicy(), State{Since: t0, Pods: r.pods, Budgets: r.budgets}
	policy.Force = !r.leave
	if r.policy != nil {
		r.policy(&policy)
	}
	if r.state != nil {
		r.state(&state)
	}
	step := Decide(state, at(r.now), at(window), policy)
	if diff := cmp.Diff(r.want, format(step)); diff != "" {
		t.Error(diff)
	}
	if fault := violation(state, step, at(r.now), at(window), policy); fault != "" {
		t.Error(fault)
	}
}

func runRows(t *testing.T, rows []row) {
	t.Helper()
	for _, r := range rows {
		t.Run(r.name, r.run)
	}
}

const s, m = time.Second, time.Minute

func TestDecidePodsThatMustLeave(t *testing.T) {
	runRows(t, []row{
		{name: "an empty node is done", want: "done"},
		{name: "a pod is evicted, with its own grace", pods: []Pod{pod("a")}, want: "evict a"},
		{
			name: "pods of DaemonSets, mirror pods and finished pods stay",
			pods: []Pod{pod("a", stays(DaemonSet)), pod("b", stays(Mirror)), pod("c", stays(Finished))}, want: "done",
		},
		{
			name: "a finished pod stays, whatever its annotations and state",
			pods: []Pod{pod("a", stays(Finished), waiting(OptedOut), terminating(20*m), budgeted("x/b"))}, want: "done",
		},
		{
			name: "the longest grace period comes first, then the names in order",
			pods: []Pod{pod("c"), pod("b"), pod("a", grace(5*s)), pod("d", grace(m))}, want: "evict d, b, c, a",
		},
		{name: "namespaces are in order", pods: []Pod{pod("a", func(p *Pod) { p.Namespace = "y" }), pod("b")}, want: "evict b, a"},
	})
}

func TestDecideTiers(t *testing.T) {
	bounded := func(p *Policy) { p.Tiers = []time.Duration{2 * m, m, 0} }
	runRows(t, []row{
		{name: "a tier waits for the one before it", pods: []Pod{pod("dns", tier(1)), pod("a")}, want: "evict a; wait dns later-tier; again 9m30s"},
		{
			name: "a tier waits until the pods before it are gone, not only terminating",
			pods: []Pod{pod("dns", tier(1)), pod("a", terminating(20*s))},
			want: "wait a terminating, dns later-tier; again 9m30s",
		},
		{
			name: "a tier starts when the tier before it is gone; pods that stay belong to no tier",
			pods: []Pod{pod("dns", tier(1)), pod("d", stays(DaemonSet))}, want: "evict dns",
		},
		{
			name: "tiers start one after another", pods: []Pod{pod("a", tier(1)), pod("b", tier(2)), pod("c", tier(3))},
			want: "evict a; wait b later-tier, c later-tier; again 9m30s",
		},
		{name: "a tier without pods is skipped", pods: []Pod{pod("a", tier(2)), pod("b", tier(3))}, want: "evict a; wait b later-tier; again 9m30s"},
		{
			name: "a CSI node plugin is evicted after all others, and the agent's own pod after it",
			pods: []Pod{pod("agent", tier(4)), pod("csi", tier(3)), pod("dns", tier(2))},
			want: "evict dns; wait agent later-tier, csi later-tier; again 9m30s",
		},
		{
			name: "the CSI node plugin is evicted when the others are gone",
			pods: []Pod{pod("agent", tier(4)), pod("csi", tier(3))}, want: "evict csi; wait agent later-tier; again 9m30s",
		},
		{name: "the agent's own pod is evicted last", pods: []Pod{pod("agent", tier(4))}, want: "evict agent"},
		{
			name: "a pod of a later tier is deleted at its latest deletion", budgets: onlyBudget(budget(3)),
			pods: []Pod{pod("dns", tier(1)), pod("a", grace(5*s), blocked, budgeted("x/b"))},
			now:  9*m + 30*s, want: "delete dns in 30s; wait a blocked-by-budget x/b; again 9m55s",
		},
		{
			name: "so are the CSI node plugin and the agent",
			pods: []Pod{pod("csi", tier(3)), pod("agent", tier(4)), pod("a", grace(5*s), waiting(OptedOut))},
			now:  9*m + 30*s, want: "delete agent in 30s, csi in 30s; wait a opted-out; again 9m55s",
		},
		{
			name: "a stuck pod does not delay later tiers", now: 7 * m,
			pods:   []Pod{pod("a", terminating(m)), pod("dns", tier(1))},
			policy: func(p *Policy) { p.StuckAfter = 5 * m },
			want:   "evict dns; wait a terminating; again 10m0s",
		},
		{
			name: "a pod that has opted out delays later tiers", pods: []Pod{pod("a", waiting(OptedOut)), pod("dns", tier(1))},
			want: "wait a opted-out, dns later-tier; again 9m30s",
		},
		{
			name: "a tier with a bound delays the next one until then", policy: bounded, now: 2*m - 1,
			pods: []Pod{pod("a", terminating(5*m)), pod("dns", tier(1))}, want: "wait a terminating, dns later-tier; again 2m0s",
		},
		{
			name: "the next tier starts at the bound", policy: bounded, now: 2 * m,
			pods: []Pod{pod("a", terminating(5*m)), pod("dns", tier(1))}, want: "evict dns; wait a terminating; again 10m0s",
		},
		{
			name: "the bounds of tiers add up", policy: bounded, now: 2 * m,
			pods: []Pod{pod("a", terminating(5*m)), pod("dns", tier(1)), pod("net", tier(2))},
			want: "evict dns; wait a terminating, net later-tier; again 3m0s",
		},
		{
			name: "bounds count from the start of the drain even if a tier starts early", policy: bounded, now: m,
			pods: []Pod{pod("dns", tier(1), terminating(5*m)), pod("net", tier(2))},
			want: "wait dns terminating, net later-tier; again 3m0s",
		},
		{
			name: "tiers after one without a bound wait for its pods", now: 8 * m,
			policy: func(p *Policy) { p.Tiers = []time.Duration{m, 0, m} },
			pods:   []Pod{pod("a", tier(1), terminating(9*m)), pod("b", tier(2))},
			want:   "wait a terminating, b later-tier; again 9m30s",
		},
		{
			name: "the bound of the last tier applies to the CSI node plugin", now: 3 * m,
			policy: func(p *Policy) { p.Tiers = []time.Duration{3 * m} },
			pods:   []Pod{pod("a", terminating(5*m)), pod("csi", tier(1)), pod("agent", tier(2))},
			want:   "evict csi; wait a terminating, agent later-tier; again 9m30s",
		},
	})
}

func TestDecideOptedOutPods(t *testing.T) {
	runRows(t, []row{
		{name: "the drain waits for a pod that has opted out", pods: []Pod{pod("a", waiting(OptedOut))}, want: "wait a opted-out; again 9m30s"},
		{
			name: "the drain waits for a pod that the configuration selects",
			pods: []Pod{pod("a", waiting(WaitedFor)), pod("b")}, want: "evict b; wait a waited-for; again 9m30s",
		},
		{name: "a pod that has opted out is deleted at its latest deletion", now: 9*m + 30*s, pods: []Pod{pod("a", waiting(OptedOut))}, want: "delete a in 30s"},
		{
			name: "with leave it is waited for until the deadline", leave: true, now: 10*m - 1,
			pods: []Pod{pod("a", waiting(OptedOut))}, want: "wait a opted-out; again 10m0s",
		},
		{name: "with leave it is left at the deadline", leave: true, now: 10 * m, pods: []Pod{pod("a", waiting(OptedOut))}, want: "wait a opted-out; done"},
		{
			name: "a pod that has opted out until an instant is waited for until then", now: 3*m - 1,
			pods: []Pod{pod("a", waitingUntil(OptedOut, 3*m))}, want: "wait a opted-out; again 3m0s",
		},
		{name: "it is evicted at that instant", now: 3 * m, pods: []Pod{pod("a", waitingUntil(OptedOut, 3*m))}, want: "evict a"},
		{
			name: "its latest deletion may come before that instant", now: 9 * m,
			pods: []Pod{pod("a", waitingUntil(OptedOut, 20*m))}, want: "wait a opted-out; again 9m30s",
		},
		{
			name: "a pod that has opted out uses no disruption of its budget", budgets: onlyBudget(budget(4)),
			pods: []Pod{pod("a", waiting(OptedOut), budgeted("x/b")), pod("b", budgeted("x/b"))},
			want: "evict b; wait a opted-out; again 9m30s",
		},
		{
			name: "a pod that is waited for is not deleted for being unhealthy", now: 9 * m,
			policy: func(p *Policy) { p.ForceUnhealthy = m }, budgets: onlyBudget(budget(2)),
			pods: []Pod{pod("a", waiting(WaitedFor), budgeted("x/b"), unready)}, want: "wait a waited-for; again 9m30s",
		},
		{
			name: "a pod that is terminating for another reason is waited for, even if it has opted out",
			pods: []Pod{pod("a", waiting(OptedOut), terminating(30*s))}, want: "wait a terminating; again 10m0s",
		},
	})
}
