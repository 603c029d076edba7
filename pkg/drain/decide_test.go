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

// guarded returns a pod that the budget x/b protects.
func guarded(name string, changes ...func(*Pod)) Pod {
	return pod(name, append([]func(*Pod){budgeted("x/b")}, changes...)...)
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

// forcedUntil is the Try of a pod whose accepted deletion gave it a grace period that ends then.
func forcedUntil(end time.Duration) func(*Pod) {
	return func(p *Pod) { p.Try = Try{Last: Forced, EndsAt: at(end)} }
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

func inFlight(b *Budget) { b.EvictionInFlight = true }

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
	list("ask", releases(s.Release))
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

// releases names the pods that are asked, and until when, counted from t0.
func releases(all []Release) (names []string) {
	for _, r := range all {
		name := r.Removal.Pod.Name
		if r.Last {
			name += " at last"
		}
		if r.Evict {
			name += " to evict it"
		}
		names = append(names, name+" until "+r.Until.Sub(t0).String())
	}
	return names
}

// given is what a decision is made from besides the time and the pods.
type given struct {
	policy  func(*Policy)     // changes of defaultPolicy
	state   func(*State)      // changes of the state
	leave   bool              // pods are left at the deadline, not deleted
	budgets map[string]Budget // by default x/b allows nothing
}

// defaultPolicy has three tiers without a bound, and none of what is opt-in.
func defaultPolicy() Policy {
	return Policy{Config{AtDeadline: Delete, AnnotationTimeout: 48 * time.Hour}, make([]Tier, 3)}
}

func bounds(tiers ...Tier) func(*Policy) { return func(p *Policy) { p.TierList = tiers } }

// expect tests in a subtest what is decided about the pods at the instant now, counted from t0.
func (g given) expect(t *testing.T, name string, now time.Duration, want string, pods ...Pod) {
	t.Helper()
	policy, state := defaultPolicy(), State{Since: t0, Started: at(now), Pods: pods, Budgets: g.budgets}
	if g.leave {
		policy.AtDeadline = Leave
	}
	if g.budgets == nil {
		state.Budgets = onlyBudget(budget(3))
	}
	if g.policy != nil {
		g.policy(&policy)
	}
	if g.state != nil {
		g.state(&state)
	}
	t.Run(name, func(t *testing.T) {
		step := Decide(state, at(now), at(window), policy)
		if diff := cmp.Diff(want, format(step)); diff != "" {
			t.Error(diff)
		}
		if fault := violation(state, step, at(now), at(window), policy); fault != "" {
			t.Error(fault)
		}
	})
}

const s, m = time.Second, time.Minute

func TestDecidePodsThatMustLeave(t *testing.T) {
	given{}.expect(t, "an empty node is done", 0, "done")
	given{}.expect(t, "a pod is evicted, with its own grace", 0, "evict a", pod("a"))
	given{}.expect(t, "pods of DaemonSets, mirror pods and finished pods stay",
		0, "done", pod("a", stays(DaemonSet)), pod("b", stays(Mirror)), pod("c", stays(Finished)))
	given{}.expect(t, "a finished pod stays, whatever its annotations and state",
		0, "done", guarded("a", stays(Finished), waiting(OptedOut), terminating(20*m)))
	given{}.expect(t, "the longest grace period comes first, then the names in order",
		0, "evict d, b, c, a", pod("c"), pod("b"), pod("a", grace(5*s)), pod("d", grace(m)))
	given{}.expect(t, "namespaces are in order", 0, "evict b, a", pod("a", func(p *Pod) { p.Namespace = "y" }), pod("b"))
}

func TestDecideTiers(t *testing.T) {
	bounded := bounds(Tier{Bound: 2 * m}, Tier{Bound: m}, Tier{})
	given{}.expect(t, "a tier waits for the one before it", 0, "evict a; wait dns later-tier; again 5m0s", pod("dns", tier(1)), pod("a"))
	given{}.expect(t, "a tier waits until the pods before it are gone, not only terminating",
		0, "wait a terminating, dns later-tier; again 5m0s", pod("dns", tier(1)), pod("a", terminating(20*s)))
	given{}.expect(t, "a tier starts when the tier before it is gone; pods that stay belong to no tier",
		0, "evict dns", pod("dns", tier(1)), pod("d", stays(DaemonSet)))
	given{}.expect(t, "tiers start one after another",
		0, "evict a; wait b later-tier, c later-tier; again 5m0s", pod("a", tier(1)), pod("b", tier(2)), pod("c", tier(3)))
	given{}.expect(t, "a tier without pods is skipped", 0, "evict a; wait b later-tier; again 9m30s", pod("a", tier(2)), pod("b", tier(3)))
	given{}.expect(t, "a pod of a later tier is evicted at its latest deletion",
		9*m+30*s, "evict csi in 30s; wait a blocked-by-budget x/b; again 9m55s", pod("csi", tier(3)), pod("a", grace(5*s), blocked, budgeted("x/b")))
	given{policy: func(p *Policy) { p.StuckAfter = 5 * m }}.expect(t, "a stuck pod does not delay later tiers",
		7*m, "evict dns; wait a terminating; again 10m0s", pod("a", terminating(m)), pod("dns", tier(1)))
	given{}.expect(t, "a pod that has opted out delays later tiers",
		0, "wait dns later-tier, a opted-out; again 5m0s", pod("a", waiting(OptedOut)), pod("dns", tier(1)))
	given{}.expect(t, "later tiers start at half of the drain at the latest, all of them",
		5*m, "evict dns, net; wait a opted-out; again 9m30s", pod("a", waiting(OptedOut)), pod("dns", tier(1)), pod("net", tier(2)))
	given{leave: true}.expect(t, "with leave as well", 5*m, "evict dns; wait a opted-out; again 10m0s", pod("a", waiting(OptedOut)), pod("dns", tier(1)))
	given{}.expect(t, "not before", 5*m-1, "wait dns later-tier, a opted-out; again 5m0s", pod("a", waiting(OptedOut)), pod("dns", tier(1)))
	given{}.expect(t, "pods that other pods need to leave wait for them",
		5*m, "wait agent later-tier, csi later-tier, a opted-out; again 9m30s", pod("a", waiting(OptedOut)), pod("csi", tier(3)), pod("agent", tier(4)))
	given{policy: bounded}.expect(t, "a tier with a bound delays the next one until then",
		2*m-1, "wait a terminating, dns later-tier; again 2m0s", pod("a", terminating(5*m)), pod("dns", tier(1)))
	given{policy: bounded}.expect(t, "the next tier starts at the bound",
		2*m, "evict dns; wait a terminating; again 10m0s", pod("a", terminating(5*m)), pod("dns", tier(1)))
	given{policy: bounded}.expect(t, "the bounds of tiers add up",
		2*m, "evict dns; wait a terminating, net later-tier; again 3m0s", pod("a", terminating(5*m)), pod("dns", tier(1)), pod("net", tier(2)))
	given{policy: bounded}.expect(t, "bounds count from the start of the drain even if a tier starts early",
		m, "wait dns terminating, net later-tier; again 3m0s", pod("dns", tier(1), terminating(5*m)), pod("net", tier(2)))
	given{policy: bounds(Tier{Bound: m}, Tier{}, Tier{Bound: m})}.expect(t,
		"tiers after one without a bound wait for its pods until half of the drain",
		4*m, "wait a terminating, b later-tier; again 5m0s", pod("a", tier(1), terminating(9*m)), pod("b", tier(2)))
	given{policy: bounds(Tier{Bound: 3 * m})}.expect(t,
		"the bound of the last tier applies to pods of DaemonSets",
		3*m, "evict logs; wait a terminating, agent later-tier, csi later-tier; again 9m30s",
		pod("a", terminating(5*m)), pod("logs", tier(1)), pod("csi", tier(2)), pod("agent", tier(3)))
}

func TestDecideOptedOutPods(t *testing.T) {
	given{}.expect(t, "the drain waits for a pod that has opted out", 0, "wait a opted-out; again 9m30s", pod("a", waiting(OptedOut)))
	given{}.expect(t, "the drain waits for a pod that the configuration selects",
		0, "evict b; wait a waited-for; again 9m30s", pod("a", waiting(WaitedFor)), pod("b"))
	given{}.expect(t, "a pod that has opted out is evicted at its latest deletion", 9*m+30*s, "evict a in 30s", pod("a", waiting(OptedOut)))
	given{leave: true}.expect(t, "with leave it is waited for until the deadline",
		10*m-1, "wait a opted-out; again 10m0s", pod("a", waiting(OptedOut)))
	given{leave: true}.expect(t, "with leave it is left at the deadline", 10*m, "wait a opted-out; done", pod("a", waiting(OptedOut)))
	given{}.expect(t, "a pod that has opted out until an instant is waited for until then",
		3*m-1, "wait a opted-out; again 3m0s", pod("a", waitingUntil(OptedOut, 3*m)))
	given{}.expect(t, "it is evicted at that instant", 3*m, "evict a", pod("a", waitingUntil(OptedOut, 3*m)))
	given{}.expect(t, "its latest deletion may come before that instant",
		9*m, "wait a opted-out; again 9m30s", pod("a", waitingUntil(OptedOut, 20*m)))
	given{budgets: onlyBudget(budget(4))}.expect(t, "a pod that has opted out uses no disruption of its budget",
		0, "evict b; wait a opted-out; again 9m30s", guarded("a", waiting(OptedOut)), guarded("b"))
	given{policy: func(p *Policy) { p.ForceUnhealthy = m }, budgets: onlyBudget(budget(2))}.expect(t,
		"a pod that is waited for is not deleted for being unhealthy", 9*m, "wait a waited-for; again 9m30s", guarded("a", waiting(WaitedFor), unready))
	given{}.expect(t, "a pod that is terminating for another reason is waited for, even if it has opted out",
		0, "wait a terminating; again 10m0s", pod("a", waiting(OptedOut), terminating(30*s)))
}
