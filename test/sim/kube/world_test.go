package kube_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/node-drainer/node-drainer/test/sim/kube"
)

// world is where a scenario plays: the model or a real control plane, with one node. What can differ between two runs is
// replaced in the transcript.
type world struct {
	t          *testing.T
	client     kubernetes.Interface
	ns         string
	node       string // its name; the pool, which pods select, has the name of the namespace
	transcript []string
	ends       []func() // of watches, at the end
}

// poolLabel is that of test/cluster.
const poolLabel = "node-drainer.test/pool"

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// say adds a line to the transcript.
func (w *world) say(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	w.transcript = append(w.transcript, strings.NewReplacer(w.ns, "NS", w.node, "NODE").Replace(line))
}

// until waits until a condition holds.
func (w *world) until(what string, holds func() bool) {
	w.t.Helper()
	for range 1800 {
		if holds() {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	w.t.Fatalf("not in three minutes: %s\n%s", what, strings.Join(w.transcript, "\n"))
}

// answer describes how a request ended.
func (w *world) answer(err error) string {
	if err == nil {
		return "ok"
	}
	var refused apierrors.APIStatus
	if !errors.As(err, &refused) {
		return err.Error()
	}
	s := refused.Status()
	out := fmt.Sprintf("%d %s: %s", s.Code, cmp.Or(s.Reason, "no reason"), w.hide(s.Message))
	if s.Details != nil {
		for _, c := range s.Details.Causes {
			out += fmt.Sprintf(" (%s %s: %s)", c.Type, c.Field, w.hide(c.Message))
		}
		if s.Details.RetryAfterSeconds > 0 {
			out += fmt.Sprintf(" retry after %d s", s.Details.RetryAfterSeconds)
		}
	}
	return out
}

// hide replaces the UIDs and resource versions of all pods in a text.
func (w *world) hide(text string) string {
	list, err := w.client.CoreV1().Pods(w.ns).List(w.t.Context(), metav1.ListOptions{})
	w.must(err)
	for _, p := range list.Items {
		text = strings.ReplaceAll(text, string(p.UID), "UID")
		text = strings.ReplaceAll(text, "("+p.ResourceVersion+")", "(VERSION)")
	}
	return text
}

// template is a pod of an app that works for an hour after SIGTERM.
func (w *world) template(app string, changes ...func(*corev1.Pod)) *corev1.Pod {
	grace := int64(7200)
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Labels:      map[string]string{"app": app},
			Annotations: map[string]string{kube.WorkAnnotation: "1h", "node-drainer.test/stop": "3600"},
		},
		Spec: corev1.PodSpec{
			Containers:                    []corev1.Container{{Name: "main", Image: "registry.example/app:1"}},
			NodeSelector:                  map[string]string{poolLabel: w.ns},
			TerminationGracePeriodSeconds: &grace,
		},
	}
	for _, change := range changes {
		change(p)
	}
	return p
}

// quick is a pod that stops at once.
func quick(p *corev1.Pod) {
	p.Annotations = map[string]string{kube.WorkAnnotation: "0s"}
}

// pod creates a pod, and waits until it is Ready.
func (w *world) pod(name string, changes ...func(*corev1.Pod)) {
	w.t.Helper()
	p := w.template("web", changes...)
	p.Name = name
	_, err := w.client.CoreV1().Pods(w.ns).Create(w.t.Context(), p, metav1.CreateOptions{})
	w.must(err)
	if p.Spec.NodeSelector[poolLabel] == w.ns {
		w.until("pod "+name+" is Ready", func() bool { return w.isReady(w.get(name)) })
	}
}

func (w *world) isReady(p *corev1.Pod) bool {
	return p != nil && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// get returns a pod, or nil.
func (w *world) get(name string) *corev1.Pod {
	p, err := w.client.CoreV1().Pods(w.ns).Get(w.t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	w.must(err)
	return p
}

// pods returns the pods of an app.
func (w *world) pods(app string) []corev1.Pod {
	list, err := w.client.CoreV1().Pods(w.ns).List(w.t.Context(), metav1.ListOptions{LabelSelector: "app=" + app})
	w.must(err)
	return list.Items
}

// label labels a pod.
func (w *world) label(name, label string) string {
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{"changed":%q}}}`, label)
	_, err := w.client.CoreV1().Pods(w.ns).Patch(w.t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{})
	return w.answer(err)
}

// unready has a running pod fail its readiness probe.
func (w *world) unready(name string) {
	patch := []byte(`{"status":{"conditions":[{"type":"Ready","status":"False"}]}}`)
	_, err := w.client.CoreV1().Pods(w.ns).Patch(
		w.t.Context(), name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	w.must(err)
}

// budget creates a budget for the pods of an app, and waits until it is counted.
func (w *world) budget(name, app string, change func(*policyv1.PodDisruptionBudgetSpec)) {
	w.t.Helper()
	b := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: policyv1.PodDisruptionBudgetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}},
		},
	}
	change(&b.Spec)
	_, err := w.client.PolicyV1().PodDisruptionBudgets(w.ns).Create(w.t.Context(), b, metav1.CreateOptions{})
	w.must(err)
	w.until("budget "+name+" is counted", func() bool { return len(w.getBudget(name).Status.Conditions) > 0 })
}

func least(n int) func(*policyv1.PodDisruptionBudgetSpec) {
	return func(s *policyv1.PodDisruptionBudgetSpec) { s.MinAvailable = new(intstr.FromInt(n)) }
}

func (w *world) getBudget(name string) *policyv1.PodDisruptionBudget {
	b, err := w.client.PolicyV1().PodDisruptionBudgets(w.ns).Get(w.t.Context(), name, metav1.GetOptions{})
	w.must(err)
	return b
}

// counted waits until a budget has counted so many healthy pods, and describes it.
func (w *world) counted(name string, healthy int32) string {
	w.t.Helper()
	w.until(fmt.Sprintf("budget %s counts %d pods", name, healthy), func() bool {
		s := w.getBudget(name).Status
		return s.CurrentHealthy == healthy && len(s.DisruptedPods) == 0
	})
	return w.describeBudget(name)
}

func (w *world) describeBudget(name string) string {
	s := w.getBudget(name).Status
	out := fmt.Sprintf("allowed %d, healthy %d of %d, expected %d, disrupted %v", s.DisruptionsAllowed, s.CurrentHealthy,
		s.DesiredHealthy, s.ExpectedPods, slices.Sorted(maps.Keys(s.DisruptedPods)))
	for _, c := range s.Conditions {
		out += fmt.Sprintf(", %s=%s %s %q", c.Type, c.Status, c.Reason, c.Message)
	}
	return out
}

// describe says how a pod is deleted.
func (w *world) describe(name string) string {
	p := w.get(name)
	if p == nil {
		return "gone"
	}
	out := string(p.Status.Phase)
	if p.DeletionTimestamp != nil {
		out += fmt.Sprintf(", deleted with %d s", *p.DeletionGracePeriodSeconds)
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.DisruptionTarget {
			out += fmt.Sprintf(", %s=%s %s %q", c.Type, c.Status, c.Reason, c.Message)
		}
	}
	return out
}

// evict evicts a pod, and describes the answer.
func (w *world) evict(name string, options ...func(*metav1.DeleteOptions)) string {
	return w.remove("POST", name, &policyv1.Eviction{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: name}, DeleteOptions: deleteOptions(options),
	}, "eviction")
}

// delete deletes a pod, and describes the answer.
func (w *world) delete(name string, options ...func(*metav1.DeleteOptions)) string {
	return w.remove("DELETE", name, deleteOptions(options))
}

func (w *world) remove(verb, name string, body runtime.Object, subresource ...string) string {
	result := w.client.CoreV1().RESTClient().Verb(verb).MaxRetries(0).Namespace(w.ns).Resource("pods").Name(name).
		SubResource(subresource...).Body(body).Do(w.t.Context())
	if err := result.Error(); err != nil {
		return w.answer(err)
	}
	code := 0
	result.StatusCode(&code)
	o, err := result.Get()
	w.must(err)
	return fmt.Sprintf("%d %T", code, o)
}

func deleteOptions(changes []func(*metav1.DeleteOptions)) *metav1.DeleteOptions {
	o := &metav1.DeleteOptions{}
	for _, change := range changes {
		change(o)
	}
	return o
}

func grace(seconds int64) func(*metav1.DeleteOptions) {
	return func(o *metav1.DeleteOptions) { o.GracePeriodSeconds = &seconds }
}

func uid(uid types.UID) func(*metav1.DeleteOptions) {
	return func(o *metav1.DeleteOptions) { o.Preconditions = &metav1.Preconditions{UID: &uid} }
}

func version(version string) func(*metav1.DeleteOptions) {
	return func(o *metav1.DeleteOptions) { o.Preconditions = &metav1.Preconditions{ResourceVersion: &version} }
}

func dryRun(o *metav1.DeleteOptions) { o.DryRun = []string{metav1.DryRunAll} }

// next returns the next event of a watch.
func (w *world) next(events watch.Interface) watch.Event {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	select {
	case e := <-events.ResultChan():
		return e
	case <-ctx.Done():
		w.t.Fatal("no event in a minute")
	}
	return watch.Event{}
}

// event describes an event of a watch.
func (w *world) event(e watch.Event) string {
	switch o := e.Object.(type) {
	case *metav1.Status:
		return fmt.Sprintf("%s %d %s", e.Type, o.Code, o.Reason)
	case metav1.Object:
		initial := o.GetAnnotations()[metav1.InitialEventsAnnotationKey]
		return strings.TrimSpace(fmt.Sprintf("%s %q %s", e.Type, o.GetName(), initial))
	}
	return fmt.Sprintf("%s %T", e.Type, e.Object)
}
