package surge_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/node-drainer/node-drainer/internal/handover/surge"
	"github.com/node-drainer/node-drainer/internal/handover/workload"
)

// fixture is a StatefulSet of three, and the ConfigMap, behind an API server that refuses a request as a test says, and
// a Scaler. Each write is recorded.
type fixture struct {
	*surge.Scaler
	t      *testing.T
	client *fake.Clientset
	refuse map[string]error // by VERB RESOURCE
	first  int              // so many writes are not refused
	writes []string
	told   []string // to the Observer
}

func newFixture(t *testing.T, objects ...runtime.Object) *fixture {
	t.Helper()
	if len(objects) == 0 {
		objects = append(objects, recordsOf(nil))
	}
	f := &fixture{t: t, refuse: map[string]error{}, client: fake.NewClientset(append(objects, redisSet("1", 3))...)}
	f.client.PrependReactor("*", "*", f.react)
	f.Scaler = f.another()
	return f
}

// recordsOf returns the ConfigMap that the surges are recorded in.
func recordsOf(data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "records", ResourceVersion: "1"}, Data: data,
	}
}

// another returns a Scaler of another process.
func (f *fixture) another() *surge.Scaler {
	return surge.New(f.client, types.NamespacedName{Namespace: "shop", Name: "records"}, f)
}

func (f *fixture) SurgeStarted(s workload.Surge) { f.told = append(f.told, "started for "+s.For) }

func (f *fixture) SurgeEnded(_ workload.Surge, reason string) {
	f.told = append(f.told, "ended: "+reason)
}

func (f *fixture) react(action clienttesting.Action) (bool, runtime.Object, error) {
	what := strings.TrimSuffix(action.GetVerb()+" "+action.GetResource().Resource+"/"+action.GetSubresource(), "/")
	if err := f.refuse[what]; err != nil && len(f.writes) >= f.first {
		return true, nil, err
	}
	if action.GetVerb() != "get" {
		f.writes = append(f.writes, what)
	}
	update, ok := action.(clienttesting.UpdateAction)
	if !ok || action.GetSubresource() != "scale" {
		return false, nil, nil
	}
	scale := update.GetObject().(*autoscalingv1.Scale)
	f.setReplicas(scale.Spec.Replicas)
	return true, scale, nil
}

func redisSet(uid string, replicas int32) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "redis", UID: types.UID(uid), ResourceVersion: "7"},
		Spec:       appsv1.StatefulSetSpec{Replicas: &replicas},
	}
}

func (f *fixture) put(set *appsv1.StatefulSet) {
	f.t.Helper()
	f.must(f.client.Tracker().Update(appsv1.SchemeGroupVersion.WithResource("statefulsets"), set, "shop"))
}

func (f *fixture) setReplicas(n int32) { f.put(redisSet("1", n)) }

func (f *fixture) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

func pod(name string) workload.Pod {
	return workload.Pod{
		Namespace: "shop", Name: name, UID: "uid-of-" + name, Controller: "StatefulSet/redis", ControllerUID: "1",
	}
}

// start starts a surge for redis-0.
func (f *fixture) start() workload.Surge {
	f.t.Helper()
	s, err := f.Start(f.t.Context(), pod("redis-0"))
	f.must(err)
	return s
}

func (f *fixture) expectPhase(s workload.Surge, want workload.SurgePhase) {
	f.t.Helper()
	if phase, err := f.Phase(f.t.Context(), s); err != nil || phase != want {
		f.t.Errorf("phase %d, error %v, want %d", phase, err, want)
	}
}

func (f *fixture) expectReplicas(want int32) {
	f.t.Helper()
	set, err := f.client.AppsV1().StatefulSets("shop").Get(f.t.Context(), "redis", metav1.GetOptions{})
	f.must(err)
	if *set.Spec.Replicas != want {
		f.t.Errorf("%d replicas, want %d", *set.Spec.Replicas, want)
	}
}

func (f *fixture) expectRecorded(want ...workload.Surge) {
	f.t.Helper()
	got, err := f.Surges(f.t.Context())
	f.must(err)
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		f.t.Error(diff)
	}
}

func TestSurge(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.start()
	want := workload.Surge{
		Namespace: "shop", StatefulSet: "redis", UID: "1", Replicas: 3, Pod: "redis-3", For: "redis-0",
		ForUID: "uid-of-redis-0", Scaled: true,
	}
	if diff := cmp.Diff(want, s, cmpopts.IgnoreFields(workload.Surge{}, "Since")); diff != "" || s.Since.IsZero() {
		t.Error(s.Since, diff)
	}
	if again := f.start(); again != s {
		t.Errorf("again: got %+v, want %+v", again, s)
	}
	if other, err := f.Start(t.Context(), pod("redis-1")); err != nil || other != s {
		t.Errorf("for another pod: got %+v, %v, want the same surge", other, err)
	}
	f.expectRecorded(s)
	f.expectPhase(s, workload.SurgePresent)
	f.expectReplicas(4)
	f.must(f.Shrink(t.Context(), s))
	f.must(f.Shrink(t.Context(), s))
	f.expectPhase(s, workload.SurgeAbsent)
	f.expectReplicas(3)
	f.must(f.Forget(t.Context(), s, "redis-0 has moved"))
	f.expectRecorded()
	if want := []string{
		"update configmaps", "update statefulsets/scale", "update configmaps", // recorded before it is scaled
		"update statefulsets/scale", "update configmaps",
	}; !slices.Equal(f.writes, want) {
		t.Errorf("got writes %q, want %q", f.writes, want)
	}
	if want := []string{"started for redis-0", "ended: redis-0 has moved"}; !slices.Equal(f.told, want) {
		t.Errorf("the Observer was told %q, want %q", f.told, want)
	}
}

func TestOrdinals(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	set := redisSet("1", 3)
	set.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: 5}
	f.put(set)
	if s := f.start(); s.Pod != "redis-8" {
		t.Errorf("got pod %s, want redis-8", s.Pod)
	}
}

// TestRefusedWrites has each write refused once: what follows continues, and scales once.
func TestRefusedWrites(t *testing.T) {
	t.Parallel()
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "x"}, "x", errors.New("it has changed"))
	for first, write := range []string{"update configmaps", "update statefulsets/scale", "update configmaps"} {
		t.Run(fmt.Sprint(first, " ", write), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.refuse[write], f.first = conflict, first
			_, err := f.Start(t.Context(), pod("redis-0"))
			var never workload.NoSurge
			if !apierrors.IsConflict(err) || errors.As(err, &never) {
				t.Fatalf("error %v, want a conflict", err)
			}
			if len(f.writes) != first {
				t.Errorf("got writes %q", f.writes)
			}
			delete(f.refuse, write)
			s, err := f.another().Start(t.Context(), pod("redis-0"))
			f.must(err)
			f.expectRecorded(s)
			f.expectReplicas(4)
			if len(f.told) != 1 {
				t.Errorf("the Observer was told %q", f.told)
			}
		})
	}
}

// TestNoSurge expects an error that says what to do.
func TestNoSurge(t *testing.T) {
	t.Parallel()
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "x"}, "x", nil)
	for _, tt := range []struct {
		name   string
		change func(*fixture, *workload.Pod)
		want   string
	}{
		{"a Deployment", func(_ *fixture, p *workload.Pod) { p.Controller = "ReplicaSet/a" }, "not one of a StatefulSet"},
		{"no controller", func(_ *fixture, p *workload.Pod) { p.Controller, p.ControllerUID = "", "" }, "not one of a StatefulSet"},
		{
			"another StatefulSet of the same name", func(_ *fixture, p *workload.Pod) { p.ControllerUID = "2" },
			"the pod is not one of the StatefulSet redis",
		},
		{
			"a controller that only has its name", func(_ *fixture, p *workload.Pod) { p.ControllerUID = "" },
			"the pod is not one of the StatefulSet redis",
		},
		{"no right to read", func(f *fixture, _ *workload.Pod) {
			f.refuse["get statefulsets"] = forbidden
		}, "grant to get statefulsets"},
		{"no right to scale", func(f *fixture, _ *workload.Pod) {
			f.refuse["update statefulsets/scale"] = forbidden
		}, "update statefulsets/scale in shop"},
		{"no right to record", func(f *fixture, _ *workload.Pod) {
			f.refuse["get configmaps"] = forbidden
		}, "ConfigMap shop/records"},
		{"no right to write the records", func(f *fixture, _ *workload.Pod) {
			f.refuse["update configmaps"] = forbidden
		}, "get and update the ConfigMap shop/records"},
		{"the user has scaled", func(f *fixture, _ *workload.Pod) {
			f.start()
			f.setReplicas(6)
		}, "has 6 replicas now, and had 3"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f, p := newFixture(t), pod("redis-0")
			tt.change(f, &p)
			_, err := f.Start(t.Context(), p)
			var never workload.NoSurge
			if !errors.As(err, &never) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
			if slices.Contains(f.writes, "update statefulsets/scale") && tt.name != "the user has scaled" {
				t.Errorf("got writes %q", f.writes)
			}
		})
	}
}

// TestMissingConfigMap: no surge starts without a record, and a surge may start as soon as it can be recorded.
func TestMissingConfigMap(t *testing.T) {
	t.Parallel()
	f := newFixture(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "other"}})
	_, err := f.Start(t.Context(), pod("redis-0"))
	var never workload.NoSurge
	if !apierrors.IsNotFound(err) || errors.As(err, &never) || !strings.Contains(err.Error(), "ConfigMap shop/records") {
		t.Errorf("error %v, want that the ConfigMap is missing", err)
	}
	if surges, err := f.Surges(t.Context()); !apierrors.IsNotFound(err) {
		t.Errorf("got %v, %v, want that the ConfigMap is missing", surges, err)
	}
	if f.expectReplicas(3); len(f.writes) > 0 {
		t.Errorf("got writes %q", f.writes)
	}
	f.must(f.client.Tracker().Add(recordsOf(nil)))
	f.expectRecorded(f.start())
}

// TestUsersChange leaves alone what a user has changed.
func TestUsersChange(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*fixture){
		"more replicas":   func(f *fixture) { f.setReplicas(5) },
		"fewer replicas":  func(f *fixture) { f.setReplicas(2) },
		"replaced":        func(f *fixture) { f.put(redisSet("2", 4)) },
		"to be deleted":   func(f *fixture) { f.put(deleting(redisSet("1", 4))) },
		"deleted":         deleteSet,
		"its zero number": func(f *fixture) { f.setReplicas(0) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			s := f.start()
			change(f)
			f.expectPhase(s, workload.SurgeOver)
			before := len(f.writes)
			f.must(f.Shrink(t.Context(), s))
			if len(f.writes) > before {
				t.Errorf("got writes %q", f.writes[before:])
			}
		})
	}
}

func deleting(set *appsv1.StatefulSet) *appsv1.StatefulSet {
	now := metav1.Now()
	set.DeletionTimestamp, set.Finalizers = &now, []string{"x/y"}
	return set
}

func deleteSet(f *fixture) {
	f.t.Helper()
	f.must(f.client.Tracker().Delete(appsv1.SchemeGroupVersion.WithResource("statefulsets"), "shop", "redis"))
}

// TestReplacedStatefulSet gets a surge of its own, whatever is recorded.
func TestReplacedStatefulSet(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.start()
	f.put(redisSet("2", 5))
	p := pod("redis-0")
	p.ControllerUID = "2"
	s, err := f.Start(t.Context(), p)
	f.must(err)
	f.expectRecorded(s)
	if s.UID != "2" || s.Replicas != 5 || s.Pod != "redis-5" {
		t.Errorf("got %+v", s)
	}
}

// TestRecordsOfOthers survive, and one that cannot be read is an error that names it.
func TestRecordsOfOthers(t *testing.T) {
	t.Parallel()
	f := newFixture(t, recordsOf(map[string]string{"pay.cache.x": `{"replicas": 1}`}))
	other := workload.Surge{Namespace: "pay", StatefulSet: "cache.x", Replicas: 1}
	s := f.start()
	f.expectRecorded(other, s)
	f.must(f.Forget(t.Context(), s, ""))
	f.must(f.Forget(t.Context(), s, ""))
	f.expectRecorded(other)
	f.must(f.client.Tracker().Update(corev1.SchemeGroupVersion.WithResource("configmaps"),
		recordsOf(map[string]string{"shop.redis": "x"}), "shop"))
	if _, err := f.Surges(t.Context()); err == nil || !strings.Contains(err.Error(), "shop.redis") {
		t.Errorf("error %v, want that it names the key", err)
	}
}
