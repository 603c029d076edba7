package drain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	podsResource = corev1.SchemeGroupVersion.WithResource("pods")
	pdbsResource = policyv1.SchemeGroupVersion.WithResource("poddisruptionbudgets")
)

// virtual runs a subtest in virtual time.
func virtual(t *testing.T, name string, test func(*testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

// A fixture is a fake cluster of one node, n, in virtual time. Pods that are evicted or deleted end a millisecond
// before their grace period does.
type fixture struct {
	*recorder
	t       *testing.T
	client  *fake.Clientset
	drainer *Drainer
	since   time.Time
	ctx     context.Context
	cancel  context.CancelCauseFunc

	mu        sync.Mutex
	requested []string                // evictions and deletions
	answer    func(name string) error // to evictions
	podsEnd   bool                    // false if no kubelet reports the end of pods
}

func newFixture(t *testing.T, cfg Config, objects ...runtime.Object) *fixture {
	t.Helper()
	w := &fixture{
		t: t, recorder: newRecorder(), client: fake.NewClientset(objects...), since: time.Now(), podsEnd: true,
		answer: func(string) error { return nil },
	}
	w.client.PrependReactor("create", "pods", w.onEviction)
	w.client.PrependReactor("delete", "pods", w.onDeletion)
	drainer, err := New(w.client, cfg, Environment{Taint: ourTaint}, w)
	if err != nil {
		t.Fatal(err)
	}
	w.drainer = drainer
	w.ctx, w.cancel = context.WithCancelCause(t.Context())
	var running sync.WaitGroup
	running.Go(func() { drainer.Run(w.ctx) })
	t.Cleanup(func() {
		w.cancel(errors.New("the test has ended"))
		running.Wait()
	})
	synctest.Wait() // reactors must not be added during requests
	return w
}

// drain starts a drain, and returns a function that waits for its end.
func (w *fixture) drain(timeout time.Duration) func() (Report, error) {
	return startDrain(w.ctx, w.drainer, Target{Name: "n", UID: "uid-n", Since: w.since, Deadline: w.since.Add(timeout)})
}

func startDrain(ctx context.Context, d *Drainer, t Target) (wait func() (Report, error)) {
	var report Report
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		report, err = d.Drain(ctx, t)
	}()
	return func() (Report, error) {
		<-done
		return report, err
	}
}

func (w *fixture) onEviction(action clienttesting.Action) (bool, runtime.Object, error) {
	create, ok := action.(clienttesting.CreateActionImpl)
	if !ok || create.Subresource != "eviction" {
		return false, nil, nil
	}
	eviction, ok := create.Object.(*policyv1.Eviction)
	if !ok {
		return true, nil, fmt.Errorf("got a %T, want an Eviction", create.Object)
	}
	return true, nil, w.remove("evict", eviction.Namespace, eviction.Name, *eviction.DeleteOptions)
}

func (w *fixture) onDeletion(action clienttesting.Action) (bool, runtime.Object, error) {
	del, ok := action.(clienttesting.DeleteActionImpl)
	if !ok {
		return false, nil, nil
	}
	return true, nil, w.remove("delete", del.Namespace, del.Name, del.DeleteOptions)
}

// remove sets the deletionTimestamp of a pod, and deletes it when its grace period ends.
func (w *fixture) remove(verb, namespace, name string, o metav1.DeleteOptions) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	what := verb + " " + name + " " + string(*o.Preconditions.UID)
	if o.GracePeriodSeconds != nil {
		what += fmt.Sprintf(" in %ds", *o.GracePeriodSeconds)
	}
	w.requested = append(w.requested, what)
	if err := w.answer(name); err != nil && verb == "evict" {
		return err
	}
	obj, err := w.client.Tracker().Get(podsResource, namespace, name)
	if err != nil {
		return err
	}
	p := obj.(*corev1.Pod).DeepCopy()
	if p.UID != *o.Preconditions.UID {
		return apierrors.NewConflict(podResource, name, errors.New("the UID does not match"))
	}
	grace := *p.Spec.TerminationGracePeriodSeconds
	if o.GracePeriodSeconds != nil {
		grace = *o.GracePeriodSeconds
	}
	end := time.Duration(grace) * time.Second
	p.DeletionTimestamp = &metav1.Time{Time: time.Now().Add(end)}
	if w.podsEnd {
		time.AfterFunc(end-time.Millisecond, func() { _ = w.client.Tracker().Delete(podsResource, namespace, name) })
	}
	return w.client.Tracker().Update(podsResource, p, namespace)
}

func (w *fixture) requests() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.requested)
}

func (w *fixture) expectRequests(want ...string) {
	w.t.Helper()
	if diff := cmp.Diff(want, w.requests()); diff != "" {
		w.t.Errorf("evictions and deletions (-want +got):\n%s", diff)
	}
}

// update changes the budget.
func (w *fixture) update(pdb *policyv1.PodDisruptionBudget) {
	w.t.Helper()
	if err := w.client.Tracker().Update(pdbsResource, pdb, pdb.Namespace); err != nil {
		w.t.Fatal(err)
	}
}

// add adds a pod to the node.
func (w *fixture) add(p *corev1.Pod) {
	w.t.Helper()
	if err := w.client.Tracker().Add(p); err != nil {
		w.t.Fatal(err)
	}
}

// staleWatch gives every drain from now on a watch that shows only what the test sends.
func (w *fixture) staleWatch() *watch.FakeWatcher {
	stale := watch.NewFake()
	w.client.PrependWatchReactor("pods", func(clienttesting.Action) (bool, watch.Interface, error) {
		return true, stale, nil
	})
	return stale
}

// failRequests makes the API server answer requests with err while err is not nil.
func (w *fixture) failRequests(verb, resource string, err func() error) {
	w.client.PrependReactor(verb, resource, func(clienttesting.Action) (bool, runtime.Object, error) {
		e := err()
		return e != nil, nil, e
	})
}

// countRequests returns how many requests of the verb about the resource there were.
func (w *fixture) countRequests(verb, resource string) (n int) {
	for _, a := range w.client.Actions() {
		if a.Matches(verb, resource) {
			n++
		}
	}
	return n
}

// expectDrained checks the end of a drain after which total pods have left.
func (w *fixture) expectDrained(wait func() (Report, error), total int) Report {
	w.t.Helper()
	report, err := wait()
	if err != nil || report.Total != total || len(report.Left) > 0 {
		w.t.Errorf("got %+v, %v, want %d pods and none left", report, err, total)
	}
	return report
}

// elapse lets virtual time pass.
func elapse(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func runningPod(name string) *corev1.Pod {
	seconds := int64(10)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "x", Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{"app": "web"},
		},
		Spec: corev1.PodSpec{NodeName: "n", TerminationGracePeriodSeconds: &seconds},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionTrue},
		}},
	}
}

// newPDB is a PodDisruptionBudget over three pods that asks for two of them.
func newPDB(allowed int32) *policyv1.PodDisruptionBudget {
	one := intstr.FromInt32(1)
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "b"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: &one, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		},
		Status: policyv1.PodDisruptionBudgetStatus{
			DisruptionsAllowed: allowed, CurrentHealthy: 2 + allowed, DesiredHealthy: 2, ExpectedPods: 3,
		},
	}
}

// ourTaint is the taint of a node that is being drained.
var ourTaint = corev1.Taint{Key: "node-drainer.io/terminating", Effect: corev1.TaintEffectNoSchedule}

// defaults is the default configuration, except that drains do not wait for volumes.
var defaults = Config{
	Timeout: time.Hour, AtDeadline: Delete, Tiers: "0,2000000000,2000001000", BarePods: Evict, EmptyDirPods: Evict,
	ForceSpacing: 30 * time.Second, StuckAfter: 5 * time.Minute, Settle: 5 * time.Second, BlockedAfter: time.Minute,
}

// withConfig returns the usual configuration with a change.
func withConfig(change func(*Config)) Config {
	c := defaults
	change(&c)
	return c
}
