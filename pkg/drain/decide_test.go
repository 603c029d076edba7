package drain

import (
	"fmt"
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

func stays(why StayReason) func(*Pod)             { return func(p *Pod) { p.StayReason = why } }
func grace(g time.Duration) func(*Pod)            { return func(p *Pod) { p.Grace = g } }
func budgeted(names ...string) func(*Pod)         { return func(p *Pod) { p.Budgets = names } }
func terminating(offset time.Duration) func(*Pod) { return func(p *Pod) { p.GraceEndsAt = at(offset) } }
func tier(n int) func(*Pod)                       { return func(p *Pod) { p.Tier = n } }
func waiting(why WaitReason) func(*Pod)           { return func(p *Pod) { p.WaitReason = why } }

func waitingUntil(why WaitReason, offset time.Duration) func(*Pod) {
	return func(p *Pod) { p.WaitReason, p.WaitUntil = why, at(offset) }
}

// unready makes a pod not Ready, since t0.
func unready(p *Pod) { p.Ready, p.UnreadySince = false, t0 }

func sent(p *Pod) { p.Try.Last = Sent }

// blocked is what is noted of a pod that its budget's account had seem free, and the API server refused.
func blocked(p *Pod) { p.Try = Try{Last: Blocked, Message: "the API server says so"} }

func tried(last Outcome, next time.Duration) func(*Pod) {
	return func(p *Pod) { p.Try = Try{Last: last, Next: at(next), Failures: 1, Message: "the API server says so"} }
}

// budget is a PodDisruptionBudget over five pods that asks for three, and allows as many disruptions as it can.
func budget(healthy int, changes ...func(*Budget)) Budget {
	b := Budget{Allowed: max(healthy-3, 0), Healthy: healthy, Desired: 3, Expected: 5}
	for _, change := range changes {
		change(&b)
	}
	return b
}

func alwaysAllow(b *Budget)                      { b.AlwaysAllow = true }
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

// A row is a state, an instant, and what is to be done then.
type row struct {
	name    string
	pods    []Pod
	budgets map[string]Budget
	now     time.Duration
	leave   bool          // at the deadline, instead of deleting
	policy  func(*Policy) // what else differs from plain
	state   func(*State)  // the same of the state
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

func TestDecideWhatMustGo(t *testing.T) {
	runRows(t, []row{
		{name: "an empty node is done", want: "done"},
		{name: "a pod is evicted, with its own grace", pods: []Pod{pod("a")}, want: "evict a"},
		{
			name: "daemons, mirrors and finished pods stay, and hold nothing up",
			pods: []Pod{pod("a", stays(DaemonSet)), pod("b", stays(Mirror)), pod("c", stays(Finished))}, want: "done",
		},
		{
			name: "a finished pod stays, whatever it asked for",
			pods: []Pod{pod("a", stays(Finished), waiting(OptedOut), terminating(20*m), budgeted("x/b"))}, want: "done",
		},
		{
			name: "the longest grace goes first, then names decide",
			pods: []Pod{pod("c"), pod("b"), pod("a", grace(5*s)), pod("d", grace(m))}, want: "evict d, b, c, a",
		},
		{name: "of two namespaces the first goes first", pods: []Pod{pod("a", func(p *Pod) { p.Namespace = "y" }), pod("b")}, want: "evict b, a"},
	})
}

func TestDecideTiers(t *testing.T) {
	bounded := func(p *Policy) { p.Tiers = []time.Duration{2 * m, m, 0} }
	runRows(t, []row{
		{name: "a tier waits for the one before it", pods: []Pod{pod("dns", tier(1)), pod("a")}, want: "evict a; wait dns later-tier; again 9m30s"},
		{
			name: "it waits for the other's pods to be gone, not only to be asked",
			pods: []Pod{pod("dns", tier(1)), pod("a", terminating(20*s))},
			want: "wait a terminating, dns later-tier; again 9m30s",
		},
		{
			name: "it begins when the tier before it has gone; pods that stay are of none",
			pods: []Pod{pod("dns", tier(1)), pod("d", stays(DaemonSet))}, want: "evict dns",
		},
		{
			name: "tiers begin one after another", pods: []Pod{pod("a", tier(1)), pod("b", tier(2)), pod("c", tier(3))},
			want: "evict a; wait b later-tier, c later-tier; again 9m30s",
		},
		{
			name: "a tier without pods holds up nothing", pods: []Pod{pod("a", tier(2)), pod("b", tier(3))},
			want: "evict a; wait b later-tier; again 9m30s",
		},
		{
			name: "the node part of a CSI driver goes after all others, the agent's own pod after it",
			pods: []Pod{pod("agent", tier(4)), pod("csi", tier(3)), pod("dns", tier(2))},
			want: "evict dns; wait agent later-tier, csi later-tier; again 9m30s",
		},
		{
			name: "when the others have gone, the CSI driver goes",
			pods: []Pod{pod("agent", tier(4)), pod("csi", tier(3))}, want: "evict csi; wait agent later-tier; again 9m30s",
		},
		{name: "and last the agent", pods: []Pod{pod("agent", tier(4))}, want: "evict agent"},
		{
			name: "a pod does not wait for its tier past the time that it needs", budgets: onlyBudget(budget(3)),
			pods: []Pod{pod("dns", tier(1)), pod("a", grace(5*s), blocked, budgeted("x/b"))},
			now:  9*m + 30*s, want: "delete dns in 30s; wait a blocked-by-budget x/b; again 9m55s",
		},
		{
			name: "nor do the CSI driver and the agent",
			pods: []Pod{pod("csi", tier(3)), pod("agent", tier(4)), pod("a", grace(5*s), waiting(OptedOut))},
			now:  9*m + 30*s, want: "delete agent in 30s, csi in 30s; wait a opted-out; again 9m55s",
		},
		{
			name: "a pod that is stuck holds up no later tier", now: 7 * m,
			pods:   []Pod{pod("a", terminating(m)), pod("dns", tier(1))},
			policy: func(p *Policy) { p.StuckAfter = 5 * m },
			want:   "evict dns; wait a terminating; again 10m0s",
		},
		{
			name: "a pod that is waited for holds up the later tiers", pods: []Pod{pod("a", waiting(OptedOut)), pod("dns", tier(1))},
			want: "wait a opted-out, dns later-tier; again 9m30s",
		},
		{
			name: "a bounded tier holds up the next one no longer than that", policy: bounded, now: 2*m - 1,
			pods: []Pod{pod("a", terminating(5*m)), pod("dns", tier(1))}, want: "wait a terminating, dns later-tier; again 2m0s",
		},
		{
			name: "then the next one begins", policy: bounded, now: 2 * m,
			pods: []Pod{pod("a", terminating(5*m)), pod("dns", tier(1))}, want: "evict dns; wait a terminating; again 10m0s",
		},
		{
			name: "the bounds of tiers add up", policy: bounded, now: 2 * m,
			pods: []Pod{pod("a", terminating(5*m)), pod("dns", tier(1)), pod("net", tier(2))},
			want: "evict dns; wait a terminating, net later-tier; again 3m0s",
		},
		{
			name: "a tier that begins early does not make the ones after it begin by time", policy: bounded, now: m,
			pods: []Pod{pod("dns", tier(1), terminating(5*m)), pod("net", tier(2))},
			want: "wait dns terminating, net later-tier; again 3m0s",
		},
		{
			name: "a tier without a bound stops the clock: those after it wait for its pods", now: 8 * m,
			policy: func(p *Policy) { p.Tiers = []time.Duration{m, 0, m} },
			pods:   []Pod{pod("a", tier(1), terminating(9*m)), pod("b", tier(2))},
			want:   "wait a terminating, b later-tier; again 9m30s",
		},
		{
			name: "when its bound is over, the last tier holds up no CSI driver", now: 3 * m,
			policy: func(p *Policy) { p.Tiers = []time.Duration{3 * m} },
			pods:   []Pod{pod("a", terminating(5*m)), pod("csi", tier(1)), pod("agent", tier(2))},
			want:   "evict csi; wait a terminating, agent later-tier; again 9m30s",
		},
	})
}

func TestDecideWhatIsWaitedFor(t *testing.T) {
	runRows(t, []row{
		{name: "a pod that asks not to be evicted is waited for", pods: []Pod{pod("a", waiting(OptedOut))}, want: "wait a opted-out; again 9m30s"},
		{
			name: "so is a pod that the configuration names",
			pods: []Pod{pod("a", waiting(WaitedFor)), pod("b")}, want: "evict b; wait a waited-for; again 9m30s",
		},
		{name: "until its grace must begin", now: 9*m + 30*s, pods: []Pod{pod("a", waiting(OptedOut))}, want: "delete a in 30s"},
		{
			name: "with leave, until the deadline", leave: true, now: 10*m - 1,
			pods: []Pod{pod("a", waiting(OptedOut))}, want: "wait a opted-out; again 10m0s",
		},
		{name: "with leave, it is left then", leave: true, now: 10 * m, pods: []Pod{pod("a", waiting(OptedOut))}, want: "wait a opted-out; done"},
		{
			name: "a pod that asks for some time is waited for so long", now: 3*m - 1,
			pods: []Pod{pod("a", waitingUntil(OptedOut, 3*m))}, want: "wait a opted-out; again 3m0s",
		},
		{name: "and then evicted", now: 3 * m, pods: []Pod{pod("a", waitingUntil(OptedOut, 3*m))}, want: "evict a"},
		{
			name: "but not past the deadline's claim", now: 9 * m,
			pods: []Pod{pod("a", waitingUntil(OptedOut, 20*m))}, want: "wait a opted-out; again 9m30s",
		},
		{
			name: "a pod that is waited for takes nothing of its budget", budgets: onlyBudget(budget(4)),
			pods: []Pod{pod("a", waiting(OptedOut), budgeted("x/b")), pod("b", budgeted("x/b"))},
			want: "evict b; wait a opted-out; again 9m30s",
		},
		{
			name: "a pod that is waited for is not evicted because it is not Ready", now: 9 * m,
			policy: func(p *Policy) { p.ForceUnhealthy = m }, budgets: onlyBudget(budget(2)),
			pods: []Pod{pod("a", waiting(WaitedFor), budgeted("x/b"), unready)}, want: "wait a waited-for; again 9m30s",
		},
		{
			name: "a pod that somebody else deletes is terminating, whatever it asked for",
			pods: []Pod{pod("a", waiting(OptedOut), terminating(30*s))}, want: "wait a terminating; again 10m0s",
		},
	})
}

func TestDecideBudgets(t *testing.T) {
	runRows(t, []row{
		{
			name: "a budget that allows one of three", pods: []Pod{
				pod("a", budgeted("x/b")), pod("b", budgeted("x/b")), pod("c", budgeted("x/b")),
			},
			budgets: onlyBudget(budget(4)), want: "evict a; wait b blocked-by-budget x/b, c blocked-by-budget x/b; again 9m30s",
		},
		{
			name: "a budget that allows two of three: one eviction is sent after the other", pods: []Pod{
				pod("a", budgeted("x/b")), pod("b", budgeted("x/b")), pod("c", budgeted("x/b")),
			},
			budgets: onlyBudget(budget(5)), want: "evict a; wait b blocked-by-budget x/b, c blocked-by-budget x/b; again 9m30s",
		},
		{
			name: "a budget under which an eviction is under way is not asked, whatever it allows",
			pods: []Pod{pod("a", budgeted("x/b"))}, budgets: onlyBudget(budget(5, func(b *Budget) { b.EvictionInFlight = true })),
			want: "wait a blocked-by-budget x/b; again 9m30s",
		},
		{
			name: "unless the pod takes nothing of it", pods: []Pod{pod("a", budgeted("x/b"), unready)},
			budgets: onlyBudget(budget(5, func(b *Budget) { b.EvictionInFlight = true })), want: "evict a",
		},
		{
			name: "one budget does not hold the pods of another", pods: []Pod{pod("a", budgeted("x/b")), pod("b")},
			budgets: onlyBudget(budget(3)), want: "evict b; wait a blocked-by-budget x/b; again 9m30s",
		},
		{
			name: "budgets of one name in two namespaces are two", pods: []Pod{pod("a", budgeted("x/b")), pod("b", budgeted("y/b"))},
			budgets: map[string]Budget{"x/b": budget(3), "y/b": budget(4)}, want: "evict b; wait a blocked-by-budget x/b; again 9m30s",
		},
		{
			name: "a budget of which others claim more than it allows gives none", pods: []Pod{pod("a", budgeted("x/b"))},
			budgets: onlyBudget(budget(4, allowing(-1))), want: "wait a blocked-by-budget x/b; again 9m30s",
		},
		{
			name: "a blocked pod is evicted as soon as its budget allows it",
			pods: []Pod{pod("a", budgeted("x/b"), blocked)}, budgets: onlyBudget(budget(4)), now: 5 * s, want: "evict a",
		},
		{
			name:    "of two blocked pods one is evicted when their budget allows one",
			pods:    []Pod{pod("a", budgeted("x/b"), blocked), pod("b", budgeted("x/b"), blocked)},
			budgets: onlyBudget(budget(4)), now: 5 * s, want: "evict a; wait b blocked-by-budget x/b; again 9m30s",
		},
		{
			name: "a pod that was blocked by a budget that nobody saw is asked about again after a pause",
			pods: []Pod{pod("a", tried(Blocked, 20*s))}, now: 5 * s, want: "wait a blocked-by-budget; again 20s",
		},
		{name: "which is then over", pods: []Pod{pod("a", tried(Blocked, 20*s))}, now: 20 * s, want: "evict a"},

		// What the watch may have missed.
		{
			name: "a budget that allows nothing is asked when its time has come, whatever the watch says",
			pods: []Pod{pod("a", budgeted("x/b"))}, budgets: onlyBudget(budget(3, probeAt(20*s))), now: 20 * s, want: "evict a",
		},
		{
			name: "and not before", pods: []Pod{pod("a", budgeted("x/b"))}, budgets: onlyBudget(budget(3, probeAt(20*s))),
			now: 5 * s, want: "wait a blocked-by-budget x/b; again 20s",
		},
		{
			name:    "it is asked about one pod only",
			pods:    []Pod{pod("a", budgeted("x/b")), pod("b", budgeted("x/b")), pod("c", budgeted("x/b"))},
			budgets: onlyBudget(budget(3, probeAt(20*s))), now: 20 * s,
			want: "evict a; wait b blocked-by-budget x/b, c blocked-by-budget x/b; again 9m30s",
		},
		{
			name: "a disruption that the watch should have shown by then is looked for at that time",
			pods: []Pod{pod("a", budgeted("x/b"))}, budgets: onlyBudget(budget(4, allowing(0), staleUntil(7*s))), now: 5 * s,
			want: "wait a blocked-by-budget x/b; again 7s",
		},

		// Pods that are not Ready, as the API server has it.
		{
			name:    "an unready pod of a budget that has all it asks for goes, and takes nothing of it",
			pods:    []Pod{pod("a", budgeted("x/b"), unready), pod("b", budgeted("x/b"))},
			budgets: onlyBudget(budget(4)), want: "evict a, b",
		},
		{
			name: "it goes even if the budget allows nothing",
			pods: []Pod{pod("a", budgeted("x/b"), unready), pod("b", budgeted("x/b"))}, budgets: onlyBudget(budget(3)),
			want: "evict a; wait b blocked-by-budget x/b; again 9m30s",
		},
		{
			name: "an unready pod of a budget that has less than it asks for waits, and is not asked about",
			pods: []Pod{pod("a", budgeted("x/b"), unready)}, budgets: onlyBudget(budget(2)),
			want: "wait a blocked-by-budget x/b; again 9m30s",
		},
		{
			name: "unless the budget always allows unhealthy pods (AlwaysAllow)",
			pods: []Pod{pod("a", budgeted("x/b"), unready), pod("b", budgeted("x/b"))}, budgets: onlyBudget(budget(2, alwaysAllow)),
			want: "evict a; wait b blocked-by-budget x/b; again 9m30s",
		},
		{
			name: "a budget that asks for nothing lets an unready pod go as it lets any pod go",
			pods: []Pod{pod("a", budgeted("x/b"), unready)}, budgets: onlyBudget(Budget{Expected: 1}),
			want: "wait a blocked-by-budget x/b; again 9m30s",
		},

		// Budgets that never allow anything.
		{
			name: "a budget that asks for all of its pods, which are healthy, never allows a disruption",
			pods: []Pod{pod("a", budgeted("x/b"))}, budgets: onlyBudget(fullBudget(2)),
			want: "wait a misconfigured-budget x/b; again 9m30s",
		},
		{
			name: "while one of its pods is not healthy it is no more than held", budgets: onlyBudget(fullBudget(2, func(b *Budget) { b.Healthy = 1 })),
			pods: []Pod{pod("a", budgeted("x/b"))}, want: "wait a blocked-by-budget x/b; again 9m30s",
		},
		{
			name: "a budget whose pods have not been counted yet is no more than held", budgets: onlyBudget(fullBudget(0)),
			pods: []Pod{pod("a", budgeted("x/b"))}, want: "wait a blocked-by-budget x/b; again 9m30s",
		},
		{
			name: "the eviction API serves no pod of two budgets, whatever they allow, so it is not asked",
			pods: []Pod{pod("a", budgeted("x/b", "x/c"))}, budgets: map[string]Budget{"x/b": budget(4), "x/c": budget(5)},
			want: "wait a misconfigured-budget x/b and x/c; again 9m30s",
		},
		{
			name: "nor about an unready one, nor when a budget is to be asked nevertheless", now: m,
			pods:    []Pod{pod("a", budgeted("x/b", "x/c"), unready)},
			budgets: map[string]Budget{"x/b": budget(5, alwaysAllow), "x/c": budget(3, probeAt(30*s))},
			want:    "wait a misconfigured-budget x/b and x/c; again 9m30s",
		},
		{
			name: "it takes nothing of either", budgets: map[string]Budget{"x/b": budget(4), "x/c": budget(4)},
			pods: []Pod{pod("a", budgeted("x/b", "x/c")), pod("b", budgeted("x/b")), pod("c", budgeted("x/c"))},
			want: "evict b, c; wait a misconfigured-budget x/b and x/c; again 9m30s",
		},
		{
			name: "and is deleted when its grace must begin", now: 9*m + 30*s,
			pods: []Pod{pod("a", budgeted("x/b", "x/c"))}, budgets: map[string]Budget{"x/b": budget(4), "x/c": budget(4)},
			want: "delete a in 30s",
		},
	})
}

func TestDecideExplainsWhyAPodIsHeld(t *testing.T) {
	for _, tt := range []struct {
		name    string
		pod     Pod
		budgets map[string]Budget
		want    string
	}{
		{
			"a budget that allows nothing now", pod("a", budgeted("x/b")), onlyBudget(budget(3)),
			"it allows 0 disruptions now: 3 of its 5 pods are healthy, and it requires 3",
		},
		{
			"a budget of which others have more than there is", pod("a", budgeted("x/b")), onlyBudget(budget(4, allowing(-2))),
			"it allows 0 disruptions now: 4 of its 5 pods are healthy, and it requires 3",
		},
		{
			"a budget that never allows anything", pod("a", budgeted("x/b")), onlyBudget(fullBudget(2)),
			"it never allows a disruption: 2 of its 2 pods are healthy, and it requires 2",
		},
		{
			"two budgets", pod("a", budgeted("x/b", "x/c")),
			map[string]Budget{"x/b": budget(5), "x/c": budget(5)},
			"2 PodDisruptionBudgets select the pod, and the eviction API refuses such a pod",
		},
		{"a budget that only the API server has seen", pod("a", tried(Blocked, m)), nil, "the API server says so"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			step := Decide(State{Since: t0, Pods: []Pod{tt.pod}, Budgets: tt.budgets}, t0, at(window), defaultPolicy())
			if len(step.Wait) != 1 || step.Wait[0].Message != tt.want {
				t.Errorf("got %+v, want %q", step.Wait, tt.want)
			}
		})
	}
}

// TestDecideSaysOfWhichBudgetAnEvictionTakes holds what the ledger goes by.
func TestDecideSaysOfWhichBudgetAnEvictionTakes(t *testing.T) {
	for _, tt := range []struct {
		name string
		pod  Pod
		b    Budget
		want string
	}{
		{"a Ready pod takes of its budget", pod("a", budgeted("x/b")), budget(4), "x/b"},
		{"an unready pod of a budget that has enough takes nothing", pod("a", budgeted("x/b"), unready), budget(3), ""},
		{"an unready pod of a lenient budget takes nothing", pod("a", budgeted("x/b"), unready), budget(2, alwaysAllow), ""},
		{
			"an unready pod of a budget that asks for nothing takes of it",
			pod("a", budgeted("x/b"), unready),
			Budget{Allowed: 1, Healthy: 1, Expected: 2},
			"x/b",
		},
		{"a pod without a budget takes nothing", pod("a"), budget(4), ""},
		{"asking what seems to allow nothing takes, too", pod("a", budgeted("x/b")), budget(3, probeAt(0)), "x/b"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			step := Decide(State{Since: t0, Pods: []Pod{tt.pod}, Budgets: onlyBudget(tt.b)}, t0, at(window), defaultPolicy())
			if len(step.Evict) != 1 || step.Evict[0].Budget != tt.want {
				t.Errorf("got %+v, want %q", step.Evict, tt.want)
			}
		})
	}
}

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
