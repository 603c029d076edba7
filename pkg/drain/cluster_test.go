package drain

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"
	typedpolicy "k8s.io/client-go/kubernetes/typed/policy/v1"
	"k8s.io/kubectl/pkg/util/podutils"
)

// A cluster is many nodes in a synctest bubble, behind a client that serves list and watch by node, evicts as
// the API server does (k8s.io/kubernetes/pkg/registry/core/pod/storage/eviction.go), counts disruptions as the
// controller does (k8s.io/kubernetes/pkg/controller/disruption), and runs evicted pods anew elsewhere. Its
// answers, its watch and its controller take their time.
type cluster struct {
	kubernetes.Interface
	t       *testing.T
	drainer *Drainer
	since   time.Time
	ctx     context.Context
	cancel  context.CancelCauseFunc
	*recorder

	// How long things take; none may change after begin.
	answers, watches, counts, starts func() time.Duration

	mu       sync.Mutex
	version  int
	pods     map[types.NamespacedName]*corev1.Pod
	apps     map[string]*app
	history  map[string][]watch.Event // by node, and of budgets by ""
	streams  map[string]map[*stream]struct{}
	requests []request
}

// app is pods that one PodDisruptionBudget protects.
type app struct {
	pdb       *policyv1.PodDisruptionBudget
	pods      map[string]*corev1.Pod // on the nodes that are drained, by name
	elsewhere int                    // healthy pods on other nodes
	due       bool                   // the controller is to count
	least     int                    // how few were ever healthy
}

// request is an eviction or a deletion, when it was decided.
type request struct {
	verb, node, pod string
	after           time.Duration
	err             error
}

func constant(d time.Duration) func() time.Duration { return func() time.Duration { return d } }

func noDelay() time.Duration { return 0 }

func between(from, to time.Duration) func() time.Duration {
	return func() time.Duration { return from + rand.N(to-from) }
}

func newCluster(t *testing.T) *cluster {
	return &cluster{
		Interface: fake.NewClientset(), recorder: newRecorder(), t: t, since: time.Now(),
		answers: noDelay, watches: noDelay, counts: noDelay, starts: noDelay,
		pods: map[types.NamespacedName]*corev1.Pod{}, apps: map[string]*app{},
		history: map[string][]watch.Event{}, streams: map[string]map[*stream]struct{}{},
	}
}

// addBudget makes a PodDisruptionBudget over the pods of an app, so many of which run elsewhere.
func (c *cluster) addBudget(name string, desired, elsewhere int) {
	c.apps[name] = &app{
		pods: map[string]*corev1.Pod{}, elsewhere: elsewhere, least: 1 << 20,
		pdb: &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: name},
			Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}},
			Status:     policyv1.PodDisruptionBudgetStatus{DesiredHealthy: int32(desired)},
		},
	}
}

// addPod has a pod run on a node, for an app or, if that is empty, without a budget.
func (c *cluster) addPod(node, name, app string, changes ...func(*corev1.Pod)) {
	p := running(name)
	p.Spec.NodeName, p.Labels = node, map[string]string{"app": app}
	for _, change := range changes {
		change(p)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.store(watch.Added, p)
}

func gracePeriod(seconds int64) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = &seconds }
}

// start runs a Drainer, whose caches are full when it returns.
func (c *cluster) start(cfg Config) {
	c.t.Helper()
	c.mu.Lock()
	for _, a := range c.apps {
		c.count(a)
	}
	c.mu.Unlock()
	var err error
	if c.drainer, err = New(c, cfg, Environment{Taint: ourTaint}, c); err != nil {
		c.t.Fatal(err)
	}
	c.ctx, c.cancel = context.WithCancelCause(c.t.Context())
	var running sync.WaitGroup
	running.Go(func() { c.drainer.Run(c.ctx) })
	c.t.Cleanup(func() {
		c.cancel(errors.New("the test has ended"))
		running.Wait()
	})
	for !c.drainer.Synced() {
		elapse(time.Millisecond)
	}
	c.since = time.Now()
}

// drain starts a drain, and returns a function that waits for its end.
func (c *cluster) drain(ctx context.Context, node string, timeout time.Duration) func() (Report, error) {
	return startDrain(ctx, c.drainer, Target{
		Name: node, UID: "uid-" + node, Since: time.Now(), Deadline: time.Now().Add(timeout),
	})
}

// requestLog returns the requests about pods so far, as VERB NODE/POD.
func (c *cluster) requestLog() (all []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.requests {
		what := r.verb + " " + r.node + "/" + r.pod
		if r.err != nil {
			what += " refused"
		}
		all = append(all, what)
	}
	return all
}

// store keeps a pod, or takes it away, and tells those who watch. The lock is held.
func (c *cluster) store(event watch.EventType, p *corev1.Pod) {
	c.version++
	p.ResourceVersion = strconv.Itoa(c.version)
	key := types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
	a := c.apps[p.Labels["app"]]
	if event == watch.Deleted {
		delete(c.pods, key)
	} else {
		c.pods[key] = p
	}
	if a != nil {
		if a.pods[p.Name] = p; event == watch.Deleted {
			delete(a.pods, p.Name)
		}
		c.countSoon(a)
	}
	c.publish(p.Spec.NodeName, watch.Event{Type: event, Object: p})
}

func (c *cluster) publish(topic string, e watch.Event) {
	c.history[topic] = append(c.history[topic], e)
	for s := range c.streams[topic] {
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

// setDesired changes what a budget asks for.
func (c *cluster) setDesired(app string, desired int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.apps[app]
	a.pdb.Status.DesiredHealthy = int32(desired)
	c.count(a)
}

// decrement takes of the budget, as the API server does.
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
	if p == nil || p.UID != *o.Preconditions.UID {
		return apierrors.NewNotFound(podResource, key.Name)
	}
	r := request{verb: verb, node: p.Spec.NodeName, pod: p.Name, after: time.Since(c.since)}
	a := c.apps[p.Labels["app"]]
	if a != nil && verb == "evict" && p.DeletionTimestamp == nil {
		status := a.pdb.Status
		if podutils.IsPodReady(p) || status.DesiredHealthy == 0 || status.CurrentHealthy < status.DesiredHealthy {
			r.err = c.decrement(a, p.Name)
		}
	}
	c.requests = append(c.requests, r)
	if r.err == nil {
		c.terminate(p, o.GracePeriodSeconds)
	}
	return r.err
}

// terminate has the pod end a millisecond before its grace does, and another one start elsewhere.
func (c *cluster) terminate(p *corev1.Pod, grace *int64) {
	if p.DeletionTimestamp != nil {
		return
	}
	seconds := *p.Spec.TerminationGracePeriodSeconds
	if grace != nil {
		seconds = *grace
	}
	end := time.Duration(seconds) * time.Second
	ending := p.DeepCopy()
	ending.DeletionTimestamp = &metav1.Time{Time: time.Now().Add(end)}
	c.store(watch.Modified, ending)
	time.AfterFunc(max(end-time.Millisecond, time.Millisecond), func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.store(watch.Deleted, c.pods[types.NamespacedName{Namespace: p.Namespace, Name: p.Name}].DeepCopy())
	})
	if a := c.apps[p.Labels["app"]]; a != nil {
		time.AfterFunc(c.starts(), func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			a.elsewhere++
			c.countSoon(a)
		})
	}
}

// meta is the version of a list. The lock is held.
func (c *cluster) meta() metav1.ListMeta {
	return metav1.ListMeta{ResourceVersion: strconv.Itoa(c.version)}
}

// watch returns all of a topic that comes after the version.
func (c *cluster) watch(topic, version string) (watch.Interface, error) {
	from, err := strconv.Atoi(version)
	if err != nil {
		return nil, fmt.Errorf("watched from version %q: %w", version, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s := &stream{out: make(chan watch.Event), news: make(chan struct{}, 1), gone: make(chan struct{}), delay: c.watches}
	s.stop = sync.OnceFunc(func() {
		close(s.gone)
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.streams[topic], s)
	})
	for _, e := range c.history[topic] {
		if v, _ := strconv.Atoi(e.Object.(metav1.Object).GetResourceVersion()); v > from {
			s.send(e)
		}
	}
	if c.streams[topic] == nil {
		c.streams[topic] = map[*stream]struct{}{}
	}
	c.streams[topic][s] = struct{}{}
	go s.pump()
	return s, nil
}

// stream is one watch.
type stream struct {
	out   chan watch.Event
	news  chan struct{}
	gone  chan struct{}
	stop  func()
	delay func() time.Duration

	mu    sync.Mutex
	queue []watch.Event
}

func (s *stream) ResultChan() <-chan watch.Event { return s.out }
func (s *stream) Stop()                          { s.stop() }

func (s *stream) send(e watch.Event) {
	s.mu.Lock()
	s.queue = append(s.queue, e)
	s.mu.Unlock()
	select {
	case s.news <- struct{}{}:
	default:
	}
}

// pump delivers what is sent, in order, and all of a moment together.
func (s *stream) pump() {
	defer close(s.out)
	for {
		select {
		case <-s.news:
		case <-s.gone:
			return
		}
		if d := s.delay(); d > 0 {
			select {
			case <-time.After(d):
			case <-s.gone:
				return
			}
		}
		s.mu.Lock()
		events := s.queue
		s.queue = nil
		s.mu.Unlock()
		for _, e := range events {
			select {
			case s.out <- e:
			case <-s.gone:
				return
			}
		}
	}
}

// The client, as far as this package uses it.

// IsWatchListSemanticsUnSupported has informers list before they watch.
func (c *cluster) IsWatchListSemanticsUnSupported() bool { return true }

func (c *cluster) CoreV1() typedcore.CoreV1Interface { return core{c.Interface.CoreV1(), c} }

func (c *cluster) PolicyV1() typedpolicy.PolicyV1Interface { return policy{c.Interface.PolicyV1(), c} }

type core struct {
	typedcore.CoreV1Interface
	c *cluster
}

func (k core) Pods(namespace string) typedcore.PodInterface {
	return podClient{k.CoreV1Interface.Pods(namespace), k.c, namespace}
}

type podClient struct {
	typedcore.PodInterface
	c         *cluster
	namespace string
}

func nodeIn(o metav1.ListOptions) (string, error) {
	selector, err := fields.ParseSelector(o.FieldSelector)
	if err != nil {
		return "", err
	}
	node, ok := selector.RequiresExactMatch("spec.nodeName")
	if !ok {
		return "", fmt.Errorf("the pods of all nodes were asked for, by %q", o.FieldSelector)
	}
	return node, nil
}

func (k podClient) List(_ context.Context, o metav1.ListOptions) (*corev1.PodList, error) {
	node, err := nodeIn(o)
	if err != nil {
		return nil, err
	}
	k.c.mu.Lock()
	defer k.c.mu.Unlock()
	list := &corev1.PodList{ListMeta: k.c.meta()}
	for _, e := range k.c.history[node] {
		p := e.Object.(*corev1.Pod)
		if now := k.c.pods[types.NamespacedName{Namespace: p.Namespace, Name: p.Name}]; now == p {
			list.Items = append(list.Items, *p)
		}
	}
	return list, nil
}

func (k podClient) Watch(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
	node, err := nodeIn(o)
	if err != nil {
		return nil, err
	}
	return k.c.watch(node, o.ResourceVersion)
}

func (k podClient) EvictV1(ctx context.Context, e *policyv1.Eviction) error {
	return k.c.slowly(ctx, func() error {
		return k.c.remove("evict", types.NamespacedName{Namespace: e.Namespace, Name: e.Name}, *e.DeleteOptions)
	})
}

func (k podClient) Delete(ctx context.Context, name string, o metav1.DeleteOptions) error {
	return k.c.slowly(ctx, func() error {
		return k.c.remove("delete", types.NamespacedName{Namespace: k.namespace, Name: name}, o)
	})
}

// slowly has a request under way for a while before it is decided, and after.
func (c *cluster) slowly(ctx context.Context, do func() error) error {
	var err error
	for _, then := range []func(){func() { err = do() }, func() {}} {
		if d := c.answers() / 2; d > 0 {
			select {
			case <-time.After(d):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		then()
	}
	return err
}

type policy struct {
	typedpolicy.PolicyV1Interface
	c *cluster
}

func (k policy) PodDisruptionBudgets(namespace string) typedpolicy.PodDisruptionBudgetInterface {
	return pdbClient{k.PolicyV1Interface.PodDisruptionBudgets(namespace), k.c}
}

type pdbClient struct {
	typedpolicy.PodDisruptionBudgetInterface
	c *cluster
}

func (k pdbClient) List(context.Context, metav1.ListOptions) (*policyv1.PodDisruptionBudgetList, error) {
	k.c.mu.Lock()
	defer k.c.mu.Unlock()
	list := &policyv1.PodDisruptionBudgetList{ListMeta: k.c.meta()}
	for _, a := range k.c.apps {
		list.Items = append(list.Items, *a.pdb)
	}
	return list, nil
}

func (k pdbClient) Watch(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
	return k.c.watch("", o.ResourceVersion)
}

var (
	_ kubernetes.Interface = (*cluster)(nil)
	_ runtime.Object       = (*storagev1.VolumeAttachment)(nil)
)

// TestAThousandDrains drains a thousand nodes at once: apps whose pods are spread over the nodes, of each of
// which two may be disrupted at a time.
func TestAThousandDrains(t *testing.T) {
	const nodes, perNode, apps = 1_000, 3, 60
	began := time.Now()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.answers, c.watches = between(2*time.Millisecond, 20*time.Millisecond), between(time.Millisecond, 10*time.Millisecond)
		c.counts, c.starts = between(5*time.Millisecond, 50*time.Millisecond), between(2*time.Second, 8*time.Second)
		for i := range apps {
			c.addBudget(fmt.Sprint("app-", i), nodes*perNode/apps-2, 0)
		}
		for i := range nodes * perNode {
			c.addPod(fmt.Sprint("node-", i%nodes), fmt.Sprint("pod-", i), fmt.Sprint("app-", (i/nodes*7+i)%apps), gracePeriod(int64(1+i%5)))
		}
		c.start(withConfig(func(cfg *Config) { cfg.VolumeTimeout = 2 * time.Minute }))
		start := time.Now()
		var all []func() (Report, error)
		for i := range nodes {
			all = append(all, c.drain(c.ctx, fmt.Sprint("node-", i), 2*time.Hour))
		}
		for i, wait := range all {
			if report, err := wait(); err != nil || report.Total != perNode || len(report.Left)+report.Forced > 0 {
				t.Errorf("node-%d: %+v, %v", i, report, err)
			}
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		evictions, refused := len(c.requests), 0
		for _, r := range c.requests {
			if r.err != nil {
				refused++
			}
		}
		for name, a := range c.apps {
			if a.least < int(a.pdb.Status.DesiredHealthy) {
				t.Errorf("%s: only %d pods were healthy, %d were asked for", name, a.least, a.pdb.Status.DesiredHealthy)
			}
		}
		if evictions > nodes*perNode || refused > 0 {
			t.Errorf("%d evictions for %d pods, and %d were refused", evictions, nodes*perNode, refused)
		}
		t.Logf("%d drains took %v of virtual time: %d evictions for %d pods, %d refused",
			nodes, time.Since(start).Round(time.Second), evictions, nodes*perNode, refused)
	})
	t.Logf("and %v of real time", time.Since(began).Round(time.Millisecond))
}
