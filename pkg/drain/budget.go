package drain

import (
	"fmt"
	"math/rand/v2"
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

const (
	// pdbUpdateTimeout is how long a disruption that the API server has accepted is counted if the watch does not
	// show it: it always does, unless it is broken.
	pdbUpdateTimeout = 5 * time.Second
	// firstProbe and lastAsk bound the pause before a budget that allows nothing, as the watch has it, is asked
	// nevertheless: the long one if the watch says so, and the short one, which doubles with each refusal, if
	// the watch said otherwise. Either begins anew when the watch brings news.
	firstProbe, lastProbe = 100 * time.Millisecond, 2 * time.Minute
)

// pdbTracker keeps account of every PodDisruptionBudget of the cluster: what the watch shows, less what drains
// have taken since, given to the drain whose deadline comes first.
type pdbTracker struct {
	informer cache.SharedIndexInformer
	seen     cache.ResourceEventHandlerRegistration // has synced when accounts holds what was listed first

	mu         sync.Mutex
	pdbs       map[string]map[string]*trackedPDB // by namespace and name
	generation atomic.Int64                      // changes whenever another budget may select a pod
}

// trackedPDB is one PodDisruptionBudget.
type trackedPDB struct {
	selects labels.Selector
	budget  Budget               // as the watch shows it; SettlesAt and AskAt are made on demand
	taken   map[string]time.Time // by pod: disruptions that the watch does not show, and how long they count
	claims  map[*run]claim       // of the drains that want to know of changes
	held    map[*run]int         // how many pods of each drain it holds, also if it will never let them go
	askAt   time.Time
	asked   int    // refusals since the last news that the watch did not foretell
	asking  string // the pod whose eviction is under way
}

// claim is what a drain wants of a budget.
type claim struct {
	pods    int  // that wait for it
	looking bool // it has read the budget, and has yet to say how many wait
}

func newPDBTracker(client kubernetes.Interface) (*pdbTracker, error) {
	l := &pdbTracker{pdbs: map[string]map[string]*trackedPDB{}}
	l.informer = informers.NewFilteredPodDisruptionBudgetInformer(
		client, metav1.NamespaceAll, 0, cache.Indexers{}, nil)
	if err := l.informer.SetTransform(trimBudget); err != nil {
		return nil, fmt.Errorf("watch PodDisruptionBudgets: %w", err)
	}
	var err error
	l.seen, err = l.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    l.update,
		UpdateFunc: func(_, obj any) { l.update(obj) },
		DeleteFunc: l.delete,
	})
	if err != nil {
		return nil, fmt.Errorf("watch PodDisruptionBudgets: %w", err)
	}
	return l, nil
}

func (l *pdbTracker) update(obj any) {
	pdb, ok := obj.(*policyv1.PodDisruptionBudget)
	if !ok {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pdbs[pdb.Namespace] == nil {
		l.pdbs[pdb.Namespace] = map[string]*trackedPDB{}
	}
	a := l.pdbs[pdb.Namespace][pdb.Name]
	if a == nil {
		a = &trackedPDB{taken: map[string]time.Time{}, claims: map[*run]claim{}, held: map[*run]int{}}
		l.pdbs[pdb.Namespace][pdb.Name] = a
	}
	before := a.budget
	switch reselects := a.show(pdb); {
	case reselects:
		l.generation.Add(1)
		a.wakeAll()
	case a.budget.mood() != before.mood():
		a.wakeAll()
	default:
		a.wake()
	}
}

// show takes over what the watch shows, and tells whether the budget may select other pods than before.
func (a *trackedPDB) show(pdb *policyv1.PodDisruptionBudget) (reselects bool) {
	selects, err := metav1.LabelSelectorAsSelector(pdb.Spec.Selector)
	if err != nil {
		selects = labels.Nothing() // the API server admits no such selector
	}
	reselects = a.selects == nil || a.selects.String() != selects.String()
	a.selects = selects
	policy := pdb.Spec.UnhealthyPodEvictionPolicy
	a.budget = Budget{
		Allowed: int(pdb.Status.DisruptionsAllowed), Healthy: int(pdb.Status.CurrentHealthy),
		Desired: int(pdb.Status.DesiredHealthy), Expected: int(pdb.Status.ExpectedPods),
		AlwaysAllow: policy != nil && *policy == policyv1.AlwaysAllow,
	}
	for pod := range pdb.Status.DisruptedPods {
		delete(a.taken, pod)
	}
	a.asked, a.askAt = 0, time.Now().Add(jittered(lastProbe))
	return reselects
}

func (l *pdbTracker) delete(obj any) {
	if last, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = last.Obj
	}
	pdb, ok := obj.(*policyv1.PodDisruptionBudget)
	if !ok {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if a := l.pdbs[pdb.Namespace][pdb.Name]; a != nil {
		a.wakeAll()
	}
	delete(l.pdbs[pdb.Namespace], pdb.Name)
	if len(l.pdbs[pdb.Namespace]) == 0 {
		delete(l.pdbs, pdb.Namespace)
	}
	l.generation.Add(1)
}

// wakeAll has every drain look again that wants something of the budget.
func (a *trackedPDB) wakeAll() {
	for r := range a.claims {
		r.wakeUp()
	}
}

// wake has those drains look again whose turn it is to take what the budget allows. One by one, for if each
// change of a budget woke all that wait for it, a burst of drains would look as often as its square. Those
// that are looking now have seen what is no longer so.
func (a *trackedPDB) wake() {
	var line []*run
	for r, c := range a.claims {
		switch {
		case c.looking:
			r.wakeUp()
		case c.pods > 0:
			line = append(line, r)
		}
	}
	if len(line) > 0 && a.asking == "" && a.budget.Allowed > a.pending(time.Now()) {
		slices.MinFunc(line, (*run).turn).wakeUp()
	}
}

// budgetsOf names the budgets that select a pod of the namespace with these labels. The names hold for as
// long as the edition is the same.
func (l *pdbTracker) budgetsOf(namespace string, podLabels map[string]string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var names []string
	for name, a := range l.pdbs[namespace] {
		if a.selects.Matches(labels.Set(podLabels)) {
			names = append(names, namespace+"/"+name)
		}
	}
	return names
}

// budget returns the budget as it is for one drain: what it allows is what the watch shows, less what the watch
// has yet to show and what drains whose deadline comes first wait for. From then on the drain is woken by
// whatever happens to the budget, until it says with await how many of its pods wait.
func (l *pdbTracker) budget(name string, r *run) (Budget, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.find(name)
	if a == nil {
		return Budget{}, false
	}
	a.claims[r] = claim{pods: a.claims[r].pods, looking: true}
	b := a.budget
	b.Allowed -= a.pending(time.Now())
	for other, c := range a.claims {
		if c.pods > 0 && other.turn(r) < 0 {
			b.Allowed -= c.pods
		}
	}
	for _, until := range a.taken {
		if until.After(b.StaleUntil) {
			b.StaleUntil = until
		}
	}
	for other, pods := range a.held {
		if r.turn(other) < 0 {
			b.PodsOnLaterNodes += pods
		}
	}
	b.ProbeAt, b.EvictionInFlight = a.askAt, a.asking != ""
	return b, true
}

// pending counts the disruptions that the watch does not show yet, and forgets those that it should have
// shown long ago.
func (a *trackedPDB) pending(now time.Time) int {
	for pod, until := range a.taken {
		if !now.Before(until) {
			delete(a.taken, pod)
		}
	}
	return len(a.taken)
}

// reserve reserves a disruption for the pod, if the budget allows one, or is to be asked nevertheless. Whoever
// takes must settle.
func (l *pdbTracker) reserve(name, pod string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.find(name)
	if a == nil {
		return true // it has gone, and protects nothing
	}
	now := time.Now()
	if a.asking != "" {
		return false
	}
	if a.budget.Allowed-a.pending(now) <= 0 {
		if now.Before(a.askAt) {
			return false
		}
		a.askAt = now.Add(2 * callTimeout)
	}
	a.taken[pod], a.asking = now.Add(2*callTimeout), pod
	return true
}

// reserveForced notes a disruption that no budget was asked for. If it is early, and could wait, it is not to be as
// long as another one is under way: what two drains decide at one instant, neither of them has seen.
func (l *pdbTracker) reserveForced(names []string, pod string, early bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	for _, name := range names {
		if a := l.find(name); early && a != nil && a.pending(now) > 0 {
			return false
		}
	}
	for _, name := range names {
		if a := l.find(name); a != nil {
			a.taken[pod] = now.Add(2 * callTimeout)
		}
	}
	return true
}

// release says what came of a disruption that was taken, or forced.
func (l *pdbTracker) release(name, pod string, outcome Outcome) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.find(name)
	if a == nil {
		return
	}
	now := time.Now()
	if a.asking == pod {
		a.asking = ""
		defer a.wake()
	}
	switch outcome {
	case Accepted:
		if _, unseen := a.taken[pod]; unseen {
			a.taken[pod] = now.Add(pdbUpdateTimeout)
			time.AfterFunc(pdbUpdateTimeout, func() {
				l.mu.Lock()
				defer l.mu.Unlock()
				a.wake()
			})
		}
		return
	case Forced:
		a.taken[pod] = now.Add(terminationLag) // it never shows among the disrupted pods, but in how many are healthy
		return
	case Blocked:
		a.refuse(now)
	}
	delete(a.taken, pod)
	a.wake()
}

// refuse takes over that the API server allows nothing now. If the watch had it otherwise, it is behind: the
// API server is asked again soon, and then ever later, until there is news. If both agree, nothing is new.
func (a *trackedPDB) refuse(now time.Time) {
	pause := lastProbe
	if a.budget.Allowed > 0 || a.asked > 0 {
		pause = min(firstProbe<<min(a.asked, 20), lastProbe)
		a.asked++
	}
	a.budget.Allowed = 0
	a.askAt = now.Add(jittered(pause))
}

// setDemand says what a drain wants of each budget that it has read; of those that it leaves out it no longer
// wants to know.
func (l *pdbTracker) setDemand(r *run, looked map[string]struct{}, d demand) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name := range looked {
		if a := l.find(name); a != nil {
			pods, wanted := d.wants[name]
			a.claim(r, pods, wanted)
			a.line(r, d.held[name])
		}
	}
}

// claim notes how many pods of a drain wait. What it no longer claims, others get.
func (a *trackedPDB) claim(r *run, pods int, wanted bool) {
	before := a.claims[r].pods
	if delete(a.claims, r); wanted {
		a.claims[r] = claim{pods: pods}
	}
	if pods < before && a.budget.Allowed > len(a.taken) {
		a.wake()
	}
}

// line notes how many pods of a drain the budget holds. They have turns when the deadline forces it; those of
// earlier drains come first, which is why these must look again if there are more.
func (a *trackedPDB) line(r *run, held int) {
	more := held > a.held[r]
	if a.held[r] = held; held == 0 {
		delete(a.held, r)
	}
	for other := range a.claims {
		if more && other.turn(r) < 0 {
			other.wakeUp()
		}
	}
}

func (l *pdbTracker) find(name string) *trackedPDB {
	namespace, short, _ := strings.Cut(name, "/")
	return l.pdbs[namespace][short]
}

// jittered spreads what would otherwise come at once.
func jittered(d time.Duration) time.Duration {
	return d + rand.N(d/4) //nolint:gosec // spreads requests, keeps no secret
}

// trimBudget keeps of a PodDisruptionBudget what this package reads.
func trimBudget(obj any) (any, error) {
	pdb, ok := obj.(*policyv1.PodDisruptionBudget)
	if !ok {
		return obj, nil
	}
	status := pdb.Status
	status.Conditions = nil
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pdb.Namespace, Name: pdb.Name, UID: pdb.UID, ResourceVersion: pdb.ResourceVersion,
		},
		Spec: policyv1.PodDisruptionBudgetSpec{
			Selector: pdb.Spec.Selector, UnhealthyPodEvictionPolicy: pdb.Spec.UnhealthyPodEvictionPolicy,
		},
		Status: status,
	}, nil
}
