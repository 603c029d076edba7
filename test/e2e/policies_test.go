//go:build e2e

package e2e

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/node-drainer/node-drainer/test/cluster"
)

// assertOrder holds if the pods were evicted in this order.
func (w *world) assertOrder(want ...string) {
	w.t.Helper()
	if got := w.evicted(); !slices.Equal(got, want) {
		w.t.Errorf("evicted in the order\n%q\nwant\n%q", got, want)
	}
}

// pod runs a pod that nothing owns on the node, and waits until it is ready.
func (w *world) pod(name, node string, pods cluster.Pods) {
	w.t.Helper()
	pods.Node, pods.Pool = node, w.namespace
	w.must(w.cluster.Pod(w.ctx, w.namespace, name, pods))
	w.waitPodsReady(name, 1)
}

// TestOrder: pods go tier by tier, those that serve the others' volumes after them, and the agent's own pod last.
// Pods of DaemonSets that would come back stay.
func TestOrder(t *testing.T) {
	t.Parallel()
	w := hooked(t, time.Minute)
	old, instance := w.node()
	w.must(w.cluster.PriorityClass(w.ctx, "node-drainer-test-high", 1000))
	w.pod("self", old, cluster.Pods{})
	w.pod("csi", old, cluster.Pods{Change: func(p *corev1.PodTemplateSpec) {
		p.Spec.Volumes = []corev1.Volume{{Name: "r", VolumeSource: corev1.VolumeSource{
			HostPath: &corev1.HostPathVolumeSource{Path: "/var/lib/kubelet/plugins_registry"},
		}}}
	}})
	w.pod("high", old, cluster.Pods{PriorityClass: "node-drainer-test-high", Stop: time.Second})
	w.pod("low", old, cluster.Pods{Stop: time.Second})
	w.must(w.cluster.DaemonSet(w.ctx, w.namespace, "logs", cluster.Pods{
		Node: old, Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
	}))
	w.waitPodsReady("logs", 1)
	w.startAgent("DRAIN_TIERS=0,1000", "POD_NAME=self", "POD_NAMESPACE="+w.namespace)
	w.terminate(instance)
	w.waitCompleted(instance)
	w.assertOrder("low", "high", "csi", "self")
}

// TestDaemonThatDoesNotComeBack: a pod of a DaemonSet that the taint keeps away leaves with the others.
func TestDaemonThatDoesNotComeBack(t *testing.T) {
	t.Parallel()
	w := hooked(t, time.Minute)
	old, instance := w.node()
	w.must(w.cluster.DaemonSet(w.ctx, w.namespace, "shy", cluster.Pods{Node: old}))
	w.waitPodsReady("shy", 1)
	before := w.podsOf("shy")
	w.startAgent()
	w.terminate(instance)
	w.waitCompleted(instance)
	w.assertEvictedOnce(before)
}

// TestWaitedFor: pods that are to be waited for are not evicted while there is time.
func TestWaitedFor(t *testing.T) {
	annotated := func(key, value string) cluster.Pods {
		return cluster.Pods{Annotations: map[string]string{key: value}, GracePeriod: 10 * time.Second}
	}
	tests := map[string]struct {
		env    []string
		pods   cluster.Pods
		forced bool // at the deadline; otherwise evicted
	}{
		"a pod that is not safe to evict": {
			pods: annotated("cluster-autoscaler.kubernetes.io/safe-to-evict", "false"), forced: true,
		},
		"a pod not to be disrupted":   {pods: annotated("karpenter.sh/do-not-disrupt", "true"), forced: true},
		"a pod that asks for it":      {pods: annotated("node-drainer.io/drain", "wait"), forced: true},
		"for as long as the pod asks": {pods: annotated("karpenter.sh/do-not-disrupt", "8s")},
		"unless it says evict": {
			env: []string{"DRAIN_BARE_PODS=wait"}, pods: annotated("node-drainer.io/drain", "evict"),
		},
		"a bare pod":                  {env: []string{"DRAIN_BARE_PODS=wait"}, pods: cluster.Pods{GracePeriod: 10 * time.Second}, forced: true},
		"a pod that the selector has": {env: []string{"DRAIN_WAIT_SELECTOR=app=one"}, pods: cluster.Pods{GracePeriod: 10 * time.Second}, forced: true},
		"but not in other namespaces": {env: []string{"DRAIN_WAIT_SELECTOR=app=one", "DRAIN_WAIT_NAMESPACES=batch"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := hooked(t, time.Minute)
			old, instance := w.node()
			w.pod("one", old, tt.pods)
			timeout := map[bool]string{true: "20s", false: "1m"}[tt.forced]
			agent := w.startAgent(append(tt.env, "DRAIN_TIMEOUT="+timeout, "DRAIN_BLOCKED_AFTER=1s")...)
			w.terminate(instance)
			w.waitCompleted(instance)
			agent.waitLog("termination ended", "outcome", "drained")
			if tt.forced {
				w.assertEvictedOnce(nil)
				w.waitEvent("EvictionPostponed")
				w.waitEvent("DeletedAtDeadline")
			} else {
				w.assertEvictedOnce([]string{"one"})
			}
		})
	}
}

// TestJobThatEnds: with DRAIN_WAIT_FOR_JOBS a Job's pod runs to its end, and nothing is evicted or deleted.
func TestJobThatEnds(t *testing.T) {
	t.Parallel()
	w := hooked(t, time.Minute)
	old, instance := w.node()
	w.must(w.cluster.Job(w.ctx, w.namespace, "batch", 1, cluster.Pods{Node: old, Run: 8 * time.Second}))
	w.waitPodsReady("batch", 1)
	w.startAgent("DRAIN_WAIT_FOR_JOBS=true")
	w.terminate(instance)
	w.waitCompleted(instance)
	w.assertEvictedOnce(nil)
	if deleted := w.requests("delete", "pods"); len(deleted) > 0 {
		t.Errorf("%d pods were deleted", len(deleted))
	}
}

// TestMisconfiguredBudgets: a budget that never allows a disruption is named at once, is not asked, and ends at the
// deadline.
func TestMisconfiguredBudgets(t *testing.T) {
	tests := map[string]func(w *world){
		"a budget that allows none though all its pods are healthy": func(w *world) {
			w.must(w.cluster.MinAvailable(w.ctx, w.namespace, "db", "1"))
		},
		"two budgets over one pod": func(w *world) {
			w.must(w.cluster.MaxUnavailable(w.ctx, w.namespace, "db", "1"))
			budgets := w.cluster.Client().PolicyV1().PodDisruptionBudgets(w.namespace)
			first, err := budgets.Get(w.ctx, "db", metav1.GetOptions{})
			w.must(err)
			second := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "second"}, Spec: first.Spec}
			_, err = budgets.Create(w.ctx, second, metav1.CreateOptions{})
			w.must(err)
		},
	}
	for name, budgets := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := hooked(t, time.Minute)
			old, instance := w.node()
			w.node()
			w.deploy("db", old, 1, cluster.Pods{Stop: time.Second, GracePeriod: 10 * time.Second})
			budgets(w)
			agent := w.startAgent("DRAIN_TIMEOUT=20s", "DRAIN_BLOCKED_AFTER=1h")
			w.terminate(instance)
			w.waitEvent("BudgetMisconfigured")
			w.waitCompleted(instance)
			agent.waitLog("termination ended", "outcome", "drained")
			if asked := w.requests("create", "pods/eviction"); len(asked) > 0 {
				t.Errorf("%d evictions were asked for", len(asked))
			}
		})
	}
}

// TestOneBudgetOverManyNodes: drains share what a budget allows, and ask for no more.
func TestOneBudgetOverManyNodes(t *testing.T) {
	t.Parallel()
	w := hooked(t, time.Minute)
	var instances []string
	for range 3 {
		_, instance := w.node()
		instances = append(instances, instance)
	}
	w.must(w.cluster.Deploy(w.ctx, cluster.Deployment{
		Namespace: w.namespace, Name: "api", Replicas: 12, Pods: cluster.Pods{Pool: w.namespace, Stop: 2 * time.Second},
	}))
	w.waitPodsReady("api", 12)
	w.must(w.cluster.MaxUnavailable(w.ctx, w.namespace, "api", "2"))
	before := w.podsOf("api")
	w.node()
	lowest := w.watchReady("api")
	w.startAgent()
	for _, instance := range instances {
		w.terminate(instance)
	}
	for _, instance := range instances {
		w.waitCompleted(instance)
	}
	w.assertEvictedOnce(before)
	refused := 0
	for _, r := range w.requests("create", "pods/eviction") {
		if r.Code == http.StatusTooManyRequests {
			refused++
		}
	}
	if refused > 2 { // the disruption controller may be slower to count than the watch
		t.Errorf("%d evictions were refused", refused)
	}
	if n := lowest(); n < 10 {
		t.Errorf("only %d pods of api were ready at one time, its budget asks for 10", n)
	}
}

// TestBurstEvictsOnce: in a burst every node is marked before the first pod moves, so that none moves twice. If each
// were marked and drained by itself, two in three of the pods would.
func TestBurstEvictsOnce(t *testing.T) {
	t.Parallel()
	w := hooked(t, time.Minute)
	var instances []string
	for range 12 {
		_, instance := w.node()
		instances = append(instances, instance)
	}
	w.must(w.cluster.Deploy(w.ctx, cluster.Deployment{
		Namespace: w.namespace, Name: "web", Replicas: 36, Pods: cluster.Pods{Pool: w.namespace, Stop: 2 * time.Second},
	}))
	w.waitPodsReady("web", 36)
	before := w.podsOf("web")
	w.node()
	for _, instance := range instances {
		w.terminate(instance)
	}
	agent := w.beginAgent()
	for _, instance := range instances {
		w.waitCompleted(instance)
	}
	var marked []time.Time
	for _, instance := range instances {
		marked = append(marked, agent.waitLog("node cordoned", "instance", instance).at(t))
	}
	took := slices.MaxFunc(marked, time.Time.Compare).Sub(slices.MinFunc(marked, time.Time.Compare))
	twice := len(w.evicted()) - len(before)
	t.Logf("all nodes were marked within %v; %d pods moved twice", took, twice)
	if took < time.Second && (twice < 0 || twice > 3) { // For no longer do the drains wait for each other.
		t.Errorf("%d pods moved twice", twice)
	}
}

// TestForcedOneByOne: pods that their budget never lets go are deleted one after the other, each when the one
// before it has been replaced.
func TestForcedOneByOne(t *testing.T) {
	t.Parallel()
	w := hooked(t, time.Minute)
	old, instance := w.node()
	w.node()
	w.deploy("db", old, 3, cluster.Pods{Stop: time.Second, GracePeriod: 2 * time.Second})
	w.must(w.cluster.MinAvailable(w.ctx, w.namespace, "db", "3"))
	lowest := w.watchReady("db")
	w.startAgent("DRAIN_TIMEOUT=60s", "DRAIN_FORCE_SPACING=14s")
	w.terminate(instance)
	w.waitCompleted(instance)
	if n := lowest(); n < 2 {
		t.Errorf("only %d pods of db were ready at one time, want 2", n)
	}
}

// TestUnhealthyPod: a pod that serves nobody is not protected for ever, if the user says so.
func TestUnhealthyPod(t *testing.T) {
	t.Parallel()
	w := hooked(t, time.Minute)
	old, instance := w.node()
	w.node()
	w.deploy("db", old, 1, cluster.Pods{Stop: time.Second})
	w.must(w.cluster.MinAvailable(w.ctx, w.namespace, "db", "1"))
	sick := []byte(`{"status":{"conditions":[{"type":"Ready","status":"False","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`)
	for _, name := range w.podsOf("db") {
		_, err := w.cluster.Client().CoreV1().Pods(w.namespace).Patch(w.ctx, name,
			types.StrategicMergePatchType, sick, metav1.PatchOptions{}, "status")
		w.must(err)
	}
	w.must(w.cluster.WaitBudget(patient(w.t), w.namespace, "db", func(status policyv1.PodDisruptionBudgetStatus) bool {
		return status.CurrentHealthy == 0
	}))
	agent := w.startAgent("DRAIN_FORCE_UNHEALTHY_AFTER=1m")
	w.terminate(instance)
	w.waitCompleted(instance)
	agent.waitLog("termination ended", "outcome", "drained")
	w.waitEvent("DeletedUnhealthy")
}

// TestStuckPods: a pod that never ends, long past its grace, does not hold the instance until the deadline.
func TestStuckPods(t *testing.T) {
	tests := map[string]struct {
		env  []string
		lost bool
	}{
		"a pod that is stuck":              {env: []string{"DRAIN_STUCK_AFTER=3s"}},
		"pods of a node that is not Ready": {lost: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := hooked(t, time.Minute)
			w.mayKill = true
			old, instance := w.node()
			w.pod("stuck", old, cluster.Pods{GracePeriod: time.Second, Change: func(p *corev1.PodTemplateSpec) {
				p.Finalizers = []string{"node-drainer.test/stuck"}
			}})
			t.Cleanup(func() {
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				defer cancel()
				_, err := w.cluster.Client().CoreV1().Pods(w.namespace).Patch(ctx, "stuck", types.MergePatchType,
					[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
				if err != nil {
					t.Log(err)
				}
			})
			if tt.lost {
				w.must(w.cluster.MarkUnready(w.ctx, old))
			}
			agent := w.startAgent(tt.env...)
			w.terminate(instance)
			w.waitCompleted(instance)
			agent.waitLog("termination ended", "outcome", "left-behind")
			w.waitEvent("PodsLeftBehind")
		})
	}
}

// TestVolumes: the instance is held until the volumes of the pods that left are detached, for as long as is
// configured.
func TestVolumes(t *testing.T) {
	for name, detached := range map[string]bool{"until they are detached": true, "for no longer than configured": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := hooked(t, time.Minute)
			old, instance := w.node()
			w.pod("db", old, cluster.Pods{})
			volume, attacher := "pv-"+w.namespace, w.namespace
			attachments := w.cluster.Client().StorageV1().VolumeAttachments()
			_, err := attachments.Create(w.ctx, &storagev1.VolumeAttachment{
				ObjectMeta: metav1.ObjectMeta{Name: attacher},
				Spec: storagev1.VolumeAttachmentSpec{
					Attacher: "test", NodeName: old, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &volume},
				},
			}, metav1.CreateOptions{})
			w.must(err)
			remove := func() {
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				defer cancel()
				_ = attachments.Delete(ctx, attacher, metav1.DeleteOptions{})
			}
			t.Cleanup(remove)
			timeout := map[bool]string{true: "30m", false: "3s"}[detached]
			agent := w.startAgent("DRAIN_VOLUME_TIMEOUT=" + timeout)
			w.terminate(instance)
			if detached {
				agent.waitLog("draining", "left", "0", "waiting", "1 volumes are still attached")
				if n := agent.count("node drained"); n > 0 {
					t.Errorf("the drain ended while a volume was attached")
				}
				remove()
			}
			w.waitCompleted(instance)
			if told := agent.count("volumes are still attached") > 0; told == detached {
				t.Errorf("volumes that are left attached were told of: %v", told)
			}
		})
	}
}

// TestLatePod: a pod that the scheduler bound before it saw the taint is moved like the others.
func TestLatePod(t *testing.T) {
	t.Parallel()
	w := hooked(t, time.Minute)
	old, instance := w.node()
	w.node()
	w.deploy("api", old, 1, cluster.Pods{Stop: 15 * time.Second}) // Time to be late in.
	agent := w.startAgent()
	w.terminate(instance)
	agent.waitLog("node cordoned")
	_, err := w.cluster.Client().CoreV1().Pods(w.namespace).Create(w.ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "late"},
		Spec:       corev1.PodSpec{NodeName: old, Containers: []corev1.Container{{Name: "main", Image: "registry.example/app:1"}}},
	}, metav1.CreateOptions{})
	w.must(err)
	w.waitCompleted(instance)
	if !slices.Contains(w.evicted(), "late") {
		t.Errorf("evicted %q, not the late pod", w.evicted())
	}
}
