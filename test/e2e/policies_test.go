//go:build e2e

package e2e

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/node-drainer/node-drainer/internal/node"
	"github.com/node-drainer/node-drainer/test/cluster"
)

// assertOrder expects that the pods were evicted in this order.
func (f *fixture) assertOrder(want ...string) {
	f.t.Helper()
	if got := f.evicted(); !slices.Equal(got, want) {
		f.t.Errorf("evicted in the order\n%q\nwant\n%q", got, want)
	}
}

// pod runs a pod that nothing owns on the node, and waits until it is ready.
func (f *fixture) pod(name, node string, pods cluster.Pods) {
	f.t.Helper()
	pods.Node, pods.Pool = node, f.namespace
	f.must(f.cluster.Pod(f.ctx, f.namespace, name, pods))
	f.waitPodsReady(name, 1)
}

// TestOrder: pods go tier by tier, then those of DaemonSets, those that serve volumes, and the agent's own pod.
// Pods of DaemonSets that tolerate the taint stay.
func TestOrder(t *testing.T) {
	t.Parallel()
	f := newFixtureWithHook(t)
	old, instance := f.node()
	f.pod("self", old, cluster.Pods{})
	f.pod("csi", old, cluster.Pods{Change: func(p *corev1.PodTemplateSpec) {
		p.Spec.Volumes = []corev1.Volume{{Name: "r", VolumeSource: corev1.VolumeSource{
			HostPath: &corev1.HostPathVolumeSource{Path: "/var/lib/kubelet/plugins_registry"},
		}}}
	}})
	f.pod("high", old, cluster.Pods{PriorityClass: "system-cluster-critical", Stop: time.Second})
	f.pod("low", old, cluster.Pods{Stop: time.Second})
	f.must(f.cluster.DaemonSet(f.ctx, f.namespace, "agent", cluster.Pods{Node: old, PriorityClass: "system-node-critical"}))
	f.waitPodsReady("agent", 1)
	f.must(f.cluster.DaemonSet(f.ctx, f.namespace, "logs", cluster.Pods{
		Node: old, Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
	}))
	f.waitPodsReady("logs", 1)
	daemon := f.podsOf("agent")[0]
	f.startAgent("DRAIN_TIERS=0,1000", "POD_NAME=self", "POD_NAMESPACE="+f.namespace)
	f.terminate(instance)
	f.waitCompleted(instance)
	f.assertOrder("low", "high", daemon, "csi", "self")
}

// TestWaitedFor: pods that are to be waited for are not evicted while there is time.
func TestWaitedFor(t *testing.T) {
	t.Parallel()
	annotated := func(key, value string) cluster.Pods {
		return cluster.Pods{Annotations: map[string]string{key: value}, GracePeriod: 10 * time.Second}
	}
	tests := map[string]struct {
		env    []string
		pods   cluster.Pods
		forced bool // evicted at the deadline
	}{
		"a pod that is not safe to evict": {
			pods: annotated("cluster-autoscaler.kubernetes.io/safe-to-evict", "false"), forced: true,
		},
		"a pod that is waited for as long as its annotation says": {pods: annotated("karpenter.sh/do-not-disrupt", "8s")},
		"unless it says evict": {
			env: []string{"DRAIN_BARE_PODS=wait"}, pods: annotated("node-drainer.io/drain", "evict"),
		},
		"nor in a namespace whose annotations do not count": {
			env: []string{"DRAIN_ANNOTATION_NAMESPACES=batch"}, pods: annotated("node-drainer.io/drain", "wait"),
		},
		"nor for longer than annotations count": {
			env: []string{"DRAIN_ANNOTATION_TIMEOUT=5s"}, pods: annotated("node-drainer.io/drain", "wait"),
		},
		"nor is one asked to hand over then": {
			env: []string{"DRAIN_ANNOTATION_TIMEOUT=0s", "DRAIN_HAND_OVER_TIMEOUT=50s"}, pods: annotated("node-drainer.io/hand-over", "gate"),
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixtureWithHook(t)
			old, instance := f.node()
			f.pod("one", old, tt.pods)
			timeout := map[bool]string{true: "20s", false: "1m"}[tt.forced]
			agent := f.startAgent(append(tt.env, "DRAIN_TIMEOUT="+timeout, "DRAIN_BLOCKED_AFTER=1s")...)
			f.terminate(instance)
			f.waitCompleted(instance)
			agent.waitLog("termination ended", "outcome", "drained")
			f.assertEvictedOnce([]string{"one"})
			if tt.forced {
				f.waitEvent("EvictionPostponed")
				f.waitEvent("EvictedAtDeadline")
			} else if agent.Count("pod evicted at the deadline")+agent.Count("hand-over put off") > 0 {
				t.Error("the pod was waited for until the deadline")
			}
		})
	}
}

// TestWaitingPodsLeaveWithinTheirBudget: on each of two nodes a pod has opted out, which closes the later tier for the
// two replicas of a critical Deployment. All leave by evictions within their budget. A Job's pod has the condition by
// which the Job's podFailurePolicy ignores it.
func TestWaitingPodsLeaveWithinTheirBudget(t *testing.T) {
	t.Parallel()
	f := newFixtureWithHook(t)
	first, instance := f.node()
	second, other := f.node()
	stays := cluster.Pods{
		Run: time.Hour, Stop: time.Second, GracePeriod: 10 * time.Second,
		Annotations: map[string]string{"node-drainer.io/drain": "wait"},
	}
	stays.Node = first
	f.must(f.cluster.Job(f.ctx, f.namespace, "batch", 1, stays))
	stays.Node = ""
	f.pod("one", second, stays)
	dns := cluster.Pods{
		Pool: f.namespace, Stop: time.Second, GracePeriod: 10 * time.Second, PriorityClass: "system-cluster-critical",
		Change: onDifferentNodes("dns"),
	}
	f.must(f.cluster.Deploy(f.ctx, cluster.Deployment{Namespace: f.namespace, Name: "dns", Replicas: 2, Pods: dns}))
	f.waitPodsReady("dns", 2)
	f.waitPodsReady("batch", 1)
	f.must(f.cluster.MinAvailable(f.ctx, f.namespace, "dns", "1"))
	f.node()
	f.node()
	before := append(f.podsOn(first), f.podsOn(second)...)
	lowest := f.watchReady("dns")
	f.startAgent("DRAIN_TIMEOUT=1m")
	f.terminate(instance)
	f.terminate(other)
	f.must(f.cluster.WaitPods(waits(t), f.namespace, cluster.Selector("batch"), func(pods []*corev1.Pod) bool {
		return slices.ContainsFunc(pods, isDisruptionTarget)
	}))
	f.waitCompleted(instance)
	f.waitCompleted(other)
	f.assertEvictedOnce(before)
	if deleted := f.requests("delete", "pods"); len(deleted) > 0 {
		t.Errorf("%d pods were deleted", len(deleted))
	}
	if n := lowest(); n < 1 {
		t.Errorf("only %d pods of dns were ready at one time, its budget requires 1", n)
	}
}

func isDisruptionTarget(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue
	})
}

// onDifferentNodes spreads the pods of a workload over nodes.
func onDifferentNodes(name string) func(*corev1.PodTemplateSpec) {
	return func(p *corev1.PodTemplateSpec) {
		p.Spec.Affinity = cluster.Apart(name)
	}
}

// TestJobThatEnds: with DRAIN_WAIT_FOR_JOBS a Job's pod runs to its end, and nothing is evicted or deleted.
func TestJobThatEnds(t *testing.T) {
	t.Parallel()
	f := newFixtureWithHook(t)
	old, instance := f.node()
	f.must(f.cluster.Job(f.ctx, f.namespace, "batch", 1, cluster.Pods{Node: old, Run: 8 * time.Second}))
	f.waitPodsReady("batch", 1)
	f.startAgent("DRAIN_WAIT_FOR_JOBS=true")
	f.terminate(instance)
	f.waitCompleted(instance)
	f.assertEvictedOnce(nil)
	if deleted := f.requests("delete", "pods"); len(deleted) > 0 {
		t.Errorf("%d pods were deleted", len(deleted))
	}
}

// TestOneBudgetOverManyNodes: drains share what a budget allows, and evict no more.
func TestOneBudgetOverManyNodes(t *testing.T) {
	t.Parallel()
	f := newFixtureWithHook(t)
	var instances []string
	for range 3 {
		_, instance := f.node()
		instances = append(instances, instance)
	}
	f.must(f.cluster.Deploy(f.ctx, cluster.Deployment{
		Namespace: f.namespace, Name: "api", Replicas: 12, Pods: cluster.Pods{Pool: f.namespace, Stop: 2 * time.Second},
	}))
	f.waitPodsReady("api", 12)
	f.must(f.cluster.MaxUnavailable(f.ctx, f.namespace, "api", "2"))
	before := f.podsOf("api")
	f.node()
	lowest := f.watchReady("api")
	f.startAgent()
	for _, instance := range instances {
		f.terminate(instance)
	}
	for _, instance := range instances {
		f.waitCompleted(instance)
	}
	f.assertEvictedOnce(before)
	refused := 0
	for _, r := range f.requests("create", "pods/eviction") {
		if r.Code == http.StatusTooManyRequests {
			refused++
		}
	}
	if refused > 2 { // the disruption controller may be slower to count than the watch
		t.Errorf("%d evictions were refused", refused)
	}
	if n := lowest(); n < 10 {
		t.Errorf("only %d pods of api were ready at one time, its budget requires 10", n)
	}
}

// TestStuckPods: a pod that never ends, long past its grace, does not hold the instance until the deadline.
func TestStuckPods(t *testing.T) {
	t.Parallel()
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
			f := newFixtureWithHook(t)
			f.mayKill = true
			old, instance := f.node()
			f.pod("stuck", old, cluster.Pods{GracePeriod: time.Second, Change: func(p *corev1.PodTemplateSpec) {
				p.Finalizers = []string{"node-drainer.test/stuck"}
			}})
			t.Cleanup(func() {
				ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
				defer cancel()
				_, err := f.cluster.Client().CoreV1().Pods(f.namespace).Patch(ctx, "stuck", types.MergePatchType,
					[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
				if err != nil {
					t.Log(err)
				}
			})
			if tt.lost {
				f.must(f.cluster.MarkUnready(f.ctx, old))
			}
			agent := f.startAgent(tt.env...)
			f.terminate(instance)
			f.waitCompleted(instance)
			outcome, reason := "left-behind", "PodsLeftBehind"
			if tt.lost {
				outcome, reason = "node-lost", "NodeLost"
			}
			agent.waitLog("termination ended", "outcome", outcome)
			f.waitEvent(reason)
		})
	}
}

// TestPolicyOfANode: a label and annotations of the Node replace settings for it alone, and a wrong one is named.
func TestPolicyOfANode(t *testing.T) {
	t.Parallel()
	f := newFixtureWithHook(t)
	f.mayKill = true
	name, instance := f.node()
	f.node()
	f.deploy("api", name, 1, cluster.Pods{})
	f.must(f.cluster.MaxUnavailable(f.ctx, f.namespace, "api", "0"))
	f.change(name, func(n *corev1.Node) {
		n.Labels[node.TimeoutKey], n.Labels[node.AtDeadlineKey] = "1h", "leave"
		n.Annotations[node.TimeoutKey], n.Annotations[node.EvictionDelayKey] = "10s", "soon"
	})
	agent := f.startAgent("DRAIN_TIMEOUT=30m", "DRAIN_AT_DEADLINE=delete")
	f.terminate(instance)
	agent.waitLog("termination ended", "outcome", "left-behind")
	f.waitEventText("DrainChanged", `node-drainer.io/eviction-delay is "soon"`)
	f.assertEndsBy(instance, 2*time.Minute)
	if evicted := f.evicted(); len(evicted)+agent.Count("pod deleted at the deadline") > 0 {
		t.Errorf("%v were evicted, or a pod was deleted", evicted)
	}
}
