package drain

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/kubectl/pkg/util/podutils"

	"github.com/node-drainer/node-drainer/pkg/handover"
)

// A cluster is many nodes in virtual time, behind a client that serves list and watch by node, evicts as
// the API server does (k8s.io/kubernetes/pkg/registry/core/pod/storage/eviction.go), counts disruptions as the
// controller does (k8s.io/kubernetes/pkg/controller/disruption), and replaces evicted pods on other nodes. Its
// answers, watches and controller are as slow as the test says.
type cluster struct {
	*recorder
	t       *testing.T
	fake    *fake.Clientset // for what is neither a pod nor a budget
	rest    rest.Interface  // for evictions and deletions
	drainer *Drainer
	since   time.Time
	ctx     context.Context
	cancel  context.CancelCauseFunc

	// How long things take; none may change after launch.
	answers, watches, counts, starts, budgetLists func() time.Duration
	webhooks                                      func(verb string) time.Duration

	answer       func(verb string) error // to evictions and deletions, if not nil; the lock is held
	onList       func() error            // called when a list of pods has been made
	stale        *watch.FakeWatcher      // if not nil: what new watches of pods show
	podsNeverEnd bool                    // no kubelet reports the end of pods
	stopsAtOnce  bool                    // pods need a second of their grace periods
	taint        corev1.Taint            // of nodes that are being drained
	untainted    atomic.Bool             // the nodes do not have it
	ended        func(pod string)        // called when a pod has ended, if not nil
	// putBack returns the pod that its controller puts on the node when a pod is told to stop; nil: none.
	putBack func(*corev1.Pod) *corev1.Pod
	dead    atomic.Bool            // no kubelet answers
	nodeUID atomic.Pointer[string] // of all Nodes; nil: the UID of the target
	control atomic.Pointer[Controls]

	kinds     map[string]handover.Releaser // of hand-overs
	leaving   []string                     // nodes
	restarter handover.Releaser

	mu       sync.Mutex
	version  int
	pods     map[types.NamespacedName]*corev1.Pod
	apps     map[string]*app
	history  map[string][]watch.Event // by node, and of budgets by ""
	streams  map[string][]*stream
	requests []request
	reads    int // lists of pods, and watches
}

// app is pods that one PodDisruptionBudget protects.
type app struct {
	pdb       *policyv1.PodDisruptionBudget
	manual    bool                   // the test sets the status of the budget, not the controller
	pods      map[string]*corev1.Pod // on the nodes that are drained, by name
	elsewhere int                    // healthy pods on other nodes
	due       bool                   // the controller is to count
	least     int                    // how few were ever healthy
}

// request is an eviction or a deletion, when it was decided.
type request struct {
	verb, node, pod string
	grace           *int64 // in seconds
	after           time.Duration
	err             error
}

func constant(d time.Duration) func() time.Duration { return func() time.Duration { return d } }

func noDelay() time.Duration { return 0 }

func between(from, to time.Duration) func() time.Duration {
	return func() time.Duration { return from + rand.N(to-from) }
}

// newCluster returns a cluster with pods, with budgets whose status the test sets, and with other objects.
func newCluster(t *testing.T, objects ...runtime.Object) *cluster {
	c := &cluster{
		recorder: newRecorder(), t: t, fake: fake.NewClientset(), since: time.Now(), taint: ourTaint,
		answers: noDelay, watches: noDelay, counts: noDelay, starts: noDelay, budgetLists: noDelay,
		webhooks: func(string) time.Duration { return 0 },
		onList:   func() error { return nil },
		pods:     map[types.NamespacedName]*corev1.Pod{}, apps: map[string]*app{},
		history: map[string][]watch.Event{}, streams: map[string][]*stream{},
	}
	c.rest = realClient(t, c).CoreV1().RESTClient()
	for _, object := range objects {
		switch o := object.(type) {
		case *corev1.Pod:
			c.add(o)
		case *policyv1.PodDisruptionBudget:
			c.apps["web"] = &app{pdb: o, manual: true, pods: map[string]*corev1.Pod{}}
		default:
			if err := c.fake.Tracker().Add(o); err != nil {
				t.Fatal(err)
			}
		}
	}
	return c
}

// startCluster returns a cluster with a Drainer that has synced.
func startCluster(t *testing.T, cfg Config, objects ...runtime.Object) *cluster {
	t.Helper()
	c := newCluster(t, objects...)
	c.start(cfg)
	return c
}

// addBudget makes a PodDisruptionBudget over the pods of an app, so many of which run elsewhere.
func (c *cluster) addBudget(name string, desired, elsewhere int) {
	pdb := newPDB(0)
	pdb.Name, pdb.Spec.Selector.MatchLabels["app"] = name, name
	pdb.Status = policyv1.PodDisruptionBudgetStatus{DesiredHealthy: int32(desired)}
	c.apps[name] = &app{pods: map[string]*corev1.Pod{}, elsewhere: elsewhere, least: 1 << 20, pdb: pdb}
}

// addPod has a pod run on a node, for an app or, if that is empty, without a budget.
func (c *cluster) addPod(node, name, app string, changes ...func(*corev1.Pod)) {
	p := runningPod(name)
	p.Spec.NodeName, p.Labels = node, map[string]string{"app": app}
	for _, change := range changes {
		change(p)
	}
	c.add(p)
}

func (c *cluster) add(p *corev1.Pod) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.store(watch.Added, p)
}

func gracePeriod(seconds int64) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = &seconds }
}

// launch runs a Drainer.
func (c *cluster) launch(cfg Config) {
	c.t.Helper()
	c.mu.Lock()
	for _, a := range c.apps {
		c.count(a)
	}
	c.mu.Unlock()
	var err error
	env := Environment{
		Taint: c.taint, Unreachable: func(string) bool { return c.dead.Load() }, Dead: func(string) bool { return c.dead.Load() },
		NodeUID: func(node string) string {
			if uid := c.nodeUID.Load(); uid != nil {
				return *uid
			}
			return "uid-" + node
		},
		Untainted: func(string) bool { return c.untainted.Load() },
		Controls: func(string) Controls {
			if given := c.control.Load(); given != nil {
				return *given
			}
			return Controls{}
		},
		Kinds: c.kinds, Leaving: func() []string { return c.leaving }, Restarter: c.restarter,
	}
	if c.drainer, err = New(clusterClient{c.fake, c}, cfg, env, c); err != nil {
		c.t.Fatal(err)
	}
	c.ctx, c.cancel = context.WithCancelCause(c.t.Context())
	var running sync.WaitGroup
	running.Go(func() { c.drainer.Run(c.ctx) })
	c.t.Cleanup(func() {
		c.cancel(errors.New("the test has ended"))
		running.Wait()
	})
	synctest.Wait()
}

// start runs a Drainer, whose caches are full when it returns.
func (c *cluster) start(cfg Config) {
	c.t.Helper()
	c.launch(cfg)
	for !c.drainer.Synced() {
		elapse(time.Millisecond)
	}
	c.since = time.Now()
}

// store stores or deletes a pod, and publishes the event. The lock is held.
func (c *cluster) store(event watch.EventType, p *corev1.Pod) {
	c.version++
	p.ResourceVersion = strconv.Itoa(c.version)
	key := types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
	if c.pods[key] = p; event == watch.Deleted {
		delete(c.pods, key)
	}
	if a := c.apps[p.Labels["app"]]; a != nil {
		if a.pods[p.Name] = p; event == watch.Deleted {
			delete(a.pods, p.Name)
		}
		c.countSoon(a)
	}
	c.publish(p.Spec.NodeName, watch.Event{Type: event, Object: p})
}

func (c *cluster) publish(topic string, e watch.Event) {
	c.history[topic] = append(c.history[topic], e)
	for _, s := range c.streams[topic] {
		s.send(e)
	}
}

// countSoon has the controller count. The lock is held.
func (c *cluster) countSoon(a *app) {
	if a.due {
		return
	}
	a.due = true
	time.AfterFunc(c.counts(), func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		a.due = false
		c.count(a)
	})
}

// count is the controller's count of healthy pods.
func (c *cluster) count(a *app) {
	status := a.pdb.Status
	if a.manual {
		return
	}
	status.DisruptedPods = map[string]metav1.Time{}
	status.CurrentHealthy = int32(a.elsewhere)
	for name, p := range a.pods {
		at, disrupted := a.pdb.Status.DisruptedPods[name]
		switch {
		case p.DeletionTimestamp != nil:
		case disrupted:
			status.DisruptedPods[name] = at
		case podutils.IsPodReady(p):
			status.CurrentHealthy++
		}
	}
	status.ExpectedPods = max(status.ExpectedPods, int32(a.elsewhere+len(a.pods)))
	status.DisruptionsAllowed = max(status.CurrentHealthy-status.DesiredHealthy, 0)
	a.least = min(a.least, int(status.CurrentHealthy))
	c.write(a, status)
}

func (c *cluster) write(a *app, status policyv1.PodDisruptionBudgetStatus) {
	c.version++
	pdb := a.pdb.DeepCopy()
	pdb.Status, pdb.ResourceVersion = status, strconv.Itoa(c.version)
	kind := watch.Modified
	if a.pdb.ResourceVersion == "" {
		kind = watch.Added
	}
	a.pdb = pdb
	c.publish("", watch.Event{Type: kind, Object: pdb})
}

// setStatus writes the status of the budget that newCluster got.
func (c *cluster) setStatus(pdb *policyv1.PodDisruptionBudget) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.write(c.apps["web"], pdb.Status)
}

// setDesired changes what a budget asks for.
func (c *cluster) setDesired(app string, desired int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.apps[app]
	a.pdb.Status.DesiredHealthy = int32(desired)
	c.count(a)
}

// deleteBudget deletes the budget of an app.
func (c *cluster) deleteBudget(app string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version++
	pdb := c.apps[app].pdb.DeepCopy()
	pdb.ResourceVersion = strconv.Itoa(c.version)
	delete(c.apps, app)
	c.publish("", watch.Event{Type: watch.Deleted, Object: pdb})
}

// decrement uses up a disruption, as the API server does.
func (c *cluster) decrement(a *app, pod string) error {
	status := *a.pdb.Status.DeepCopy()
	if status.DisruptionsAllowed <= 0 {
		return blockedError(0)
	}
	status.DisruptionsAllowed--
	if status.DisruptedPods == nil {
		status.DisruptedPods = map[string]metav1.Time{}
	}
	status.DisruptedPods[pod] = metav1.Now()
	c.write(a, status)
	return nil
}

// remove is an eviction or a deletion.
func (c *cluster) remove(verb string, key types.NamespacedName, o metav1.DeleteOptions) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.pods[key]
	r := request{verb: verb, pod: key.Name, grace: o.GracePeriodSeconds, after: time.Since(c.since)}
	if p != nil {
		r.node = p.Spec.NodeName
	}
	if r.err = c.decide(verb, key.Name, p, o); r.err == nil {
		c.terminate(p, o.GracePeriodSeconds)
	}
	if c.requests = append(c.requests, r); len(c.requests) > 2_000 {
		panic("requests are retried without a pause or an end")
	}
	return r.err
}

// decide is the answer to an eviction or a deletion.
func (c *cluster) decide(verb, name string, p *corev1.Pod, o metav1.DeleteOptions) error {
	if c.answer != nil {
		if err := c.answer(verb); err != nil {
			return err
		}
	}
	if p == nil || p.UID != *o.Preconditions.UID {
		return apierrors.NewNotFound(podResource, name)
	}
	a := c.apps[p.Labels["app"]]
	if a == nil || verb != "evict" || p.DeletionTimestamp != nil {
		return nil
	}
	status := a.pdb.Status
	if podutils.IsPodReady(p) || status.DesiredHealthy == 0 || status.CurrentHealthy < status.DesiredHealthy {
		return c.decrement(a, p.Name)
	}
	return nil
}

// terminate has the pod end a millisecond before its grace does, and another one start elsewhere. Of a pod that is
// terminating, a deletion can only shorten the grace period. The API server counts it from the first deletion
// (k8s.io/apiserver/pkg/registry/rest: BeforeDelete), the kubelet from when it learns of it.
func (c *cluster) terminate(p *corev1.Pod, grace *int64) {
	seconds, first := *p.Spec.TerminationGracePeriodSeconds, time.Now()
	if grace != nil {
		seconds = *grace
	}
	again := p.DeletionTimestamp != nil
	if again {
		if seconds >= *p.DeletionGracePeriodSeconds {
			return
		}
		first = p.DeletionTimestamp.Add(-time.Duration(*p.DeletionGracePeriodSeconds) * time.Second)
	}
	end := time.Duration(seconds) * time.Second
	ending := p.DeepCopy()
	ending.DeletionTimestamp, ending.DeletionGracePeriodSeconds = &metav1.Time{Time: first.Add(end)}, &seconds
	c.store(watch.Modified, ending)
	if c.stopsAtOnce {
		end = min(end, time.Second)
	}
	if !c.podsNeverEnd {
		time.AfterFunc(max(end-time.Millisecond, time.Millisecond), func() { c.end(ending) })
	}
	if a := c.apps[p.Labels["app"]]; a != nil && !again {
		c.replace(a)
	}
	if c.putBack == nil || again {
		return
	}
	if next := c.putBack(p); next != nil {
		next.CreationTimestamp = metav1.Now()
		time.AfterFunc(100*time.Millisecond, func() { c.add(next) })
	}
}

// end deletes a pod that has ended.
func (c *cluster) end(p *corev1.Pod) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
	if last := c.pods[key]; last != nil && last.UID == p.UID {
		c.store(watch.Deleted, last.DeepCopy())
	}
	if c.ended != nil {
		go c.ended(p.Name)
	}
}

// replace has another pod of the app start elsewhere.
func (c *cluster) replace(a *app) {
	time.AfterFunc(c.starts(), func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		a.elsewhere++
		c.countSoon(a)
	})
}
