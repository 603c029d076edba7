package drain

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	informers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/tools/cache"
)

// run is one drain: the watch of a node's pods, and what has been tried so far.
type run struct {
	*Drainer
	node            string
	since, deadline time.Time
	began           time.Time
	pods            cache.SharedIndexInformer
	changed         chan struct{} // something may have become possible
	again           time.Time     // look again by then, whatever the step says; zero is not set

	stop    context.CancelFunc
	workers sync.WaitGroup
	release func()
	mu      sync.Mutex
	tries   map[string]Try // by UID
	seen    map[string]struct{}
	forced  map[string]struct{}
	told    Progress // zero, which names no node, before the first
}

// begin watches the pods of the node, and returns when they have been listed once.
func (d *Drainer) begin(ctx context.Context, node string, since, deadline time.Time) (*run, error) {
	r := &run{
		Drainer: d, node: node, since: since, deadline: deadline, began: time.Now(),
		changed: make(chan struct{}, 1),
		tries:   map[string]Try{}, seen: map[string]struct{}{}, forced: map[string]struct{}{},
	}
	r.pods = informers.NewFilteredPodInformer(d.client, metav1.NamespaceAll, 0, cache.Indexers{},
		func(o *metav1.ListOptions) { o.FieldSelector = onNode(node) })
	if err := r.pods.SetTransform(strip); err != nil {
		return nil, fmt.Errorf("watch the pods of node %s: %w", node, err)
	}
	_, err := r.pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { r.wakeUp() },
		UpdateFunc: func(any, any) { r.wakeUp() },
		DeleteFunc: func(any) { r.wakeUp() },
	})
	if err != nil {
		return nil, fmt.Errorf("watch the pods of node %s: %w", node, err)
	}
	watching, stop := context.WithCancel(ctx)
	r.stop = stop
	r.release = d.budgets.subscribe(r.changed)
	r.workers.Go(func() { r.pods.RunWithContext(watching) })
	if !cache.WaitFor(ctx, "", r.pods.HasSyncedChecker(), d.budgets.seen.HasSyncedChecker()) {
		r.end()
		return nil, context.Cause(ctx)
	}
	return r, nil
}

func (r *run) end() {
	r.stop()
	r.release()
	r.workers.Wait()
}

func onNode(node string) string { return fields.OneTermEqualSelector("spec.nodeName", node).String() }

func (r *run) wakeUp() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// state is what the watch shows, with what has been tried.
func (r *run) state() State {
	s := State{Since: r.since, Allowed: map[string]int{}}
	objs := r.pods.GetStore().List()
	r.mu.Lock()
	defer r.mu.Unlock()
	present := make(map[string]struct{}, len(objs))
	for _, obj := range objs {
		p, ok := obj.(*corev1.Pod)
		if !ok {
			continue
		}
		pod := toPod(p)
		if pod.Stays == "" {
			pod.Budgets = r.budgets.protecting(p.Namespace, p.Labels, s.Allowed)
			pod.Try = r.tries[pod.UID]
			r.seen[pod.UID] = struct{}{}
			present[pod.UID] = struct{}{}
		}
		s.Pods = append(s.Pods, pod)
	}
	for uid := range r.tries {
		if _, ok := present[uid]; !ok {
			delete(r.tries, uid)
		}
	}
	return s
}

// act starts what the step asks for. The answers of the API server come later, and wake the drain up.
func (r *run) act(ctx context.Context, step Step) {
	for _, removal := range step.Delete {
		r.start(ctx, removal, func() {
			err := r.delete(ctx, removal)
			outcome, why := forced(err)
			if outcome == Forced && r.noteForced(removal.Pod.UID) {
				r.observer.PodForced(r.node, removal.Pod, removal.Grace)
			}
			r.note(ctx, removal.Pod, outcome, why, err)
		})
	}
	for _, removal := range step.Evict {
		r.start(ctx, removal, func() {
			err := r.evict(ctx, removal)
			outcome, why := evicted(err)
			if err == nil {
				r.observer.PodEvicted(r.node, removal.Pod)
			}
			r.note(ctx, removal.Pod, outcome, why, err)
		})
	}
	for _, w := range step.Wait {
		if w.Reason == Budgeted && w.Pod.Try.Last == None {
			r.note(ctx, w.Pod, Blocked, w.Budget, nil)
		}
	}
}

// start runs send for the pod as soon as one of the cluster's slots is free. A goroutine lives as long as its
// request, never as long as a pod waits.
func (r *run) start(ctx context.Context, removal Removal, send func()) {
	r.mu.Lock()
	try := r.tries[removal.Pod.UID]
	try.Last, try.Next = Sent, time.Time{}
	r.tries[removal.Pod.UID] = try
	r.mu.Unlock()
	r.workers.Go(func() {
		select {
		case r.slots <- struct{}{}:
			defer func() { <-r.slots }()
			send()
		case <-ctx.Done():
		}
	})
}

func (r *run) noteForced(uid string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, before := r.forced[uid]
	r.forced[uid] = struct{}{}
	return !before
}

// note keeps the outcome of an attempt, tells what stands in the way when that is new, and wakes the drain
// up.
func (r *run) note(ctx context.Context, pod Pod, outcome Outcome, why string, err error) {
	if ctx.Err() != nil {
		return
	}
	r.mu.Lock()
	r.tries[pod.UID] = pod.next(outcome, why, err, time.Now())
	r.mu.Unlock()
	switch outcome {
	case Blocked:
		if pod.Try.Last != Blocked {
			r.observer.PodBlocked(r.node, pod, why)
		}
	case Deferred, Refused, Denied:
		r.observer.KubernetesFailed("remove pod "+pod.Namespace+"/"+pod.Name, err)
	}
	r.wakeUp()
}

// tell reports progress when it has changed.
func (r *run) tell(step Step) {
	r.mu.Lock()
	total := len(r.seen)
	r.mu.Unlock()
	p := Progress{Node: r.node, Total: total, Left: len(step.Left)}
	for _, w := range step.Wait {
		if w.Reason == Budgeted {
			p.Blocked++
		}
	}
	if p == r.told {
		return
	}
	r.told = p
	r.observer.DrainProgressed(p)
}

// prove asks the API server itself whether the drain is over. A node that has become empty within the settle
// time is looked at again after it.
func (r *run) prove(ctx context.Context, step Step) (bool, Report) {
	settled := r.since.Add(r.cfg.Settle)
	if r.deadline.Before(settled) {
		settled = r.deadline
	}
	if len(step.Left) == 0 && time.Now().Before(settled) {
		r.again = settled
		return false, Report{}
	}
	left, err := r.list(ctx, r.node)
	if err != nil {
		if ctx.Err() == nil {
			r.observer.KubernetesFailed("prove that node "+r.node+" is empty", err)
		}
		r.again = time.Now().Add(firstRetry)
		return false, Report{}
	}
	if len(left) > 0 && time.Now().Before(r.deadline) {
		r.again = time.Now().Add(firstRetry) // the watch is behind
		return false, Report{}
	}
	return true, r.report(left)
}

func (r *run) report(left []Pod) Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	report := Report{Total: len(r.seen), Forced: len(r.forced), Took: time.Since(r.began)}
	for _, pod := range left {
		report.Left = append(report.Left, pod.Namespace+"/"+pod.Name)
	}
	slices.Sort(report.Left)
	return report
}

// wait returns when something has changed, at the instant again at the latest.
func (r *run) wait(ctx context.Context, again time.Time) error {
	if !r.again.IsZero() && (again.IsZero() || r.again.Before(again)) {
		again = r.again
	}
	r.again = time.Time{}
	var timer <-chan time.Time
	if !again.IsZero() {
		t := time.NewTimer(time.Until(again))
		defer t.Stop()
		timer = t.C
	}
	select {
	case <-r.changed:
		return nil
	case <-timer:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
