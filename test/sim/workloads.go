package sim

import (
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/node-drainer/node-drainer/pkg/handover"
	"github.com/node-drainer/node-drainer/test/sim/kube"
)

const namespace = "shop"

// createWorkloads creates the controllers of all pods, and their budgets.
func (c *cluster) createWorkloads() error {
	if c.Autoscaler {
		if err := c.createAutoscaler(); err != nil {
			return err
		}
	}
	for _, d := range c.Daemons {
		if err := c.server.Create(newDaemonSet(d)); err != nil {
			return err
		}
		if d.Budget != nil {
			if err := c.server.Create(newBudget(Workload{Name: d.Name}, 0, *d.Budget)); err != nil {
				return err
			}
		}
	}
	for _, w := range c.Workloads {
		if w.Group != nil {
			c.members[w.Name] = &group{cluster: c, spec: w}
		}
		for i, b := range w.Budgets {
			if err := c.server.Create(newBudget(w, i, b)); err != nil {
				return err
			}
		}
		controller, template := newController(w)
		if err := c.pin(w, template); err != nil {
			return err
		}
		if err := c.server.Create(controller); err != nil {
			return err
		}
	}
	return nil
}

// pin has the pods of a workload fit one node only, if they are to.
func (c *cluster) pin(w Workload, spec *corev1.PodSpec) error {
	nodes := kube.List[*corev1.Node](c.server)
	if w.Pinned == "" || len(nodes) == 0 {
		return nil
	}
	id := nodes[w.PinnedTo%len(nodes)].Name
	switch w.Pinned {
	case "selector":
		spec.NodeSelector = map[string]string{corev1.LabelHostname: id}
	case "name":
		spec.NodeName = id
	default:
		return fmt.Errorf("pods of %s are pinned by %q", w.Name, w.Pinned)
	}
	return nil
}

// newController returns what makes the pods of a workload, with the part of it that describes them. A bare pod is its
// own controller.
func newController(w Workload) (kube.Object, *corev1.PodSpec) {
	replicas := int32(w.Replicas)
	named := metav1.ObjectMeta{Namespace: namespace, Name: w.Name}
	template := podTemplate(w)
	selector := &metav1.LabelSelector{MatchLabels: template.Labels}
	switch w.Kind {
	case "statefulset":
		set := &appsv1.StatefulSet{
			ObjectMeta: named, Spec: appsv1.StatefulSetSpec{Replicas: &replicas, Selector: selector, Template: template},
		}
		return set, &set.Spec.Template.Spec
	case "restarted":
		d := &appsv1.Deployment{
			ObjectMeta: named, Spec: appsv1.DeploymentSpec{Replicas: &replicas, Selector: selector, Template: template},
		}
		return d, &d.Spec.Template.Spec
	case "operated":
		named.Annotations = map[string]string{kube.KindAnnotation: "example.com/v1/ExtendedDaemonSet"}
		set := &appsv1.DaemonSet{
			ObjectMeta: named, Spec: appsv1.DaemonSetSpec{Selector: selector, Template: template},
		}
		return set, &set.Spec.Template.Spec
	case "job":
		backoff := int32(100)
		job := &batchv1.Job{
			ObjectMeta: named,
			Spec:       batchv1.JobSpec{Parallelism: &replicas, BackoffLimit: &backoff, Template: template},
		}
		return job, &job.Spec.Template.Spec
	case "bare":
		pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
		pod.Namespace, pod.Name, pod.Status.Phase = namespace, w.Name, corev1.PodPending
		return pod, &pod.Spec
	}
	set := &appsv1.ReplicaSet{
		ObjectMeta: named, Spec: appsv1.ReplicaSetSpec{Replicas: &replicas, Selector: selector, Template: template},
	}
	return set, &set.Spec.Template.Spec
}

func podTemplate(w Workload) corev1.PodTemplateSpec {
	grace := int64(w.Grace / time.Second)
	out := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": w.Name}, Annotations: map[string]string{}},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: &grace, Priority: &w.Priority, Containers: []corev1.Container{{Name: "main"}},
		},
	}
	out.Annotations[kube.WorkAnnotation], out.Annotations[kube.StartAnnotation] = w.Stop.String(), w.Start.String()
	if w.Unready {
		out.Annotations[kube.BrokenAnnotation] = "true"
	}
	if w.Kind == "job" {
		out.Annotations[kube.RunAnnotation] = "40m"
	}
	if w.Kind == "restarted" {
		out.Annotations["node-drainer.io/drain"] = "restart"
	}
	if w.Wait {
		out.Annotations["node-drainer.io/drain"] = "wait"
	}
	if w.Group != nil {
		out.Annotations[handover.KindAnnotation] = groupKind
	}
	addRareStates(w, &out)
	if w.EmptyDir {
		out.Spec.Volumes = append(out.Spec.Volumes, corev1.Volume{
			Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
		})
	}
	return out
}

// addRareStates adds what few pods have.
func addRareStates(w Workload, pods *corev1.PodTemplateSpec) {
	if w.Tolerant {
		pods.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	}
	if w.Held > 0 {
		pods.Finalizers = []string{"example.com/hold"}
		pods.Annotations[kube.FinalizeAnnotation] = w.Held.String()
	}
	if w.Bytes > 0 {
		pods.Annotations["example.com/notes"] = strings.Repeat("x", w.Bytes)
	}
	if w.Detach > 0 {
		pods.Annotations[kube.DetachAnnotation] = w.Detach.String()
		pods.Spec.Volumes = append(pods.Spec.Volumes, corev1.Volume{
			Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: w.Name},
			},
		})
	}
}

func budgetName(w Workload, i int) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: w.Name + []string{"", "-2"}[i]}
}

func newBudget(w Workload, i int, b Budget) *policyv1.PodDisruptionBudget {
	name := budgetName(w, i)
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": w.Name}}
	out := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: selector},
	}
	if b.MinAvailable != "" {
		least := intstr.Parse(b.MinAvailable)
		out.Spec.MinAvailable = &least
	} else {
		most := intstr.Parse(b.MaxUnavailable)
		out.Spec.MaxUnavailable = &most
	}
	if b.AlwaysAllow {
		policy := policyv1.AlwaysAllow
		out.Spec.UnhealthyPodEvictionPolicy = &policy
	}
	return out
}

func newDaemonSet(d DaemonSet) *appsv1.DaemonSet {
	labels := map[string]string{"app": d.Name}
	out := &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: d.Name},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main"}}},
			},
		},
	}
	if d.Broken {
		out.Spec.Template.Annotations = map[string]string{kube.BrokenAnnotation: "true"}
	}
	if d.Tolerant {
		out.Spec.Template.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	}
	if d.Critical {
		out.Spec.Template.Spec.PriorityClassName = "system-node-critical"
	}
	return out
}
