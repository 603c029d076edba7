package cluster

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
)

// AppLabel holds the name of the workload that a pod belongs to.
const AppLabel = "app"

// Pods describes the pods of a workload. The zero value is a pod that starts in a second, stops at once, and
// runs on any node.
type Pods struct {
	Start       time.Duration // From bound to Ready; a second if 0.
	Stop        time.Duration // How long the process takes to stop, at most the grace period.
	Run         time.Duration // Of a Job's pod: from Ready to completed; a second if 0.
	GracePeriod time.Duration // In whole seconds; 30 s, the API's default, if 0.

	Annotations   map[string]string
	Pool          string // Only nodes of this pool.
	Node          string // Only this node; a replacement of the pod waits for it.
	Prefer        string // This node while it accepts pods, else another one.
	NodeSelector  map[string]string
	Tolerations   []corev1.Toleration
	PriorityClass string
	Change        func(*corev1.PodTemplateSpec) // Changes the finished template.
}

// Workloads creates the pods of a cluster and the workloads that manage them.
type Workloads struct{ client kubernetes.Interface }

// Deployment describes a Deployment. Its pods have AppLabel with its name.
type Deployment struct {
	Namespace, Name string
	Replicas        int32
	Pods
}

// Selector returns the label selector of the pods of the workload of that name.
func Selector(name string) string { return AppLabel + "=" + name }

// Deploy creates a Deployment. It does not wait: see WaitReady.
func (w Workloads) Deploy(ctx context.Context, d Deployment) error {
	_, err := w.client.AppsV1().Deployments(d.Namespace).Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: d.Name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &d.Replicas, Selector: matching(d.Name), Template: d.template(d.Name),
		},
	}, metav1.CreateOptions{})
	return err
}

// DaemonSet creates a DaemonSet. p.Node and p.Prefer must be empty.
func (w Workloads) DaemonSet(ctx context.Context, namespace, name string, p Pods) error {
	_, err := w.client.AppsV1().DaemonSets(namespace).Create(ctx, &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       appsv1.DaemonSetSpec{Selector: matching(name), Template: p.template(name)},
	}, metav1.CreateOptions{})
	return err
}

// StatefulSet creates a StatefulSet, which creates its pods one after the other.
func (w Workloads) StatefulSet(ctx context.Context, namespace, name string, replicas int32, p Pods) error {
	_, err := w.client.AppsV1().StatefulSets(namespace).Create(ctx, &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &replicas, ServiceName: name, Selector: matching(name), Template: p.template(name),
		},
	}, metav1.CreateOptions{})
	return err
}

// Job creates a Job of n pods that run in parallel and complete after p.Run.
func (w Workloads) Job(ctx context.Context, namespace, name string, n int32, p Pods) error {
	template := p.template(name)
	template.Spec.RestartPolicy = corev1.RestartPolicyNever
	_, err := w.client.BatchV1().Jobs(namespace).Create(ctx, &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       batchv1.JobSpec{Parallelism: &n, Completions: &n, Template: template},
	}, metav1.CreateOptions{})
	return err
}

// Pod creates a pod without an owner, so nothing replaces it.
func (w Workloads) Pod(ctx context.Context, namespace, name string, p Pods) error {
	template := p.template(name)
	template.Name = name
	_, err := w.client.CoreV1().Pods(namespace).Create(ctx, &corev1.Pod{
		ObjectMeta: template.ObjectMeta, Spec: template.Spec,
	}, metav1.CreateOptions{})
	return err
}

// WaitReady returns when at least n pods of the selector are Ready and none of these is terminating.
func (w Workloads) WaitReady(ctx context.Context, namespace, selector string, n int) error {
	ready := 0
	err := w.WaitPods(ctx, namespace, selector, func(pods []*corev1.Pod) bool {
		ready = 0
		for _, p := range pods {
			if IsPodReady(p) {
				ready++
			}
		}
		return ready >= n
	})
	if err != nil {
		return fmt.Errorf("wait for %d ready pods of %s in %s (%d are): %w", n, selector, namespace, ready, err)
	}
	return nil
}

// WaitPods returns when done is true of the pods of the selector.
func (w Workloads) WaitPods(
	ctx context.Context, namespace, selector string, done func([]*corev1.Pod) bool,
) error {
	parsed, err := labels.Parse(selector)
	if err != nil {
		return err
	}
	s := selection{rest: w.client.CoreV1().RESTClient(), resource: "pods", namespace: namespace, labels: parsed}
	return until(ctx, s, &corev1.Pod{}, done)
}

// IsPodReady reports whether a pod is Ready and is not being deleted.
func IsPodReady(p *corev1.Pod) bool {
	for _, condition := range p.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue && p.DeletionTimestamp == nil
		}
	}
	return false
}

func matching(name string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{AppLabel: name}}
}

// template is the pod that p describes.
func (p Pods) template(name string) corev1.PodTemplateSpec {
	t := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{AppLabel: name}, Annotations: p.times()},
		Spec: corev1.PodSpec{
			Containers:        []corev1.Container{{Name: "main", Image: "registry.example/app:1"}},
			NodeSelector:      p.nodeSelector(),
			Tolerations:       p.Tolerations,
			PriorityClassName: p.PriorityClass,
		},
	}
	maps.Copy(t.Annotations, p.Annotations)
	if p.GracePeriod > 0 {
		grace := int64(p.GracePeriod.Seconds())
		t.Spec.TerminationGracePeriodSeconds = &grace
	}
	if p.Prefer != "" {
		t.Spec.Affinity = preferring(p.Prefer)
	}
	if p.Change != nil {
		p.Change(&t)
	}
	return t
}

// times returns the annotations by which the stages know how long the pod takes to start, to run and to stop.
func (p Pods) times() map[string]string {
	annotations := map[string]string{}
	for what, d := range map[string]time.Duration{"start": p.Start, "stop": p.Stop, "run": p.Run} {
		if d > 0 {
			annotations["node-drainer.test/"+what] = strconv.FormatFloat(d.Seconds(), 'f', -1, 64)
		}
	}
	return annotations
}

func (p Pods) nodeSelector() map[string]string {
	selector := map[string]string{}
	if p.Pool != "" {
		selector[PoolLabel] = p.Pool
	}
	if p.Node != "" {
		selector[corev1.LabelHostname] = p.Node
	}
	maps.Copy(selector, p.NodeSelector)
	return selector
}

// preferring draws pods to one node as strongly as the scheduler knows, and binds them to none.
func preferring(node string) *corev1.Affinity {
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
			Weight: 100,
			Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{
				Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node},
			}}},
		}},
	}}
}

// Apart keeps the pods of the workloads on a node of their own each.
func Apart(workloads ...string) *corev1.Affinity {
	return &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			TopologyKey: corev1.LabelHostname,
			LabelSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
				Key: AppLabel, Operator: metav1.LabelSelectorOpIn, Values: workloads,
			}}},
		}},
	}}
}
