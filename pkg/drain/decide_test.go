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
