package drain

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	informers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/tools/cache"
)

// run is one drain: the watch of a node's pods, and what has been tried so far.
type run struct {
	*Drainer
	Target
	began   time.Time
	pods    cache.SharedIndexInformer
	changed chan struct{} // something may have become possible
	again   time.Time     // look again by then, whatever the step says; zero is not set
	// deadline is the Target's, or a tighter one. Only the drain itself changes it, under the ledger's lock.
	deadline time.Time
	emptyAt  time.Time // when no pod was left that is worth waiting for
	proofs

	protected map[string]protection // by UID
	bound     map[string]string     // the volume of a claim, by NAMESPACE/NAME
	looked    map[string]struct{}   // the budgets whose accounts were read
	seen      map[string]struct{}   // the pods that had to leave, by UID
	waiting   map[string]*patience  // what a pod waits for, by UID
	told      Progress
	toldAt    time.Time

	stop    context.CancelFunc
	workers sync.WaitGroup
	mu      sync.Mutex
	tries   map[string]Try // by UID
	forced  map[string]struct{}
	doubt   bool // the API server has said that a pod is gone which the watch may show
}

// protection is what protects a pod, as of an edition of the ledger.
type protection struct {
	edition int64
	pod     *record
	names   []string
}

// begin watches the pods of the node, and returns when they have been listed once, and the budgets as well if
// that does not take too long.
func (d *Drainer) begin(ctx context.Context, t Target) (*run, error) {
	r := &run{
		Drainer: d, Target: t, deadline: t.Deadline, began: time.Now(), changed: make(chan struct{}, 1),
		protected: map[string]protection{}, bound: map[string]string{}, seen: map[string]struct{}{},
		looked: map[string]struct{}{}, waiting: map[string]*patience{}, tries: map[string]Try{},
		forced: map[string]struct{}{}, proofs: proofs{late: map[string]*record{}, gone: map[string]struct{}{}},
	}
	r.pods = informers.NewFilteredPodInformer(d.client, metav1.NamespaceAll, 0, cache.Indexers{},
		func(o *metav1.ListOptions) { o.FieldSelector = onNode(t.Name) })
	if err := r.pods.SetTransform(d.rules.transform); err != nil {
		return nil, fmt.Errorf("watch the pods of node %s: %w", t.Name, err)
	}
	_, err := r.pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { r.wakeUp() },
		UpdateFunc: func(before, now any) {
			if !same(before, now) {
				r.wakeUp()
			}
		},
		DeleteFunc: func(any) { r.wakeUp() },
	})
	if err != nil {
		return nil, fmt.Errorf("watch the pods of node %s: %w", t.Name, err)
	}
	watching, stop := context.WithCancel(ctx)
	r.stop = stop
	r.workers.Go(func() { r.pods.RunWithContext(watching) })
	r.volumes.subscribe(r)
	if !cache.WaitFor(ctx, "", r.pods.HasSyncedChecker()) {
		r.end()
		return nil, context.Cause(ctx)
	}
	if err := r.learnBudgets(watching); err != nil {
		r.end()
		return nil, err
	}
	return r, nil
}

// unlisted is the part of the time until the first pod's last call for which the PodDisruptionBudgets may
// stay unlisted. Then the drain begins without them: the API server knows them, and guards every eviction.
const unlisted = 10

// learnBudgets returns when the PodDisruptionBudgets have been listed once, or no more time is left for that.
func (r *run) learnBudgets(ctx context.Context) error {
	listed := r.ledger.seen.HasSyncedChecker()
	r.workers.Go(func() {
		if cache.WaitFor(ctx, "", listed) {
			r.wakeUp()
		}
	})
	for !cache.IsDone(listed) {
		first := r.firstCall()
		until := r.began.Add(first.Sub(r.began) / unlisted)
		if first.IsZero() || !time.Now().Before(until) {
			return nil
		}
		if err := r.wait(ctx, until); err != nil {
			return err
		}
	}
	return nil
}

// firstCall is the earliest last call of the pods, or the deadline; zero if no pod must leave.
func (r *run) firstCall() (first time.Time) {
	d := decision{State: State{Since: r.Since}, deadline: r.deadline, policy: r.policy}
	for _, kept := range r.watched() {
		if kept.pod.StayReason != "" {
			continue
		}
		if first.IsZero() {
			first = d.deadline
		}
		if last := d.lastCall(kept.pod); !last.IsZero() && last.Before(first) {
			first = last
		}
	}
	return first
}

func (r *run) end() {
	r.stop()
	r.ledger.setDemand(r, r.looked, demand{})
	r.volumes.unsubscribe(r)
	r.workers.Wait()
}

func onNode(node string) string { return fields.OneTermEqualSelector("spec.nodeName", node).String() }

func (r *run) wakeUp() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// tighten brings the deadline forward. Other drains compare theirs with it, under the ledger's lock.
func (r *run) tighten(deadline time.Time) {
	r.ledger.mu.Lock()
	defer r.ledger.mu.Unlock()
	if deadline.Before(r.deadline) {
		r.deadline = deadline
	}
}

// target is what is drained, with the deadline of now.
func (r *run) target() Target {
	r.ledger.mu.Lock()
	defer r.ledger.mu.Unlock()
	t := r.Target
	t.Deadline = r.deadline
	return t
}

// turn is below zero if this drain is served before the other where both want the same.
func (r *run) turn(other *run) int {
	return cmp.Or(r.deadline.Compare(other.deadline), cmp.Compare(r.Name, other.Name))
}

// decide says what to do about these pods.
func (r *run) decide(ctx context.Context, records []*record) Step {
	s := State{Since: r.Since, Unreachable: r.rules.Unreachable(r.Name), EmptyAt: r.emptyAt, Budgets: map[string]Budget{}}
	present := make(map[string]struct{}, len(records))
	for _, kept := range records {
		pod := kept.pod
		if pod.StayReason == "" {
			present[pod.UID] = struct{}{}
			pod.Budgets = r.protecting(kept, s.Budgets)
		}
		s.Pods = append(s.Pods, pod)
	}
	r.recall(s.Pods, present)
	if len(present) == 0 || !r.emptyAt.IsZero() {
		s.Attached = r.freed(ctx)
	}
	step := Decide(s, time.Now(), r.deadline, r.policy)
	r.emptied(step)
	return step
}

// recall adds to the pods what has been tried, and forgets the pods that have gone.
func (r *run) recall(pods []Pod, present map[string]struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range pods {
		if pods[i].StayReason == "" {
			pods[i].Try = r.tries[pods[i].UID]
			r.seen[pods[i].UID] = struct{}{}
		}
	}
	for uid, try := range r.tries {
		// A pod that the watch does not show yet keeps what is under way about it.
		if _, ok := present[uid]; !ok && try.Last != Sent && !time.Now().Before(try.Next) {
			delete(r.tries, uid)
		}
	}
	forget(r.protected, present)
	forget(r.waiting, present)
}

func forget[V, P any](m map[string]V, present map[string]P) {
	for uid := range m {
		if _, ok := present[uid]; !ok {
			delete(m, uid)
		}
	}
}

// protecting names the budgets of a pod, and reads their accounts into budgets.
func (r *run) protecting(kept *record, budgets map[string]Budget) []string {
	if kept.ignoresBudgets {
		return nil
	}
	p := r.protected[kept.pod.UID]
	if edition := r.ledger.generation.Load(); p.pod != kept || p.edition != edition {
		p = protection{edition, kept, r.ledger.budgetsOf(kept.Namespace, kept.Labels)}
		r.protected[kept.pod.UID] = p
	}
	var names []string
	for _, name := range p.names {
		if _, read := budgets[name]; !read {
			b, ok := r.ledger.budget(name, r)
			if !ok {
				continue // it has just gone
			}
			budgets[name] = b
			r.looked[name] = struct{}{}
		}
		names = append(names, name)
	}
	return names
}

// wait returns when something has changed, at the instant again at the latest.
func (r *run) wait(ctx context.Context, again time.Time) error {
	r.lookBy(again)
	var timer <-chan time.Time
	if !r.again.IsZero() {
		t := time.NewTimer(time.Until(r.again))
		defer t.Stop()
		timer = t.C
	}
	r.again = time.Time{}
	select {
	case <-r.changed:
		return nil
	case <-timer:
		return nil
	case deadline := <-r.Tighter:
		r.tighten(deadline)
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// lookBy has the drain look again at the instant at the latest; a zero one is none.
func (r *run) lookBy(t time.Time) {
	if !t.IsZero() && (r.again.IsZero() || t.Before(r.again)) {
		r.again = t
	}
}

// report is what the drain came to, when the last step is proven.
func (r *run) report(proof Step) Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	report := Report{Total: len(r.seen), Forced: len(r.forced), Took: time.Since(r.began)}
	for _, pod := range proof.Left {
		report.Left = append(report.Left, pod.Namespace+"/"+pod.Name)
	}
	slices.Sort(report.Left)
	if len(proof.Attached) > 0 {
		r.observer.VolumesStillAttached(r.target(), proof.Attached)
	}
	return report
}
