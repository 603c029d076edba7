package drain

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Snapshot is what runs on nodes, and the budgets that protect it, at one moment. Create it with NewSnapshot, and add
// all pods and budgets. After that its methods may be called concurrently.
type Snapshot struct {
	rules   rules
	nodes   map[string][]*record
	budgets map[string][]seenBudget // by namespace
	starts  starts
}

// seenBudget is a PodDisruptionBudget of a Snapshot.
type seenBudget struct {
	name    string // NAMESPACE/NAME
	selects labels.Selector
	budget  Budget
}

// NewSnapshot returns an empty Snapshot for drains with the configuration. The taint is what keeps pods away from a
// draining node.
func NewSnapshot(cfg Config, taint corev1.Taint) (*Snapshot, error) {
	tiers, err := parseTiers(cfg.Tiers)
	if err != nil {
		return nil, err
	}
	s := &Snapshot{nodes: map[string][]*record{}, budgets: map[string][]seenBudget{}, starts: starts{}}
	s.rules, err = newRules(Policy{cfg, tiers}, Environment{Taint: taint})
	return s, err
}

// Timeout is how long a drain may take if nothing else bounds it.
func (s *Snapshot) Timeout() time.Duration { return s.rules.Timeout }

// AddPod adds a pod with its node.
func (s *Snapshot) AddPod(p *corev1.Pod) {
	rec := s.rules.record(p)
	s.starts.add(rec)
	s.nodes[p.Spec.NodeName] = append(s.nodes[p.Spec.NodeName], rec)
}

// AddBudget adds a PodDisruptionBudget.
func (s *Snapshot) AddBudget(b *policyv1.PodDisruptionBudget) error {
	selects, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
	if err != nil {
		return fmt.Errorf("PodDisruptionBudget %s/%s: %w", b.Namespace, b.Name, err)
	}
	s.budgets[b.Namespace] = append(s.budgets[b.Namespace], seenBudget{
		name: b.Namespace + "/" + b.Name, selects: selects, budget: budgetOf(b),
	})
	return nil
}

// Forecast returns how a drain of the target would go. It decides as a drain does, in a time of its own.
func (s *Snapshot) Forecast(t Target) Forecast {
	simulated := simulated{
		target: t, policy: s.rules.of(t), state: s.state(t.Name, t.Since), now: t.Since, pods: s.nodes[t.Name],
		starts: s.starts,
	}
	f := Forecast{Expected: simulated.run((*record).stopsSoon), Longest: simulated.run((*record).stopsLate)}
	for _, rec := range s.nodes[t.Name] {
		if rec.pod.StayReason == "" {
			f.Pods++
		}
	}
	if f.Longest.Took < f.Expected.Took {
		f.Longest = f.Expected
	}
	return f
}

// budgetsOf returns those that protect the pod, by name.
func (s *Snapshot) budgetsOf(rec *record) map[string]Budget {
	found := map[string]Budget{}
	if rec.pod.StayReason != "" || rec.ignoresBudgets {
		return found
	}
	for _, b := range s.budgets[rec.Namespace] {
		if b.selects.Matches(labels.Set(rec.Labels)) {
			found[b.name] = b.budget
		}
	}
	return found
}

// state is what a drain of the node that begins at the time would decide from first.
func (s *Snapshot) state(node string, since time.Time) State {
	state := State{Since: since, Started: since, Budgets: map[string]Budget{}, TierSince: map[int]time.Time{}}
	for _, rec := range s.nodes[node] {
		protecting := s.budgetsOf(rec)
		pod := rec.pod
		pod.Budgets = slices.Sorted(maps.Keys(protecting))
		maps.Copy(state.Budgets, protecting)
		state.Pods = append(state.Pods, pod)
	}
	return state
}
