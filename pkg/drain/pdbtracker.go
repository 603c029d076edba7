package drain

import (
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
// drains have used since. What is left goes to the drain with the earliest deadline.
type pdbTracker struct {
	informer cache.SharedIndexInformer
	listed   cache.ResourceEventHandlerRegistration // has synced when pdbs holds what was listed first

	mu         sync.Mutex
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

// update takes over what the watch shows, and wakes the drains that it matters to.
func (p *pdbTracker) update(obj any) {
	pdb, ok := obj.(*policyv1.PodDisruptionBudget)
	if !ok {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pdbs[pdb.Namespace] == nil {
		p.pdbs[pdb.Namespace] = map[string]*trackedPDB{}
	}
	t := p.pdbs[pdb.Namespace][pdb.Name]
	if t == nil {
		t = &trackedPDB{
			reserved: map[string]time.Time{}, demands: map[*waiter]demand{}, blocked: map[*waiter]int{},
		}
		p.pdbs[pdb.Namespace][pdb.Name] = t
	}
	before := t.budget.state()
	selectsOthers := t.update(pdb)
	if selectsOthers {
		p.generation.Add(1)
	}
	if selectsOthers || t.budget.state() != before {
		t.wakeAll()
	} else {
		t.wakeNext()
	}
}

func (p *pdbTracker) delete(obj any) {
	pdb, ok := deleted[*policyv1.PodDisruptionBudget](obj)
	if !ok {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if t := p.pdbs[pdb.Namespace][pdb.Name]; t != nil {
		t.wakeAll()
	}
	delete(p.pdbs[pdb.Namespace], pdb.Name)
	if len(p.pdbs[pdb.Namespace]) == 0 {
		delete(p.pdbs, pdb.Namespace)
	}
	p.generation.Add(1)
}

// budgetsOf returns the budgets that select a pod of the namespace with these labels. The result holds for as
// long as the generation is the same.
func (p *pdbTracker) budgetsOf(namespace string, podLabels map[string]string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var names []string
	for name, t := range p.pdbs[namespace] {
		if t.selects.Matches(labels.Set(podLabels)) {
			names = append(names, namespace+"/"+name)
		}
	}
	return names
}

// budget returns the budget as it is for one drain: less what the watch does not show yet, and less what
// drains with an earlier deadline wait for. Until the drain calls setDemand, every change of the budget wakes
// it.
func (p *pdbTracker) budget(name string, w *waiter) (Budget, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.find(name)
	if t == nil {
		return Budget{}, false
	}
	t.demands[w] = demand{pods: t.demands[w].pods, reading: true}
	b := t.budget
	b.Allowed -= t.reservations(time.Now())
	for other, d := range t.demands {
		if d.pods > 0 && other.compare(w) < 0 {
			b.Allowed -= d.pods
		}
	}
	for pod, until := range t.reserved {
		if until.After(b.StaleUntil) && (pod != t.asked || pod == t.inflight) {
			b.StaleUntil = until
		}
	}
	for other, pods := range t.blocked {
		if w.compare(other) < 0 {
			b.PodsOnLaterNodes += pods
		}
	}
	b.ProbeAt, b.EvictionInFlight, b.ReservedForCall = t.probeAt, t.inflight != "", t.reservedForCall()
	return b, true
}

// reserveForCall reserves a disruption for an eviction that follows a call, which ends by the given time. Meanwhile
// other pods are evicted, if the budget allows more. The reservation ends by itself if no eviction follows.
func (p *pdbTracker) reserveForCall(name, pod string, end time.Time) bool {
	if !p.reserve(name, pod, false) {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if t := p.find(name); t != nil {
		t.asked, t.inflight, t.reserved[pod] = pod, "", end.Add(writeTimeout)
		t.wakeNext()
	}
	return true
}

// startAfterCall records that the eviction is sent for which reserveForCall has reserved a disruption. It does not wait
// for another one in flight: no answer is used later than it was given.
func (p *pdbTracker) startAfterCall(name, pod string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.find(name)
	if t == nil || t.inflight != "" {
		return
	}
	t.inflight = pod
	if _, ok := t.reserved[pod]; ok { // else a last eviction has taken it
		t.reserved[pod] = time.Now().Add(2 * writeTimeout)
	}
}

// reserve reserves a disruption for the eviction of the pod, if the budget allows one or may be probed. The last
// eviction of a pod does not wait for one that is in flight, and takes the disruption that is reserved for a call.
// After a reservation the caller must call release.
func (p *pdbTracker) reserve(name, pod string, lastCall bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.find(name)
	if t == nil {
		return true // it was deleted, and protects nothing
	}
	now := time.Now()
	if t.inflight != "" && !lastCall {
		return false
	}
	if lastCall && t.budget.Allowed <= t.reservations(now) {
		delete(t.reserved, t.asked)
	}
	if t.budget.Allowed <= t.reservations(now) {
		if t.inflight != "" || now.Before(t.probeAt) {
			return false
		}
		t.probeAt = now.Add(2 * writeTimeout)
	}
	if t.asked == pod {
		t.asked = ""
	}
	t.reserved[pod], t.inflight = now.Add(2*writeTimeout), pod
	return true
}

// reserveForced records a disruption by a deletion, which needs no permission of the budgets. It refuses an
// early one while another disruption is not visible yet: two drains that decide at the same instant do not
// see each other's.
func (p *pdbTracker) reserveForced(names []string, pod string, early bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	for _, name := range names {
		if t := p.find(name); early && t != nil && t.reservations(now) > 0 {
			return false
		}
	}
	for _, name := range names {
		if t := p.find(name); t != nil {
			t.reserved[pod] = now.Add(2 * writeTimeout)
		}
	}
	return true
}

// release ends a reservation by the outcome of the removal. That of an accepted one is kept until the watch
// shows the disruption.
func (p *pdbTracker) release(name, pod string, outcome Outcome) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.find(name)
	if t == nil {
		return
	}
	now := time.Now()
	defer t.wakeNext()
	if t.inflight == pod {
		t.inflight = ""
	}
	switch outcome {
	case Accepted:
		if _, reserved := t.reserved[pod]; reserved {
			t.reserved[pod] = now.Add(pdbUpdateTimeout)
			time.AfterFunc(pdbUpdateTimeout, func() {
				p.mu.Lock()
				defer p.mu.Unlock()
				t.wakeNext()
			})
		}
		return
	case Forced:
		// A deletion is never listed in disruptedPods. It shows in the number of healthy pods only. Drains that
		// have read the longer reservation decide again: they may delete the next pod earlier.
		t.reserved[pod] = now.Add(terminationLag)
		t.wakeAll()
		return
	case Blocked:
		t.refused(now)
	}
	delete(t.reserved, pod)
}

// setDemand sets how many pods of the drain wait for each of the budgets in names, and how many each blocks.
// Changes of budgets that d.waiting does not name no longer wake the drain.
func (p *pdbTracker) setDemand(w *waiter, names map[string]struct{}, d demands) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name := range names {
		if t := p.find(name); t != nil {
			pods, wanted := d.waiting[name]
			t.setDemand(w, pods, wanted)
			t.setBlocked(w, d.blocked[name])
		}
	}
}

// pause gives up what the drain waits for until it decides again: another drain may use it meanwhile.
func (p *pdbTracker) pause(w *waiter, names map[string]struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name := range names {
		if t := p.find(name); t != nil {
			t.setDemand(w, 0, false)
		}
	}
}

// tighten brings the deadline of the drain forward.
func (p *pdbTracker) tighten(w *waiter, deadline time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if deadline.Before(w.deadline) {
		w.deadline = deadline
	}
}

// deadlineOf returns the deadline of the drain. The goroutine of the drain may read it without this.
func (p *pdbTracker) deadlineOf(w *waiter) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return w.deadline
}

func (p *pdbTracker) find(name string) *trackedPDB {
	namespace, short, _ := strings.Cut(name, "/")
	return p.pdbs[namespace][short]
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
