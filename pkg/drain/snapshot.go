package drain

import (
	"cmp"
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
	nodes   map[string][]seenPod
	budgets map[string][]seenBudget  // by namespace
	starts  map[string]time.Duration // by the owner of pods: how long one took until it was Ready, at the shortest
}

// seenPod is a pod of a Snapshot.
type seenPod struct {
	Pod
	labels         labels.Set
	ignoresBudgets bool
	owner          string        // empty if nothing replaces it
	waitsForEnd    bool          // its replacement is created only when it has gone
	preStop        time.Duration // how long it stops at least
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
	s := &Snapshot{
		nodes: map[string][]seenPod{}, budgets: map[string][]seenBudget{},
		starts: map[string]time.Duration{},
	}
	s.rules, err = newRules(Policy{cfg, tiers}, Environment{Taint: taint})
	return s, err
}

// Timeout is how long a drain may take if nothing else bounds it.
func (s *Snapshot) Timeout() time.Duration { return s.rules.Timeout }

// AddPod adds a pod with its node.
func (s *Snapshot) AddPod(p *corev1.Pod) {
	seen := seenPod{Pod: s.rules.pod(p), labels: p.Labels, ignoresBudgets: ignoresBudgets(p), preStop: preStopOf(p)}
	if owner := metav1.GetControllerOf(p); owner != nil {
		seen.owner, seen.waitsForEnd = ownerOf(p), owner.Kind == "StatefulSet"
		if took := startOf(p); took > 0 {
			known, ok := s.starts[seen.owner]
			if !ok || took < known {
				s.starts[seen.owner] = took
			}
		}
	}
	s.nodes[p.Spec.NodeName] = append(s.nodes[p.Spec.NodeName], seen)
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

// budgetsOf returns those that protect the pod, by name.
func (s *Snapshot) budgetsOf(p seenPod) map[string]Budget {
	found := map[string]Budget{}
	if p.StayReason != "" || p.ignoresBudgets {
		return found
	}
	for _, b := range s.budgets[p.Namespace] {
		if b.selects.Matches(p.labels) {
			found[b.name] = b.budget
		}
	}
	return found
}

// state is what a drain of the node that begins at the time would decide from first.
func (s *Snapshot) state(node string, since time.Time) State {
	state := State{Since: since, Started: since, Budgets: map[string]Budget{}, TierSince: map[int]time.Time{}}
	for _, p := range s.nodes[node] {
		protecting := s.budgetsOf(p)
		pod := p.Pod
		pod.Budgets = slices.Sorted(maps.Keys(protecting))
		maps.Copy(state.Budgets, protecting)
		state.Pods = append(state.Pods, pod)
	}
	return state
}

// unknownStart is how long a new pod takes until it is Ready if none of its owner says.
const unknownStart = 30 * time.Second

// startOf returns how long the pod took until it was Ready, as its conditions say; 0 if they do not. A pod whose
// containers have restarted was Ready earlier than they say.
func startOf(p *corev1.Pod) time.Duration {
	for _, c := range p.Status.ContainerStatuses {
		if c.RestartCount > 0 {
			return 0
		}
	}
	ready := conditionOf(p, corev1.PodReady)
	if ready.Status != corev1.ConditionTrue {
		return 0
	}
	return max(ready.LastTransitionTime.Sub(p.CreationTimestamp.Time), time.Second)
}

// preStopOf returns how long the preStop hooks of the pod sleep.
func preStopOf(p *corev1.Pod) (longest time.Duration) {
	for _, c := range slices.Concat(p.Spec.Containers, p.Spec.InitContainers) {
		if c.Lifecycle != nil && c.Lifecycle.PreStop != nil && c.Lifecycle.PreStop.Sleep != nil {
			longest = max(longest, time.Duration(c.Lifecycle.PreStop.Sleep.Seconds)*time.Second)
		}
	}
	return longest
}

// startsIn returns how long the replacement of the pod takes until it is Ready.
func (s *Snapshot) startsIn(p seenPod) time.Duration { return cmp.Or(s.starts[p.owner], unknownStart) }
