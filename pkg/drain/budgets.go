package drain

import (
	"fmt"
	"strings"
	"time"
)

// budgetSet is the budgets of a decision, as they will be after the step so far, and the pods that they
// block.
type budgetSet struct {
	now     time.Time
	byName  map[string]Budget
	blocked map[string]int // by budgetKey: blocked pods that have not been considered yet
}

func budgetKey(pod Pod) string { return strings.Join(pod.Budgets, " and ") }

// blocking returns the budget that blocks the eviction of the pod, and why; no reason if none does. The
// eviction API refuses a pod that two budgets select
// (k8s.io/kubernetes/pkg/registry/core/pod/storage/eviction.go).
func (s *budgetSet) blocking(pod Pod) (WaitReason, string) {
	if len(pod.Budgets) == 0 {
		return "", ""
	}
	name := budgetKey(pod)
	if len(pod.Budgets) > 1 {
		return Misconfigured, name
	}
	b := s.byName[name]
	if ok, _ := b.admits(pod, s.now); ok {
		return "", ""
	}
	if b.misconfigured() {
		return Misconfigured, name
	}
	return BlockedByBudget, name
}

// permitsAtLast reports whether the budgets permit the last eviction of the pod. It does not wait for one that is
// in flight: the API server repeats what conflicts. Nor does it leave a disruption to a pod that is still being asked.
func (s *budgetSet) permitsAtLast(pod Pod) bool {
	reason, name := s.blocking(pod)
	return reason == "" || s.byName[name].Allowed+s.byName[name].ReservedForCall > 0
}

// reserve takes a disruption for the eviction of the pod, and returns its budget; empty if it needs none.
func (s *budgetSet) reserve(pod Pod) string {
	if len(pod.Budgets) == 0 {
		return ""
	}
	name := pod.Budgets[0]
	b := s.byName[name]
	if _, disrupts := b.admits(pod, s.now); !disrupts {
		return ""
	}
	if b.Allowed <= 0 {
		b.ReservedForCall = 0
	}
	b.Allowed--
	b.EvictionInFlight = true
	s.byName[name] = b
	return name
}

// disrupt takes account of the deletion of the pod: its budgets have one healthy pod less.
func (s *budgetSet) disrupt(pod Pod) {
	for _, name := range pod.Budgets {
		b := s.byName[name]
		if pod.Ready {
			b.Healthy--
		}
		s.byName[name] = b
	}
}

// podsBehind counts the pods that wait for the pod's budgets, or under them, and are removed after it. Those that
// a budget allows to leave together need no turns.
func (s *budgetSet) podsBehind(pod Pod) int {
	here, most := s.blocked[budgetKey(pod)]-1, 0
	for _, name := range pod.Budgets {
		most = max(most, here+s.byName[name].PodsOnLaterNodes)
	}
	if len(pod.Budgets) == 1 {
		most -= max(s.byName[pod.Budgets[0]].Allowed-1, 0)
	}
	return max(most, 0)
}

// satisfied reports whether all budgets of the pod have the healthy pods that they require. If not, it
// returns until when the numbers of one may lag behind.
func (s *budgetSet) satisfied(pod Pod) (ok bool, staleUntil time.Time) {
	for _, name := range pod.Budgets {
		if b := s.byName[name]; !b.satisfied(s.now) {
			return false, b.StaleUntil
		}
	}
	return true, time.Time{}
}

// explain says in words why the budgets block the pod.
func (s *budgetSet) explain(pod Pod) string {
	switch len(pod.Budgets) {
	case 0: // a budget that the watch does not show
		return pod.Try.Message
	case 1:
	default:
		return fmt.Sprintf("%d PodDisruptionBudgets select the pod, and the eviction API refuses such a pod",
			len(pod.Budgets))
	}
	b := s.byName[pod.Budgets[0]]
	if b.SyncFailed != "" {
		return "it allows no disruption, because it cannot be calculated: " + b.SyncFailed
	}
	numbers := fmt.Sprintf("%d of its %d pods are healthy, and it requires %d", b.Healthy, b.Expected, b.Desired)
	if b.misconfigured() {
		return "it never allows a disruption: " + numbers
	}
	return fmt.Sprintf("it allows %d disruptions now: %s", max(b.Allowed, 0), numbers)
}
