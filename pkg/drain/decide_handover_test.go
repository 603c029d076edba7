package drain

import (
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/pkg/handover"
)

// annotated makes a pod one that is asked, with changes of what has become of that.
func annotated(changes ...func(*HandOver)) func(*Pod) {
	return func(p *Pod) {
		p.HandOver.Kind = "test"
		for _, change := range changes {
			change(&p.HandOver)
		}
	}
}

// answered is a pod that may be asked again then.
func answered(last handover.Outcome, next time.Duration) func(*HandOver) {
	return func(h *HandOver) { h.Last, h.Next = last, at(next) }
}

func failingSince(offset time.Duration) func(*HandOver) {
	return func(h *HandOver) { h.FailingSince = at(offset) }
}

func asking(h *HandOver) { h.Asking = true }

func closed(h *HandOver) { h.Closed = true }

func beginning(p *Pod) { p.HandOver.Starting = true }

func turnTaken(s *State) { s.TurnsTaken = map[string]bool{"x": true} }

func otherNamespace(p *Pod) { p.Namespace = "y" }

func handOverAfter(timeout time.Duration) func(*Policy) {
	return func(p *Policy) { p.HandOverTimeout = timeout }
}

// TestDecideWhoIsAsked: a pod is asked when it would be evicted now, one of a namespace at a time.
func TestDecideWhoIsAsked(t *testing.T) {
	on := given{policy: handOverAfter(m)}
	on.expect(t, "a pod is asked before its eviction", 0, "ask a to evict it until 1m0s; again 9m30s", pod("a", annotated()))
	on.expect(t, "the others of its namespace wait, and pods that are not asked do not",
		0, "ask a to evict it until 1m0s; evict c; wait b group-behind; again 9m20s",
		pod("a", annotated()), pod("b", annotated()), pod("c"))
	on.expect(t, "those of other namespaces do not wait", 0, "ask a to evict it until 1m0s, b to evict it until 1m0s; again 9m30s",
		pod("a", annotated()), pod("b", annotated(), otherNamespace))
	given{policy: handOverAfter(m), state: turnTaken}.expect(t, "a pod waits while one on another node is asked",
		0, "wait a group-behind; again 9m20s", pod("a", annotated()))
	given{policy: handOverAfter(m), state: turnTaken}.expect(t, "so does one that does not run yet",
		0, "evict b; wait a group-behind; again 9m30s", pod("a", beginning), pod("b"))
	on.expect(t, "and none is asked while that one is evicted", 0, "ask a to evict it until 1m0s; wait b group-behind; again 9m20s",
		pod("a", beginning), pod("b", annotated()))
	on.expect(t, "a pod is not asked while its budget blocks it", 0, "wait a blocked-by-budget x/b; again 9m20s", guarded("a", annotated()))
	given{policy: handOverAfter(m), budgets: onlyBudget(budget(4))}.expect(t, "its eviction takes the disruption before it is asked",
		0, "ask a to evict it until 1m0s; wait b blocked-by-budget x/b; again 9m30s", guarded("a", annotated()), guarded("b"))
	on.expect(t, "a pod that is in a later tier or has opted out is not asked",
		0, "evict a; wait b later-tier, c opted-out; again 5m0s", pod("a"), pod("b", annotated(), tier(1)), pod("c", annotated(), waiting(OptedOut)))
	on.expect(t, "nor is one that is terminating", 0, "wait a terminating; again 10m0s", pod("a", annotated(), terminating(20*s)))
	on.expect(t, "a call in flight is waited for", 20*s, "wait a handing-over; again 9m20s", pod("a", annotated(asking)))
	on.expect(t, "an answer that has led to an eviction as well", 20*s, "wait a requested; again 9m20s", pod("a", annotated(), sent))
}

// TestDecideBoundsOfHandOvers: each wait for a hand-over ends.
func TestDecideBoundsOfHandOvers(t *testing.T) {
	on := given{policy: handOverAfter(m)}
	on.expect(t, "a pod that refuses is asked again after its pause",
		20*s, "wait a handing-over; again 25s", pod("a", annotated(answered(handover.Refused, 25*s), failingSince(0))))
	on.expect(t, "at most for DRAIN_HAND_OVER_TIMEOUT altogether",
		25*s, "ask a to evict it until 1m0s; again 9m30s", pod("a", annotated(answered(handover.Refused, 25*s), failingSince(0))))
	on.expect(t, "the pause does not extend that",
		50*s, "wait a handing-over; again 1m0s", pod("a", annotated(answered(noAnswer, 90*s), failingSince(0))))
	on.expect(t, "then it is evicted", m, "evict a", pod("a", annotated(answered(noAnswer, 90*s), failingSince(0))))
	on.expect(t, "a group that is behind is waited for longer",
		4*m, "wait a group-behind; again 4m5s", pod("a", annotated(answered(handover.GroupBehind, 4*m+5*s))))
	on.expect(t, "until half of the drain",
		5*m-s, "wait a group-behind; again 5m0s", pod("a", annotated(answered(handover.GroupBehind, 5*m+5*s))))
	on.expect(t, "then it is asked for the last time",
		5*m, "ask a at last to evict it until 6m0s; again 9m30s", pod("a", annotated(answered(handover.GroupBehind, 5*m+5*s))))
	on.expect(t, "after the last time it is evicted", 5*m+s, "evict a", pod("a", annotated(answered(handover.GroupBehind, 5*m+5*s), closed)))
	on.expect(t, "one that waits for its turn waits longer",
		5*m, "ask a at last to evict it until 6m0s; wait b group-behind; again 9m20s",
		pod("a", annotated(answered(handover.GroupBehind, 5*m))), pod("b", annotated(answered(handover.GroupBehind, 5*m))))
}

// TestDecideLastCalls: a pod that waits for anything is asked ten seconds before it is removed, and that delays nothing.
func TestDecideLastCalls(t *testing.T) {
	on := given{policy: handOverAfter(m)}
	on.expect(t, "a call ends in time for the last one", 9*m, "ask a to evict it until 9m20s; again 9m30s", pod("a", annotated()))
	on.expect(t, "a pod that was refused is asked for the last time",
		9*m+20*s, "ask a at last until 9m29s; again 9m30s", pod("a", annotated(answered(handover.Refused, 9*m+25*s), failingSince(9*m))))
	on.expect(t, "and a pod that its budget blocks", 9*m+20*s, "ask a at last until 9m29s; again 9m30s", guarded("a", annotated()))
	on.expect(t, "and a pod that has opted out", 9*m+20*s, "ask a at last until 9m29s; again 9m30s", pod("a", annotated(), waiting(OptedOut)))
	on.expect(t, "several of a namespace at once, since there is no time for turns",
		9*m+20*s, "ask a at last until 9m29s, b at last until 9m29s; again 9m30s", pod("a", annotated()), pod("b", annotated()))
	on.expect(t, "then it waits for its removal",
		9*m+25*s, "wait a blocked-by-budget x/b; again 9m30s", guarded("a", annotated(closed)))
	on.expect(t, "a call in flight does not delay it", 9*m+30*s, "delete a in 30s", guarded("a", annotated(asking), blocked))
	on.expect(t, "when there is no time for a call there is none", 9*m+29*s, "evict a", pod("a", annotated()))
	given{policy: handOverAfter(m), leave: true}.expect(t, "with leave the last call is before the deadline",
		9*m+50*s, "ask a at last until 9m59s; again 10m0s", pod("a", annotated(), waiting(OptedOut)))
	given{policy: func(p *Policy) { p.HandOverTimeout, p.ForceSpacing = m, 30*s }}.expect(t,
		"of pods that take turns, ten seconds before the first turn",
		8*m+50*s, "ask a at last until 8m59s, b at last until 8m59s; again 9m30s", guarded("a", annotated()), guarded("b", annotated()))
	on.expect(t, "a grace period longer than half of the drain leaves the first half",
		4*m+50*s, "ask a at last until 4m59s; again 5m0s", pod("a", annotated(), grace(8*m)))
}
