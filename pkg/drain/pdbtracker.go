package drain

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	informers "k8s.io/client-go/informers/policy/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// pdbTracker knows what every PodDisruptionBudget of the cluster allows: what the watch shows, less what
// drains have used since.
type pdbTracker struct {
	informer cache.SharedIndexInformer
	listed   cache.ResourceEventHandlerRegistration // has synced when pdbs holds what was listed first

	mu         sync.RWMutex
	pdbs       map[string]map[string]*trackedPDB // by namespace and name
	generation atomic.Int64                      // changes whenever other budgets may select a pod
}

func newPDBTracker(client kubernetes.Interface) (*pdbTracker, error) {
	p := &pdbTracker{pdbs: map[string]map[string]*trackedPDB{}}
	p.informer = informers.NewFilteredPodDisruptionBudgetInformer(
		client, metav1.NamespaceAll, 0, cache.Indexers{}, nil)
	var err error
	p.listed, err = setUp(p.informer, "PodDisruptionBudgets", trimBudget, cache.ResourceEventHandlerFuncs{
		AddFunc: p.update, UpdateFunc: func(_, obj any) { p.update(obj) }, DeleteFunc: p.delete,
	})
	return p, err
}

// update takes over what the watch shows.
func (p *pdbTracker) update(obj any) {
	pdb, ok := obj.(*policyv1.PodDisruptionBudget)
	if !ok {
		return
	}
	b := budgetOf(pdb)
	t := p.find(pdb.Namespace + "/" + pdb.Name)
	if t == nil {
		t = newTrackedPDB(b)
	}
	t.show(b, pdb.Status.DisruptedPods, p.selectBy(t, pdb))
}

// selectBy takes over the selector of a budget, which may be new, and reports whether it may select other pods than
// before.
func (p *pdbTracker) selectBy(t *trackedPDB, pdb *policyv1.PodDisruptionBudget) (selectsOthers bool) {
	selects, err := metav1.LabelSelectorAsSelector(pdb.Spec.Selector)
	if err != nil {
		selects = labels.Nothing() // the API server admits no such selector
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if t.selects != nil && t.selects.String() == selects.String() {
		return false
	}
	if p.pdbs[pdb.Namespace] == nil {
		p.pdbs[pdb.Namespace] = map[string]*trackedPDB{}
	}
	t.selects, p.pdbs[pdb.Namespace][pdb.Name] = selects, t
	p.generation.Add(1)
	return true
}

func (p *pdbTracker) delete(obj any) {
	pdb, ok := deleted[*policyv1.PodDisruptionBudget](obj)
	if !ok {
		return
	}
	p.mu.Lock()
	t := p.pdbs[pdb.Namespace][pdb.Name]
	delete(p.pdbs[pdb.Namespace], pdb.Name)
	if len(p.pdbs[pdb.Namespace]) == 0 {
		delete(p.pdbs, pdb.Namespace)
	}
	p.generation.Add(1)
	p.mu.Unlock()
	if t != nil {
		t.remove()
	}
}

// budgetsOf returns the budgets that select a pod of the namespace with these labels, sorted. The result holds for as
// long as the generation is the same.
func (p *pdbTracker) budgetsOf(namespace string, podLabels map[string]string) []string {
	p.mu.RLock()
	defer p.mu.RUnlock()
	var names []string
	for name, t := range p.pdbs[namespace] {
		if t.selects.Matches(labels.Set(podLabels)) {
			names = append(names, namespace+"/"+name)
		}
	}
	slices.Sort(names)
	return names
}

// find returns the budget, NAMESPACE/NAME; nil if there is none. It was deleted then, and protects nothing.
func (p *pdbTracker) find(name string) *trackedPDB {
	namespace, short, _ := strings.Cut(name, "/")
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.pdbs[namespace][short]
}

// startLast starts the last eviction of a pod, unless its budget allows none now.
func (p *pdbTracker) startLast(removal *Removal, start func() bool) {
	if t := p.find(removal.Budget); t != nil {
		t.startLast(removal.Pod.Name, start)
	} else {
		start()
	}
}

// startForced starts the deletion of a pod, which needs no permission of the budgets, and records that it disrupts
// them. It starts no early one while another disruption is not visible yet: two drains that decide at the same
// instant do not see each other's.
func (p *pdbTracker) startForced(removal *Removal, start func() bool) {
	var budgets []*trackedPDB
	defer func() {
		for _, t := range budgets {
			t.mu.Unlock()
		}
	}()
	isStale := false
	for _, name := range removal.disrupts() { // sorted, so that two drains do not wait for each other
		if t := p.find(name); t != nil {
			t.mu.Lock()
			budgets = append(budgets, t)
			isStale = isStale || !t.staleUntil().IsZero()
		}
	}
	if isStale && removal.Kind == EarlyDeletion || !start() {
		return
	}
	for _, t := range budgets {
		t.reserved[removal.Pod.Name] = time.Now().Add(2 * writeTimeout)
	}
}

// budgetOf returns the budget as the watch shows it.
func budgetOf(pdb *policyv1.PodDisruptionBudget) Budget {
	policy := pdb.Spec.UnhealthyPodEvictionPolicy
	b := Budget{
		Allowed: int(pdb.Status.DisruptionsAllowed), Healthy: int(pdb.Status.CurrentHealthy),
		Desired: int(pdb.Status.DesiredHealthy), Expected: int(pdb.Status.ExpectedPods),
		AlwaysAllow: policy != nil && *policy == policyv1.AlwaysAllow,
		Operated:    isOperated(pdb),
	}
	for _, c := range pdb.Status.Conditions {
		if c.Type == policyv1.DisruptionAllowedCondition && c.Reason == policyv1.SyncFailedReason {
			b.SyncFailed = cmp.Or(c.Message, c.Reason)
		}
	}
	return b
}

// isOperated reports whether an operator maintains the budget: an object owns it, or, since Zalando's operator for
// PostgreSQL sets no owner, it selects by the role that this operator gives to pods
// (https://postgres-operator.readthedocs.io/en/latest/administrator/#administrator-guide).
func isOperated(pdb *policyv1.PodDisruptionBudget) bool {
	if len(pdb.OwnerReferences) > 0 {
		return true
	}
	if pdb.Spec.Selector == nil {
		return false
	}
	_, byRole := pdb.Spec.Selector.MatchLabels["spilo-role"]
	return byRole
}

// trimBudget is the informer's transform: it keeps only what this package reads, to save memory.
func trimBudget(obj any) (any, error) {
	pdb, ok := obj.(*policyv1.PodDisruptionBudget)
	if !ok {
		return obj, nil
	}
	status := pdb.Status
	status.Conditions = slices.DeleteFunc(slices.Clone(status.Conditions), func(c metav1.Condition) bool {
		return c.Reason != policyv1.SyncFailedReason
	})
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pdb.Namespace, Name: pdb.Name, UID: pdb.UID, ResourceVersion: pdb.ResourceVersion,
			OwnerReferences: pdb.OwnerReferences,
		},
		Spec: policyv1.PodDisruptionBudgetSpec{
			Selector: pdb.Spec.Selector, UnhealthyPodEvictionPolicy: pdb.Spec.UnhealthyPodEvictionPolicy,
		},
		Status: status,
	}, nil
}
