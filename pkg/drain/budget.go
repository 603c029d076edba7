package drain

import (
	"fmt"
	"sync"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	informers "k8s.io/client-go/informers/policy/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// budgets knows every PodDisruptionBudget of the cluster, by a watch, and wakes drains when one changes.
type budgets struct {
	informer cache.SharedIndexInformer
	seen     cache.ResourceEventHandlerRegistration // has synced when byNamespace holds what was listed first

	mu          sync.Mutex
	byNamespace map[string]map[string]budget
	wake        map[chan<- struct{}]struct{}
}

// budget is what is kept of a PodDisruptionBudget.
type budget struct {
	selects labels.Selector
	allowed int
}

func newBudgets(client kubernetes.Interface) (*budgets, error) {
	b := &budgets{byNamespace: map[string]map[string]budget{}, wake: map[chan<- struct{}]struct{}{}}
	b.informer = informers.NewFilteredPodDisruptionBudgetInformer(
		client, metav1.NamespaceAll, 0, cache.Indexers{}, nil)
	if err := b.informer.SetTransform(stripBudget); err != nil {
		return nil, fmt.Errorf("watch PodDisruptionBudgets: %w", err)
	}
	var err error
	b.seen, err = b.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    b.set,
		UpdateFunc: func(_, obj any) { b.set(obj) },
		DeleteFunc: b.remove,
	})
	if err != nil {
		return nil, fmt.Errorf("watch PodDisruptionBudgets: %w", err)
	}
	return b, nil
}

func (b *budgets) set(obj any) {
	pdb, ok := obj.(*policyv1.PodDisruptionBudget)
	if !ok {
		return
	}
	selects, err := metav1.LabelSelectorAsSelector(pdb.Spec.Selector)
	if err != nil {
		selects = labels.Nothing() // the API server admits no such selector
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.byNamespace[pdb.Namespace] == nil {
		b.byNamespace[pdb.Namespace] = map[string]budget{}
	}
	before, known := b.byNamespace[pdb.Namespace][pdb.Name]
	now := budget{selects, int(pdb.Status.DisruptionsAllowed)}
	b.byNamespace[pdb.Namespace][pdb.Name] = now
	if !known || now.allowed > before.allowed {
		b.wakeAll()
	}
}

func (b *budgets) remove(obj any) {
	if last, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = last.Obj
	}
	pdb, ok := obj.(*policyv1.PodDisruptionBudget)
	if !ok {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.byNamespace[pdb.Namespace], pdb.Name)
	if len(b.byNamespace[pdb.Namespace]) == 0 {
		delete(b.byNamespace, pdb.Namespace)
	}
	b.wakeAll()
}

// wakeAll wakes every drain; one that has been woken and has not looked yet needs no second call.
func (b *budgets) wakeAll() {
	for c := range b.wake {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// subscribe has c woken when a budget may allow more. The caller calls the function it gets to end that.
func (b *budgets) subscribe(c chan<- struct{}) (unsubscribe func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wake[c] = struct{}{}
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.wake, c)
	}
}

// protecting names the budgets that select a pod of the namespace with these labels, and notes in allowed
// what each allows now.
func (b *budgets) protecting(namespace string, podLabels map[string]string, allowed map[string]int) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var names []string
	for name, pdb := range b.byNamespace[namespace] {
		if pdb.selects.Matches(labels.Set(podLabels)) {
			key := namespace + "/" + name
			names = append(names, key)
			allowed[key] = pdb.allowed
		}
	}
	return names
}

// stripBudget keeps of a PodDisruptionBudget what this package reads.
func stripBudget(obj any) (any, error) {
	pdb, ok := obj.(*policyv1.PodDisruptionBudget)
	if !ok {
		return obj, nil
	}
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pdb.Namespace, Name: pdb.Name, UID: pdb.UID, ResourceVersion: pdb.ResourceVersion,
		},
		Spec:   policyv1.PodDisruptionBudgetSpec{Selector: pdb.Spec.Selector},
		Status: policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: pdb.Status.DisruptionsAllowed},
	}, nil
}
