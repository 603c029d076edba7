package drain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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

	"github.com/node-drainer/node-drainer/internal/retry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	podsResource = corev1.SchemeGroupVersion.WithResource("pods")
	pdbsResource = policyv1.SchemeGroupVersion.WithResource("poddisruptionbudgets")
)

// A world is a fake cluster of one node, n, in a synctest bubble: evicted pods end in their grace, on a clock
// that stands still while anything runs.
type fixture struct {
	t       *testing.T
	client  *fake.Clientset
	drainer *Drainer
	since   time.Time
	ctx     context.Context
	cancel  context.CancelCauseFunc

	mu        sync.Mutex
	reports   []string // what the observer was told
	requested []string // evictions and deletions
	answer    func(name string) error
	podsEnd   bool // somebody is there to tell of a pod's end
}

func newFixture(t *testing.T, cfg Config, objects ...runtime.Object) *fixture {
	t.Helper()
	w := &fixture{t: t, client: fake.NewClientset(objects...), since: time.Now(), podsEnd: true}
	w.answer = func(string) error { return nil }
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
	t.Cleanup(func() { // The bubble waits for it.
		w.cancel(errors.New("the test is over"))
		running.Wait()
	})
	synctest.Wait() // Reactors are added between requests only.
	return w
}

// drain starts a drain, and returns a function that waits for its end.
func (w *fixture) drain(timeout time.Duration) func() (Report, error) {
	type result struct {
		report Report
		err    error
	}
	done := make(chan result, 1)
	go func() {
		report, err := w.drainer.Drain(w.ctx, Target{Name: "n", UID: "uid-n", Since: w.since, Deadline: w.since.Add(timeout)})
		done <- result{report, err}
	}()
	return func() (Report, error) {
		r := <-done
		return r.report, r.err
	}
}

func (w *fixture) onEviction(action clienttesting.Action) (bool, runtime.Object, error) {
	create, ok := action.(clienttesting.CreateActionImpl)
	if !ok || create.Subresource != "eviction" {
		return false, nil, nil
	}
	eviction, ok := create.Object.(*policyv1.Eviction)
	if !ok {
		return true, nil, fmt.Errorf("evicted with a %T", create.Object)
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

// remove marks a pod as terminating, and takes it away when its grace is over.
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
	// It stops within its grace, if barely.
	if w.podsEnd {
		time.AfterFunc(end-time.Millisecond, func() { _ = w.client.Tracker().Delete(podsResource, namespace, name) })
	}
	return w.client.Tracker().Update(podsResource, p, namespace)
}

func (w *fixture) report(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reports = append(w.reports, fmt.Sprintf(format, args...))
}

func (w *fixture) DrainProgressed(p Progress) {
	w.report("%d of %d left %v", p.Left, p.Total, p.Waiting)
}

func (w *fixture) DrainEnded(t Target, result Result) { w.report("ended %s: %s", t.Name, result) }

func (w *fixture) PodEvicted(_ Target, p Pod, waited time.Duration) {
	w.report("evicted %s after %v", p.Name, waited.Round(time.Second))
}

func (w *fixture) PodBlocked(_ Target, b Waiting) {
	w.report("blocked %s since %v: %s %s, %s", b.Pod.Name, b.Since.Sub(w.since), b.Reason, b.Budget, b.Message)
}

func (w *fixture) PodForced(_ Target, r Removal) {
	w.report("forced %s in %v: %s", r.Pod.Name, r.Grace, r.Reason)
}

func (w *fixture) EvictionRefused(_ Target, p Pod, o Outcome) { w.report("refused %s: %s", p.Name, o) }

func (w *fixture) VolumesStillAttached(_ Target, volumes []string) {
	w.report("volumes left: %v", volumes)
}

func (w *fixture) KubernetesFailed(operation string, err error) {
	w.report("failed %s: %v", operation, err)
}

func (w *fixture) requests() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.requested)
}

func (w *fixture) reported(told string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.reports, func(s string) bool { return strings.Contains(s, told) })
}

func (w *fixture) expectRequests(want ...string) {
	w.t.Helper()
	if diff := cmp.Diff(want, w.requests()); diff != "" {
		w.t.Errorf("evictions and deletions:\n%s", diff)
	}
}

// update changes an object of the cluster.
func (w *fixture) update(obj metav1.Object) {
	w.t.Helper()
	resource := podsResource
	if _, ok := obj.(*policyv1.PodDisruptionBudget); ok {
		resource = pdbsResource
	}
	if err := w.client.Tracker().Update(resource, obj.(runtime.Object), obj.GetNamespace()); err != nil {
		w.t.Fatal(err)
	}
}

// elapse lets the bubble's time pass.
func elapse(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func running(name string) *corev1.Pod {
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

// pdb is a PodDisruptionBudget over three pods that asks for two of them.
func pdb(allowed int32) *policyv1.PodDisruptionBudget {
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

// defaults is the default configuration, save that it waits for no volumes.
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

func TestDrainEvictsAllThatMustLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		finished := running("finished")
		finished.Status.Phase = corev1.PodSucceeded
		w := newFixture(t, defaults, running("a"), running("b"), finished)
		report, err := w.drain(time.Hour)()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(Report{Total: 2, Took: report.Took}, report); diff != "" {
			t.Error(diff)
		}
		if report.Took < 9*time.Second || report.Took > 11*time.Second {
			t.Errorf("it took %v, and the pods took just under 10s", report.Took)
		}
		got := w.requests()
		slices.Sort(got)
		if diff := cmp.Diff([]string{"evict a uid-a", "evict b uid-b"}, got); diff != "" {
			t.Error(diff)
		}
		if !w.reported("evicted a after 0s") || !w.reported("0 of 2 left []") || !w.reported("ended n: drained") {
			t.Errorf("the observer was told %q", w.reports)
		}
	})
}

func TestDrainIsOverNoSoonerThanSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, defaults)
		wait := w.drain(time.Hour)
		elapse(3 * time.Second)
		if err := w.client.Tracker().Add(running("late")); err != nil {
			t.Fatal(err)
		}
		report, err := wait()
		if err != nil || report.Total != 1 || len(report.Left) > 0 {
			t.Errorf("got %+v, %v", report, err)
		}
		w.expectRequests("evict late uid-late")
	})
}

func TestTheDeadlineEndsTheSettleTimeToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, withConfig(func(c *Config) { c.Settle = time.Minute }))
		report, err := w.drain(2 * time.Second)()
		if err != nil || report.Took > 3*time.Second {
			t.Errorf("got %+v, %v", report, err)
		}
	})
}

func TestDrainEndsWithTheCauseOfItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, defaults, running("a"), pdb(0))
		wait := w.drain(time.Hour)
		elapse(500 * time.Millisecond)
		cause := errors.New("leaving")
		before := time.Now()
		w.cancel(cause)
		if _, err := wait(); !errors.Is(err, cause) {
			t.Errorf("got %v, want %v", err, cause)
		}
		if took := time.Since(before); took > 100*time.Millisecond {
			t.Errorf("it took %v", took)
		}
		w.expectRequests()
	})
}

func TestDrainThatCannotBeginEndsWithTheCauseOfItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, defaults)
		w.client.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewServiceUnavailable("away")
		})
		wait := w.drain(time.Hour)
		elapse(time.Minute)
		cause := errors.New("leaving")
		w.cancel(cause)
		if _, err := wait(); !errors.Is(err, cause) {
			t.Errorf("got %v, want %v", err, cause)
		}
	})
}

// TestBudgetsThatCannotBeListed: a drain waits for them for a part of its time, and then leaves it to the API server
// to guard them.
func TestBudgetsThatCannotBeListed(t *testing.T) {
	a := []runtime.Object{running("a")}
	for _, tt := range []struct {
		name    string
		pods    []runtime.Object
		listed  time.Duration // when they are
		tighter time.Duration // a deadline that comes after a second
		guarded bool          // the API server allows no eviction
		begins  time.Duration
		asked   string // more than once, if it must
	}{
		{name: "listed in time: the drain begins then", pods: a, listed: 2 * time.Second, begins: 2 * time.Second, asked: "evict a uid-a"},
		{
			name: "not listed: it begins after a tenth of the time to the first last call", pods: a, listed: time.Hour,
			begins: 59 * time.Second, asked: "evict a uid-a",
		},
		{
			name: "not listed, and the API server guards the pod: deleted at its last call", pods: a, listed: time.Hour,
			guarded: true, begins: 59 * time.Second, asked: "evict a uid-a, delete a uid-a in 10s",
		},
		{
			name: "not listed, and an earlier deadline comes: a tenth of that", pods: a, listed: time.Hour,
			tighter: 110 * time.Second, begins: 10 * time.Second, asked: "evict a uid-a",
		},
		{name: "not listed, and nothing is to be moved: over when it has settled", listed: time.Hour},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newFixture(t, defaults, tt.pods...)
				began := time.Duration(-1)
				w.answer = func(string) error {
					if began < 0 {
						began = time.Since(w.since)
					}
					if tt.guarded {
						return blockedError(0)
					}
					return nil
				}
				late, err := New(w.client, defaults, Environment{Taint: ourTaint}, w)
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(w.ctx, 11*time.Minute)
				var running sync.WaitGroup
				running.Go(func() {
					if retry.Sleep(ctx, tt.listed) {
						late.Run(ctx)
					}
				})
				defer running.Wait()
				defer cancel()
				tighter := make(chan time.Time, 1)
				if tt.tighter > 0 {
					time.AfterFunc(time.Second, func() { tighter <- w.since.Add(tt.tighter) })
				}
				report, err := late.Drain(ctx, Target{
					Name: "n", UID: "uid-n", Since: w.since, Deadline: w.since.Add(10 * time.Minute), Tighter: tighter,
				})
				if err != nil || len(report.Left) > 0 || report.Total != len(tt.pods) {
					t.Errorf("got %+v, %v", report, err)
				}
				asked := w.requests()
				if len(tt.pods) == 0 {
					if len(asked) > 0 || report.Took > 6*time.Second {
						t.Errorf("asked %q, in %v", asked, report.Took)
					}
					return
				}
				if began.Round(time.Second) != tt.begins {
					t.Errorf("began after %v, want %v", began, tt.begins)
				}
				if got := strings.Join(slices.Compact(asked), ", "); got != tt.asked {
					t.Errorf("asked %q, want %q", got, tt.asked)
				}
			})
		})
	}
}

func TestABlockedPodIsEvictedWhenItsBudgetRises(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, defaults, running("a"), pdb(0))
		wait := w.drain(time.Hour)
		elapse(90 * time.Second)
		w.expectRequests()
		if !w.reported("blocked a since 0s: blocked-by-budget x/b, it allows 0 disruptions now: 2 of its 3 pods are healthy, and it requires 2") ||
			!w.reported("1 of 1 left [1 wait for PodDisruptionBudget x/b]") {
			t.Errorf("the observer was told %q", w.reports)
		}
		w.update(pdb(1))
		synctest.Wait() // No time passes.
		w.expectRequests("evict a uid-a")
		if _, err := wait(); err != nil {
			t.Error(err)
		}
	})
}

func TestABudgetThatGoesAwayHoldsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, defaults, running("a"), pdb(0))
		wait := w.drain(time.Hour)
		elapse(500 * time.Millisecond)
		if err := w.client.Tracker().Delete(pdbsResource, "x", "b"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		w.expectRequests("evict a uid-a")
		if _, err := wait(); err != nil {
			t.Error(err)
		}
	})
}

func TestNothingIsAskedWhileNothingChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := running("a")
		*a.Spec.TerminationGracePeriodSeconds = 1200
		w := newFixture(t, defaults, a)
		wait := w.drain(time.Hour)
		elapse(time.Second)
		before := len(w.client.Actions())
		elapse(15 * time.Minute)
		if after := w.client.Actions(); len(after) > before {
			t.Errorf("asked for %v", after[before:])
		}
		if _, err := wait(); err != nil {
			t.Error(err)
		}
	})
}

// TestAWatchThatIsBehind has a watch that shows nothing until it is told to.
func TestAWatchThatIsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, defaults, running("a"))
		behind := watch.NewFake()
		w.client.PrependWatchReactor("pods", func(clienttesting.Action) (bool, watch.Interface, error) {
			return true, behind, nil
		})
		wait := w.drain(time.Hour)
		elapse(14 * time.Second)
		w.expectRequests("evict a uid-a")
		behind.Delete(running("a"))
		report, err := wait()
		if err != nil || len(report.Left) > 0 {
			t.Errorf("got %+v, %v", report, err)
		}
		w.expectRequests("evict a uid-a")
	})
}

func TestAPodThatOnlyTheProofShows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, defaults)
		behind := watch.NewFake()
		w.client.PrependWatchReactor("pods", func(clienttesting.Action) (bool, watch.Interface, error) {
			return true, behind, nil
		})
		wait := w.drain(time.Hour)
		elapse(time.Second)
		if err := w.client.Tracker().Add(running("late")); err != nil {
			t.Fatal(err)
		}
		elapse(12 * time.Second)
		w.expectRequests("evict late uid-late") // once, though the watch never shows it
		if report, err := wait(); err != nil || report.Total != 1 {
			t.Errorf("got %+v, %v", report, err)
		}
	})
}

func TestAProofThatFailsIsNoProof(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, defaults)
		var mu sync.Mutex
		away := false
		w.client.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
			mu.Lock()
			defer mu.Unlock()
			if away {
				return true, nil, apierrors.NewServiceUnavailable("away")
			}
			return false, nil, nil
		})
		wait := w.drain(10 * time.Second)
		elapse(time.Second)
		mu.Lock()
		away = true
		mu.Unlock()
		elapse(time.Minute)
		mu.Lock()
		away = false
		mu.Unlock()
		report, err := wait()
		if err != nil || report.Took < time.Minute {
			t.Errorf("got %+v, %v", report, err)
		}
		if !w.reported("failed verify that node n is empty") {
			t.Errorf("the observer was told %q", w.reports)
		}
	})
}

func TestAtTheDeadline(t *testing.T) {
	for _, tt := range []struct {
		name, at string
		forced   int
		left     []string
		asked    []string
	}{
		{name: "delete", at: Delete, forced: 1, asked: []string{"delete a uid-a in 10s"}},
		{name: "leave", at: Leave, left: []string{"x/a"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newFixture(t, withConfig(func(c *Config) { c.AtDeadline, c.Settle = tt.at, 0 }), running("a"), pdb(0))
				report, err := w.drain(time.Minute)()
				if err != nil {
					t.Fatal(err)
				}
				want := Report{Total: 1, Forced: tt.forced, Left: tt.left, Took: time.Minute}
				report.Took = report.Took.Round(time.Second)
				if diff := cmp.Diff(want, report); diff != "" {
					t.Error(diff)
				}
				w.expectRequests(tt.asked...)
				if w.reported("forced a in 10s: deadline") != (tt.forced > 0) {
					t.Errorf("the observer was told %q", w.reports)
				}
			})
		})
	}
}

func TestAnEvictionCarriesAGraceOnlyWhenItIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, withConfig(func(c *Config) { c.Settle = 0 }), running("a"))
		long := running("long")
		*long.Spec.TerminationGracePeriodSeconds = 3600
		if err := w.client.Tracker().Add(long); err != nil {
			t.Fatal(err)
		}
		if _, err := w.drain(time.Minute)(); err != nil {
			t.Fatal(err)
		}
		// The watch takes a moment to begin, and a grace is told in whole seconds.
		got := w.requests()
		slices.Sort(got)
		if diff := cmp.Diff([]string{"evict a uid-a", "evict long uid-long in 60s"}, got); diff != "" {
			t.Error(diff)
		}
	})
}

func TestABusyAPIServerIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, defaults, running("a"))
		w.answer = func(string) error {
			if len(w.requested) <= 3 {
				return apierrors.NewServiceUnavailable("away")
			}
			return nil
		}
		if report, err := w.drain(time.Hour)(); err != nil || report.Total != 1 {
			t.Errorf("got %+v, %v", report, err)
		}
		w.expectRequests("evict a uid-a", "evict a uid-a", "evict a uid-a", "evict a uid-a")
		if !w.reported("failed remove pod x/a") {
			t.Errorf("the observer was told %q", w.reports)
		}
	})
}

func TestStripBudgetKeepsWhatIsRead(t *testing.T) {
	full := pdb(3)
	full.Annotations = map[string]string{"long": "text"}
	got, err := trimBudget(full)
	if err != nil {
		t.Fatal(err)
	}
	want := pdb(3)
	want.Spec.MaxUnavailable = nil
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if other, err := trimBudget("no budget"); err != nil || other != "no budget" {
		t.Errorf("got %v, %v", other, err)
	}
}
