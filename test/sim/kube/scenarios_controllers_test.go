package kube_test

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/node-drainer/node-drainer/test/sim/kube"
)

func (w *world) templateOf(app string, changes ...func(*corev1.Pod)) corev1.PodTemplateSpec {
	p := w.template(app, changes...)
	return corev1.PodTemplateSpec{ObjectMeta: p.ObjectMeta, Spec: p.Spec}
}

func selects(app string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
}

func (w *world) replicaSet(app string, n int32, changes ...func(*corev1.Pod)) {
	w.t.Helper()
	_, err := w.client.AppsV1().ReplicaSets(w.ns).Create(w.t.Context(), &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: app},
		Spec:       appsv1.ReplicaSetSpec{Replicas: &n, Selector: selects(app), Template: w.templateOf(app, changes...)},
	}, metav1.CreateOptions{})
	w.must(err)
	w.ready(app, int(n))
}

func (w *world) daemonSet(app string, changes ...func(*corev1.Pod)) {
	w.t.Helper()
	_, err := w.client.AppsV1().DaemonSets(w.ns).Create(w.t.Context(), &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: app},
		Spec:       appsv1.DaemonSetSpec{Selector: selects(app), Template: w.templateOf(app, changes...)},
	}, metav1.CreateOptions{})
	w.must(err)
}

// ready waits until so many pods of an app are Ready and not deleted.
func (w *world) ready(app string, n int) {
	w.t.Helper()
	w.until(fmt.Sprintf("%d pods of %s are Ready", n, app), func() bool {
		ready := 0
		for _, p := range w.pods(app) {
			if p.DeletionTimestamp == nil && w.isReady(&p) {
				ready++
			}
		}
		return ready == n
	})
}

// count says how many pods of an app there are, and how many of them are deleted.
func (w *world) count(app string) string {
	deleted := 0
	pods := w.pods(app)
	for _, p := range pods {
		if p.DeletionTimestamp != nil {
			deleted++
		}
	}
	return fmt.Sprintf("%d pods, %d deleted", len(pods), deleted)
}

func tolerate(p *corev1.Pod) {
	p.Spec.Tolerations = []corev1.Toleration{{Key: "terminating", Operator: corev1.TolerationOpExists}}
}

const taintPatch = `{"spec":{"taints":[{"key":"terminating","effect":"%s"}]}}`

// controllerScenarios are about what the controllers do.
var controllerScenarios = []scenario{
	{"replicas", func(w *world) {
		w.replicaSet("web", 3)
		w.budget("web", "web", func(s *policyv1.PodDisruptionBudgetSpec) { s.MaxUnavailable = new(intstr.FromString("50%")) })
		w.say("budget: %s", w.counted("web", 3))
		for _, p := range w.pods("web")[:2] {
			w.say("evict: %s", w.evict(p.Name))
		}
		w.ready("web", 3)
		w.say("after: %s", w.count("web"))
		w.say("budget: %s", w.counted("web", 3))
	}, `
		budget: allowed 2, healthy 3 of 1, expected 3, disrupted [], DisruptionAllowed=True SufficientPods ""
		evict: 201 *v1.Status
		evict: 201 *v1.Status
		after: 5 pods, 2 deleted
		budget: allowed 2, healthy 3 of 1, expected 3, disrupted [], DisruptionAllowed=True SufficientPods ""`},
	{"percentage of pods that must be available", func(w *world) {
		w.replicaSet("web", 3, quick)
		w.budget("web", "web", func(s *policyv1.PodDisruptionBudgetSpec) { s.MinAvailable = new(intstr.FromString("50%")) })
		w.say("budget: %s", w.counted("web", 3))
	}, `
		budget: allowed 1, healthy 3 of 2, expected 3, disrupted [], DisruptionAllowed=True SufficientPods ""`},
	{"budget without pods", func(w *world) {
		w.budget("web", "web", func(s *policyv1.PodDisruptionBudgetSpec) { s.MaxUnavailable = new(intstr.FromInt(1)) })
		w.say("budget: %s", w.counted("web", 0))
	}, `
		budget: allowed 0, healthy 0 of 0, expected 0, disrupted [], DisruptionAllowed=False InsufficientPods ""`},
	{"budget of pods without a controller", func(w *world) {
		w.pod("a", quick)
		w.budget("web", "web", func(s *policyv1.PodDisruptionBudgetSpec) { s.MaxUnavailable = new(intstr.FromInt(1)) })
		w.say("budget: %s", w.counted("web", 1))
		w.say("evict: %s", w.evict("a"))
	}, `
		budget: allowed 0, healthy 1 of 0, expected 0, disrupted [], DisruptionAllowed=False InsufficientPods ""
		evict: 429 TooManyRequests: Cannot evict pod as it would violate the pod's disruption budget. (DisruptionBudget : The disruption budget web does not allow evicting pods currently)`},
	{"budget of a DaemonSet", func(w *world) {
		w.daemonSet("agent", quick)
		w.ready("agent", 1)
		w.budget("web", "agent", func(s *policyv1.PodDisruptionBudgetSpec) { s.MaxUnavailable = new(intstr.FromInt(1)) })
		w.say("budget: %s", w.describeBudget("web"))
		w.say("evict: %s", w.evict(w.pods("agent")[0].Name))
	}, `
		budget: allowed 0, healthy 0 of 0, expected 0, disrupted [], DisruptionAllowed=False SyncFailed "daemonsets.apps does not implement the scale subresource"
		evict: 429 TooManyRequests: Cannot evict pod as it would violate the pod's disruption budget. (DisruptionBudget : The disruption budget web is still being processed by the server.) retry after 10 s`},
	{"StatefulSet", func(w *world) {
		_, err := w.client.AppsV1().StatefulSets(w.ns).Create(w.t.Context(), &appsv1.StatefulSet{
			ObjectMeta: metav1.ObjectMeta{Name: "db"},
			Spec: appsv1.StatefulSetSpec{
				Replicas: new(int32(2)), ServiceName: "db", Selector: selects("db"), Template: w.templateOf("db"),
			},
		}, metav1.CreateOptions{})
		w.must(err)
		w.ready("db", 2)
		w.say("pods: %s %s", w.pods("db")[0].Name, w.pods("db")[1].Name)
		uid := w.get("db-0").UID
		w.say("evict: %s", w.evict("db-0"))
		w.say("pods: %s, same: %v", w.count("db"), w.get("db-0").UID == uid)
		w.say("delete: %s", w.delete("db-0", grace(0)))
		w.ready("db", 2)
		w.say("same: %v", w.get("db-0").UID == uid)
	}, `
		pods: db-0 db-1
		evict: 201 *v1.Status
		pods: 2 pods, 1 deleted, same: true
		delete: 200 *v1.Pod
		same: false`},
	{"DaemonSets on a node with a taint", func(w *world) {
		w.daemonSet("tolerates", tolerate)
		w.daemonSet("plain")
		w.ready("tolerates", 1)
		w.ready("plain", 1)
		w.say("taint: %s", w.patchNode(types.MergePatchType, fmt.Sprintf(taintPatch, "NoSchedule")))
		w.daemonSet("later")
		w.daemonSet("tolerates-later", tolerate)
		w.ready("tolerates-later", 1)
		for _, app := range []string{"tolerates", "plain", "later"} {
			w.say("%s: %s", app, w.count(app))
		}
		for _, app := range []string{"tolerates", "plain"} {
			name := w.pods(app)[0].Name
			w.say("evict: %s", w.evict(name))
			w.say("%s: %s", app, w.count(app))
			w.say("delete: %s", w.delete(name, grace(0)))
		}
		w.ready("tolerates", 1)
		w.say("plain: %s", w.count("plain"))
	}, `
		taint: ok
		tolerates: 1 pods, 0 deleted
		plain: 1 pods, 0 deleted
		later: 0 pods, 0 deleted
		evict: 201 *v1.Status
		tolerates: 1 pods, 1 deleted
		delete: 200 *v1.Pod
		evict: 201 *v1.Status
		plain: 1 pods, 1 deleted
		delete: 200 *v1.Pod
		plain: 0 pods, 0 deleted`},
	{"DaemonSet on an unschedulable node", func(w *world) {
		w.say("cordon: %s", w.patchNode(types.MergePatchType, `{"spec":{"unschedulable":true}}`))
		w.until("it has the taint", func() bool { return w.taints() != "" })
		w.say("taints: %s", w.taints())
		w.daemonSet("agent")
		w.ready("agent", 1)
		w.pod("a", func(p *corev1.Pod) {
			p.Spec.NodeSelector = map[string]string{poolLabel: w.ns}
			p.Spec.Tolerations = []corev1.Toleration{{Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists}}
		})
		w.say("uncordon: %s", w.patchNode(types.MergePatchType, `{"spec":{"unschedulable":null}}`))
		w.until("it has no taint", func() bool { return w.taints() == "" })
	}, `
		cordon: ok
		taints: node.kubernetes.io/unschedulable:NoSchedule
		uncordon: ok`},
	{"NoExecute", func(w *world) {
		w.pod("a")
		w.pod("b", tolerate)
		w.pod("c", func(p *corev1.Pod) {
			tolerate(p)
			p.Spec.Tolerations[0].Effect = corev1.TaintEffectNoExecute
			p.Spec.Tolerations[0].TolerationSeconds = new(int64(3))
		})
		w.say("taint: %s", w.patchNode(types.MergePatchType, fmt.Sprintf(taintPatch, "NoExecute")))
		w.until("a is deleted", func() bool { return w.get("a").DeletionTimestamp != nil })
		w.say("a: %s", w.describe("a"))
		w.say("c: %s", w.describe("c"))
		w.until("c is deleted", func() bool { return w.get("c").DeletionTimestamp != nil })
		w.say("b: %s", w.describe("b"))
		w.say("c: %s", w.describe("c"))
	}, `
		taint: ok
		a: Running, deleted with 7200 s, DisruptionTarget=True DeletionByTaintManager "Taint manager: deleting due to NoExecute taint"
		c: Running
		b: Running
		c: Running, deleted with 7200 s, DisruptionTarget=True DeletionByTaintManager "Taint manager: deleting due to NoExecute taint"`},
	{"Job whose pod is evicted", jobScenario(0, nil), `
		evict: 201 *v1.Status
		failed`},
	{"Job whose pod is evicted, with a backoffLimit", jobScenario(1, nil), `
		evict: 201 *v1.Status
		another pod is Ready`},
	{"Job whose pod is evicted, with a policy", jobScenario(0, &batchv1.PodFailurePolicy{
		Rules: []batchv1.PodFailurePolicyRule{{
			Action: batchv1.PodFailurePolicyActionIgnore,
			OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{
				Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
			}},
		}},
	}), `
		evict: 201 *v1.Status
		another pod is Ready`},
}

// fail is what kubelets do with a deleted pod when its containers have ended, and kwok does not.
func (w *world) fail(pod string) {
	_, err := w.client.CoreV1().Pods(w.ns).Patch(w.t.Context(), pod, types.StrategicMergePatchType,
		[]byte(`{"status":{"phase":"Failed"}}`), metav1.PatchOptions{}, "status")
	if !apierrors.IsNotFound(err) {
		w.must(err)
	}
}

// jobScenario evicts the pod of a Job, and waits until another one runs or the Job has failed.
func jobScenario(limit int32, policy *batchv1.PodFailurePolicy) func(*world) {
	return func(w *world) {
		template := w.templateOf("job", quick, func(p *corev1.Pod) {
			p.Annotations["node-drainer.test/run"] = "3600"
			p.Annotations[kube.RunAnnotation] = "1h"
		})
		template.Spec.RestartPolicy = corev1.RestartPolicyNever
		_, err := w.client.BatchV1().Jobs(w.ns).Create(w.t.Context(), &batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{Name: "job"},
			Spec:       batchv1.JobSpec{BackoffLimit: &limit, PodFailurePolicy: policy, Template: template},
		}, metav1.CreateOptions{})
		w.must(err)
		w.ready("job", 1)
		first := w.pods("job")[0].Name
		w.say("evict: %s", w.evict(first))
		w.fail(first)
		w.until("the Job goes on or fails", func() bool {
			job, err := w.client.BatchV1().Jobs(w.ns).Get(w.t.Context(), "job", metav1.GetOptions{})
			w.must(err)
			for _, c := range job.Status.Conditions {
				if c.Type == batchv1.JobFailed && c.Status == corev1.ConditionTrue {
					w.say("failed")
					return true
				}
			}
			return slices.ContainsFunc(w.pods("job"), func(p corev1.Pod) bool {
				another := !strings.HasPrefix(p.Name, first) && p.DeletionTimestamp == nil && w.isReady(&p)
				if another {
					w.say("another pod is Ready")
				}
				return another
			})
		})
	}
}
