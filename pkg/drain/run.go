package drain

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/node-drainer/node-drainer/internal/retry"
)

const (
	// budgetWait is the part of the time until the first deletion for which a drain waits for the list of
	// PodDisruptionBudgets. Then it starts without: the API server checks them for every eviction.
	budgetWait = 10
	// concurrentStarts is how many drains list their pods at the same time, each for no longer than longestStart.
	concurrentStarts, longestStart = 32, 5 * time.Second
	// taintUpdateTimeout is how long the watch of Nodes may take to show the taint.
	taintUpdateTimeout = time.Minute
)

// run is one drain of one node. Drainer.drain calls its methods in the order decide, act, relist, wait.
type run struct {
	drainer  *Drainer
	policy   Policy // the Drainer's, with what the target has in its place
	node     Target
	waiter   *waiter // with the deadline, which may be earlier than that of node
	pods     *podWatch
	removals *removals
	progress *progressReporter
	volumes  *nodeVolumes
	started  time.Time
	wakeAt   time.Time // when wait returns at the latest; zero if it is not set

	owners       *Owners
	lateSince    time.Time         // since when a pod that comes is late: the cordon, if the node could be cordoned
	tierSince    map[int]time.Time // when each tier has started for the first time
	grantedUntil time.Time         // when the last grace period ends that was granted before the deadline
	replaced     bool              // the API server has said that another Node has the name
	tainted      bool              // the watch has shown the taint
	deadSince    time.Time         // since when the drain knows that the kubelet is dead; zero if it is not
	controls     Controls
	expected     time.Time // when the drain ends by the forecast made as it began; zero without one

	selections  map[string]selection // of budgets, by UID of the pod
	budgetsRead map[string]struct{}  // whose changes wake this drain

	cancel, unsubscribe func() // end the watches of pods and of volumes
	workers             sync.WaitGroup
}

// errNoDeadline: without a deadline all pods would be deleted at once.
var errNoDeadline = errors.New("the node has no deadline to be drained by")

// selection is the budgets that select a pod, as of a generation of the pdbTracker.
type selection struct {
	generation int64
	pod        *record
	budgets    []string
}

func newRun(d *Drainer, t Target) (*run, error) {
	if t.Deadline.IsZero() {
		return nil, errNoDeadline
	}
	r := &run{
		drainer: d, policy: d.policy.of(t), node: t, started: time.Now(), cancel: func() {}, unsubscribe: func() {},
		waiter:     newWaiter(t),
		selections: map[string]selection{}, budgetsRead: map[string]struct{}{},
		owners: t.Earlier.clone(), tierSince: map[int]time.Time{},
		volumes: &nodeVolumes{tracker: d.volumes, drainer: d, node: t.Name, bound: map[string]string{}},
	}
	var err error
	if r.pods, err = newPodWatch(d, t.Name, r.waiter.wakeUp, r.observeBinding); err != nil {
		return nil, err
	}
	r.removals = &removals{
		drainer: d, target: r.target, wakeUp: r.waiter.wakeUp, pods: r.pods, started: r.started,
		tries: map[string]Try{}, seen: map[string]*history{}, forced: map[string]struct{}{},
		queued: map[string]context.CancelFunc{}, granted: map[string]time.Time{},
	}
	r.removals.handOvers = &handOvers{drainer: d, removals: r.removals, asked: map[string]*asked{}}
	r.progress = &progressReporter{
		observer: d.observer, target: r.target, policy: r.policy, waits: map[string]*podWait{},
		before: map[string]WaitCount{},
	}
	return r, nil
}

// begin is watch, but not for too many nodes at once: the API server refuses lists that are more than it can queue. The
// drain with the earliest deadline begins first.
func (r *run) begin(ctx context.Context) error {
	ending, end := context.WithDeadline(ctx, r.end())
	defer end()
	if r.drainer.starts.acquire(ending, r.waiter.deadline()) {
		release := sync.OnceFunc(r.drainer.starts.release)
		defer time.AfterFunc(longestStart, release).Stop()
		defer release()
	}
	return r.watch(ctx)
}

// watch watches the pods of the node, and returns when they have been listed once, and the budgets as well if
// that does not take too long; or at the end of the drain.
func (r *run) watch(ctx context.Context) error {
	watching, cancel := context.WithCancel(ctx)
	r.cancel = cancel
	r.workers.Go(func() { retry.Watch(watching, r.pods.informer) })
	r.unsubscribe = r.drainer.volumes.subscribe(r.waiter)
	listing, end := context.WithDeadline(ctx, r.end())
	defer end()
	if !cache.WaitFor(listing, "", r.pods.informer.HasSyncedChecker()) {
		return context.Cause(ctx) // nil if the drain is over
	}
	return r.awaitBudgets(watching)
}

// end is when the drain is over, whatever is left.
func (r *run) end() time.Time {
	t := schedule{deadline: r.waiter.deadline(), started: r.started, grantedUntil: r.grantedUntil}
	return t.end()
}

// stop ends the watch and the requests in flight, so that none outlives the drain: evictions have a moment to end by
// themselves. No budget starts another one.
func (r *run) stop(cancelRequests func()) {
	r.claim(nil)
	cancelRequests()
	r.cancel()
	r.unsubscribe()
	r.workers.Wait()
	r.removals.workers.Wait()
}

// awaitBudgets returns when the PodDisruptionBudgets have been listed once, or the time for that is over.
func (r *run) awaitBudgets(ctx context.Context) error {
	listed := r.drainer.pdbs.listed.HasSyncedChecker()
	r.workers.Go(func() {
		if cache.WaitFor(ctx, "", listed) {
			r.waiter.wakeUp()
		}
	})
	for !cache.IsDone(listed) {
		first := r.firstDeletion()
		until := r.started.Add(first.Sub(r.started) / budgetWait)
		if first.IsZero() || !time.Now().Before(until) {
			return nil
		}
		if err := r.wait(ctx, until); err != nil {
			return err
		}
	}
	return nil
}

// firstDeletion is the earliest of the pods' latest deletions, or the deadline; zero if no pod must leave.
func (r *run) firstDeletion() (first time.Time) {
	t := schedule{since: r.node.Since, deadline: r.waiter.deadline(), policy: r.policy}
	for _, rec := range r.pods.list() {
		if rec.pod.StayReason != "" {
			continue
		}
		if first.IsZero() {
			first = t.deadline
		}
		if latest := t.latestDeletion(rec.pod); !latest.IsZero() && latest.Before(first) {
			first = latest
		}
	}
	return first
}

// target is the node with its current deadline.
func (r *run) target() Target {
	t := r.node
	t.Deadline = r.waiter.deadline()
	return t
}

// decide returns the next step, given the pods on the node.
func (r *run) decide(ctx context.Context, records []*record) Step {
	r.readControls()
	s := State{
		HoldUntil: r.controls.HoldUntil, EndNow: r.controls.EndNow,
		Since: r.node.Since, Started: r.started, EmptyAt: r.volumes.emptyAt,
		Unreachable: r.drainer.rules.Unreachable(r.node.Name), DeadSince: r.observeKubelet(), TierSince: r.tierSince,
		Budgets: map[string]Budget{}, SchedulerWait: r.drainer.delay.wait(), TurnsTaken: map[string]bool{},
	}
	r.classify(records)
	leaving := make(map[string]struct{}, len(records))
	untainted, volumesAreIdle := r.isUntainted(), true
	for _, rec := range records {
		pod := rec.pod
		if rec.needsTaint && untainted {
			pod.StayReason = DaemonSet
		}
		if pod.StayReason == "" {
			r.owners.fill(&pod, r.policy)
		}
		if pod.StayReason == "" {
			leaving[pod.UID] = struct{}{}
			volumesAreIdle = volumesAreIdle && pod.Tier >= r.policy.volumeTier()
			pod.Budgets = r.budgetsOf(rec, s.Budgets)
			if pod.HandOver.Kind != "" || pod.HandOver.Starting {
				s.TurnsTaken[pod.Namespace] = r.drainer.turns.isTaken(pod.Namespace, r.waiter)
			}
		}
		s.Pods = append(s.Pods, pod)
	}
	r.removals.handOvers.fill(s.Pods, leaving)
	r.removals.fillTries(s.Pods, leaving)
	deleteMissing(r.selections, leaving)
	if volumesAreIdle || !r.volumes.emptyAt.IsZero() {
		s.Attached = r.volumes.attached(ctx, r.pods.claims())
	}
	s.GrantedUntil = r.removals.grantedUntil(leaving)
	r.grantedUntil = s.GrantedUntil
	r.foresee(s, records)
	step := Decide(s, time.Now(), r.waiter.deadline(), r.policy)
	r.volumes.setEmpty(step.Empty)
	if _, started := r.tierSince[step.Tier]; !started && len(step.Left) > 0 {
		r.tierSince[step.Tier] = time.Now()
		r.waiter.wakeUp() // what this tier waits for counts from now
	}
	return step
}

// classify tells pods that were on the node from those that came late.
func (r *run) classify(records []*record) {
	if r.lateSince.IsZero() {
		r.lateSince = r.node.Since
		if r.node.Untainted { // the API server has not answered until now
			r.lateSince = time.Now()
		}
	}
	t := schedule{since: r.node.Since, deadline: r.waiter.deadline()}
	r.owners.add(records, r.lateSince, t.since.Add(t.half()))
}

// isReplaced reports whether another Node has the name of the node that is drained.
func (r *run) isReplaced() bool {
	if r.replaced {
		return true
	}
	if r.drainer.rules.NodeUID == nil || r.node.UID == "" {
		return false
	}
	uid := r.drainer.rules.NodeUID(r.node.Name)
	return uid != "" && uid != r.node.UID
}

// endsUnverified reports whether the drain ends although the API server has not answered.
func (r *run) endsUnverified(ctx context.Context) bool {
	return r.isOver() && !r.replaced && ctx.Err() == nil
}

// isOver reports whether the drain ends now, whatever is left.
func (r *run) isOver() bool { return r.controls.EndNow || !time.Now().Before(r.end()) }

// observeKubelet returns since when the drain knows that the kubelet of the node is dead; zero if it is not.
func (r *run) observeKubelet() time.Time {
	switch dead := r.drainer.rules.Dead != nil && r.drainer.rules.Dead(r.node.Name); {
	case !dead:
		r.deadSince = time.Time{}
	case r.deadSince.IsZero():
		r.deadSince = time.Now()
	}
	return r.deadSince
}

// observeBinding observes how late the scheduler has bound a pod to the node. It observes nothing if the taint
// could not be written.
func (r *run) observeBinding(rec *record) {
	if rec.repelled && !r.node.Untainted {
		r.drainer.delay.observe(time.Since(r.node.Since))
	}
}

// isUntainted reports whether the node does not have the taint. The watch is believed from the start if the taint
// could not be written, and otherwise when it has shown it, or has had the time to.
func (r *run) isUntainted() bool {
	untainted := r.drainer.rules.Untainted(r.node.Name)
	r.tainted = r.tainted || !untainted
	isBehind := !r.node.Untainted && !r.tainted && time.Since(r.started) < taintUpdateTimeout
	return untainted && !isBehind
}

func deleteMissing[V, P any](m map[string]V, present map[string]P) {
	maps.DeleteFunc(m, func(uid string, _ V) bool { _, ok := present[uid]; return !ok })
}

// budgetsOf returns the names of the budgets that protect a pod, and reads them into budgets.
func (r *run) budgetsOf(rec *record, budgets map[string]Budget) []string {
	if rec.ignoresBudgets {
		return nil
	}
	pdbs := r.drainer.pdbs
	s := r.selections[rec.pod.UID]
	if generation := pdbs.generation.Load(); s.pod != rec || s.generation != generation {
		s = selection{generation, rec, pdbs.budgetsOf(rec.Namespace, rec.Labels)}
		r.selections[rec.pod.UID] = s
	}
	var names []string
	for _, name := range s.budgets {
		if _, read := budgets[name]; !read {
			t := pdbs.find(name)
			if t == nil {
				continue // it was deleted just now
			}
			budgets[name] = t.view(r.waiter)
			r.budgetsRead[name] = struct{}{}
		}
		names = append(names, name)
	}
	return names
}

// needsRelist reports whether the pods must be listed now: the drain seems to be over, or the watch is
// behind.
func (r *run) needsRelist(step Step) bool {
	if !step.Done && !r.pods.isBehind() {
		return false
	}
	if !r.isOver() && time.Now().Before(r.pods.nextList) {
		r.wakeBy(r.pods.nextList)
		return false
	}
	return true
}

// relist decides again by a fresh list from the API server. The error is ErrReplaced, or there was no answer.
func (r *run) relist(ctx context.Context) (step Step, err error) {
	records, err := r.pods.relist(ctx, r.end())
	if err == nil {
		step = r.decide(ctx, records)
		err = r.verifyNode(ctx, step)
	}
	if err != nil && !r.replaced && ctx.Err() == nil {
		r.drainer.observer.KubernetesFailed("verify that node "+r.node.Name+" is empty", err)
	}
	return step, err
}

// verifyNode asks the API server whether the Node is still there before a drain ends with pods that were put back: the
// watch of the Nodes may be behind, and nothing has kept pods away from one that has registered again.
func (r *run) verifyNode(ctx context.Context, step Step) error {
	if !step.Done || len(step.Returned) == 0 || r.node.UID == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	n, err := r.drainer.client.CoreV1().Nodes().Get(ctx, r.node.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err): // and so will be its pods
		return nil
	case err == nil && string(n.UID) != r.node.UID:
		r.replaced = true
		return ErrReplaced
	}
	return err
}

// wait returns when something has changed, and at the instant again at the latest. The error is the cause of
// ctx's end.
func (r *run) wait(ctx context.Context, again time.Time) error {
	r.wakeBy(again)
	var timer <-chan time.Time
	if !r.wakeAt.IsZero() {
		t := time.NewTimer(time.Until(r.wakeAt))
		defer t.Stop()
		timer = t.C
	}
	r.wakeAt = time.Time{}
	select {
	case <-r.waiter.changed:
		return nil
	case <-timer:
		return nil
	case deadline := <-r.node.Tighter:
		r.waiter.tighten(deadline)
		r.removals.requeue()
		r.removals.handOvers.cancel()
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// wakeBy makes the next wait return at t at the latest. A zero t is ignored.
func (r *run) wakeBy(t time.Time) {
	if !t.IsZero() && (r.wakeAt.IsZero() || t.Before(r.wakeAt)) {
		r.wakeAt = t
	}
}

// interrupted is what a drain has done that was canceled.
func (r *run) interrupted() Report { return r.soFar(Step{}) }

// soFar is what the drain has done by the step.
func (r *run) soFar(step Step) Report {
	report := r.removals.report(step)
	report.Took, report.Expected, report.Controls = time.Since(r.started), r.expectedLength(), r.controls
	return report
}

// report is the result of the drain, given its verified last step.
func (r *run) report(last Step) Report {
	report := r.soFar(last)
	report.Lost = last.Lost
	for _, pod := range last.Left {
		report.Left = append(report.Left, pod.Namespace+"/"+pod.Name)
	}
	slices.Sort(report.Left)
	report.Why, report.Returned, report.Owners = countLeft(last), last.Returned, r.owners
	if len(last.Attached) > 0 {
		r.drainer.observer.VolumesStillAttached(r.target(), last.Attached)
	}
	return report
}
