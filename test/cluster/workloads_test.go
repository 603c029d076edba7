//go:build e2e

package cluster_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/node-drainer/node-drainer/test/cluster"
)

func TestNodesBecomeReady(t *testing.T) {
	c, ctx := cluster.Shared(t), bounded(t)
	name := c.Node(t, cluster.Node{InstanceID: "i-0123456789abcdef0", Zone: "eu-central-1b"})

	n, err := c.Client().CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	must(t, err)
	if n.Spec.ProviderID != "aws:///eu-central-1b/i-0123456789abcdef0" {
		t.Errorf("provider id is %s", n.Spec.ProviderID)
	}
	if n.Labels[corev1.LabelTopologyZone] != "eu-central-1b" || n.Labels[corev1.LabelHostname] != name {
		t.Errorf("labels are %v", n.Labels)
	}
	if pods := n.Status.Allocatable.Pods().Value(); pods != 256 {
		t.Errorf("%d pods fit, want 256", pods)
	}
	if len(n.Spec.Taints) > 0 || n.Spec.Unschedulable {
		t.Errorf("taints are %v", n.Spec.Taints)
	}
}

func TestUnreadyNodeBecomesReadyWhenTold(t *testing.T) {
	c, ctx := cluster.Shared(t), bounded(t)
	name := c.Node(t, cluster.Node{Unready: true})

	must(t, c.MarkReady(ctx, name))
	must(t, c.MarkUnready(ctx, name))
	must(t, c.MarkReady(ctx, name))
}

func TestPodTakesItsTimeToStartAndToStop(t *testing.T) {
	for _, row := range []struct {
		name  string
		pods  cluster.Pods
		start time.Duration
		stop  time.Duration
	}{
		{"by default a second to start and none to stop", cluster.Pods{}, time.Second, 0},
		{
			"as said",
			cluster.Pods{Start: 2500 * time.Millisecond, Stop: 3 * time.Second},
			2500 * time.Millisecond, 3 * time.Second,
		},
		{
			"no longer than the grace",
			cluster.Pods{Stop: time.Hour, GracePeriod: 2 * time.Second},
			time.Second, 2 * time.Second,
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			c, ctx := cluster.Shared(t), bounded(t)
			ns := c.Namespace(t)
			row.pods.Pool = ns
			c.Node(t, cluster.Node{Pool: ns})

			began := time.Now()
			must(t, c.Pod(ctx, ns, "p", row.pods))
			must(t, c.WaitReady(ctx, ns, cluster.Selector("p"), 1))
			noShorter(t, "start", time.Since(began), row.start)

			began = time.Now()
			must(t, c.Client().CoreV1().Pods(ns).Delete(ctx, "p", metav1.DeleteOptions{}))
			must(t, c.WaitPods(ctx, ns, "", func(pods []*corev1.Pod) bool { return len(pods) == 0 }))
			noShorter(t, "stop", time.Since(began), row.stop)
		})
	}
}

// web is a Deployment on the nodes of its namespace.
func web(ns string, replicas int32) cluster.Deployment {
	return cluster.Deployment{Namespace: ns, Name: "web", Replicas: replicas, Pods: cluster.Pods{Pool: ns}}
}

// noShorter allows for a machine that does other things too, but not for less than was asked.
func noShorter(t *testing.T, what string, took, want time.Duration) {
	t.Helper()
	if took < want-50*time.Millisecond {
		t.Errorf("%s took %s, want %s", what, took, want)
	}
}

// TestPodThatChangesStopsNoSooner: kwok starts a delay again with every change, and subtracts the time that has passed.
// The time of the deletion, from which it reads that, is cut to whole seconds: here by nearly one.
func TestPodThatChangesStopsNoSooner(t *testing.T) {
	c, ctx := cluster.Shared(t), bounded(t)
	ns, stop := c.Namespace(t), 3*time.Second
	c.Node(t, cluster.Node{Pool: ns})
	must(t, c.Pod(ctx, ns, "p", cluster.Pods{Pool: ns, Stop: stop}))
	must(t, c.WaitReady(ctx, ns, "", 1))

	now := time.Now()
	<-time.After(now.Truncate(time.Second).Add(1900 * time.Millisecond).Sub(now))
	pods, began := c.Client().CoreV1().Pods(ns), time.Now()
	must(t, pods.Delete(ctx, "p", metav1.DeleteOptions{}))
	eventually(ctx, t, "it has stopped", func() bool {
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"changed":%q}}}`, time.Now())
		_, err := pods.Patch(ctx, "p", types.MergePatchType, patch, metav1.PatchOptions{})
		return apierrors.IsNotFound(err)
	})
	noShorter(t, "stop", time.Since(began), stop)
}

func TestSecondDeletionShortensTheStop(t *testing.T) {
	c, ctx := cluster.Shared(t), bounded(t)
	ns := c.Namespace(t)
	c.Node(t, cluster.Node{Pool: ns})
	must(t, c.Pod(ctx, ns, "p", cluster.Pods{Pool: ns, Stop: time.Hour, GracePeriod: 2 * time.Hour}))
	must(t, c.WaitReady(ctx, ns, "", 1))

	pods := c.Client().CoreV1().Pods(ns)
	must(t, pods.Delete(ctx, "p", metav1.DeleteOptions{}))
	grace := int64(1)
	must(t, pods.Delete(ctx, "p", metav1.DeleteOptions{GracePeriodSeconds: &grace}))
	must(t, c.WaitPods(ctx, ns, "", func(pods []*corev1.Pod) bool { return len(pods) == 0 }))
}

func TestBudgetRefusesTheSecondEviction(t *testing.T) {
	c, ctx := cluster.Shared(t), bounded(t)
	ns := c.Namespace(t)
	c.Node(t, cluster.Node{Pool: ns})
	add := func(name string) { // Nothing creates it again when it is evicted.
		must(t, c.Pod(ctx, ns, name, cluster.Pods{Pool: ns, Labels: map[string]string{cluster.AppLabel: "web"}}))
	}
	evict := func(name string) error {
		return c.Client().PolicyV1().Evictions(ns).Evict(ctx, &policyv1.Eviction{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name},
		})
	}
	add("first")
	add("second")
	must(t, c.MinAvailable(ctx, ns, "web", "1"))
	must(t, c.WaitDisruptionsAllowed(ctx, ns, "web", 1))
	must(t, evict("first"))
	err := evict("second")
	if !apierrors.IsTooManyRequests(err) || !apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause) {
		t.Fatalf("the second eviction: %v, want 429 with cause DisruptionBudget", err)
	}
	add("third")
	must(t, c.WaitDisruptionsAllowed(ctx, ns, "web", 1))
	must(t, evict("second"))
}

func TestJobCompletes(t *testing.T) {
	c, ctx := cluster.Shared(t), bounded(t)
	ns := c.Namespace(t)
	c.Node(t, cluster.Node{Pool: ns})
	must(t, c.Job(ctx, ns, "batch", 2, cluster.Pods{Pool: ns, Run: 500 * time.Millisecond}))
	must(t, c.WaitPods(ctx, ns, cluster.Selector("batch"), func(pods []*corev1.Pod) bool {
		return len(pods) == 2 && !slices.ContainsFunc(pods, func(p *corev1.Pod) bool {
			return p.Status.Phase != corev1.PodSucceeded
		})
	}))
}

func TestDrainablePodsAreThoseThatADrainMoves(t *testing.T) {
	c, ctx := cluster.Shared(t), bounded(t)
	ns := c.Namespace(t)
	node, other := c.Node(t, cluster.Node{Pool: ns}), c.Node(t, cluster.Node{Pool: ns})
	here := cluster.Pods{Node: node}
	must(t, c.DaemonSet(ctx, ns, "daemon", cluster.Pods{Pool: ns}))
	must(t, c.StatefulSet(ctx, ns, "db", 1, here))
	must(t, c.Pod(ctx, ns, "bare", here))
	must(t, c.Pod(ctx, ns, "elsewhere", cluster.Pods{Node: other}))
	must(t, c.Pod(ctx, ns, "leaving", cluster.Pods{Node: node, Stop: time.Hour, GracePeriod: time.Hour}))
	must(t, c.MirrorPod(ctx, ns, "static", here))
	must(t, c.Job(ctx, ns, "done", 1, here))
	must(t, c.WaitPods(ctx, ns, "", func(pods []*corev1.Pod) bool {
		ready := 0
		for _, p := range pods {
			if cluster.IsPodReady(p) || p.Status.Phase == corev1.PodSucceeded {
				ready++
			}
		}
		return len(pods) == 8 && ready == 8
	}))
	must(t, c.Client().CoreV1().Pods(ns).Delete(ctx, "leaving", metav1.DeleteOptions{}))

	must(t, c.WaitPods(ctx, ns, cluster.Selector("done"), func(pods []*corev1.Pod) bool {
		return len(pods) == 1 && pods[0].Status.Phase == corev1.PodSucceeded
	}))
	want := []string{ns + "/bare", ns + "/db-0", ns + "/leaving"}
	got, err := c.DrainablePods(ctx, node)
	must(t, err)
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("drainable: %v, want %v", got, want)
	}
	killed, err := c.RemoveNode(ctx, node)
	must(t, err)
	if slices.Sort(killed); !slices.Equal(killed, want) {
		t.Errorf("killed: %v, want %v", killed, want)
	}
}

func TestMachinesAreNodes(t *testing.T) {
	c, ctx := cluster.Shared(t), bounded(t)
	ns, id := c.Namespace(t), cluster.NewInstanceID()
	machines := c.Machines(cluster.Node{Pool: ns})
	must(t, machines.Launch(ctx, id, "eu-central-1c"))
	for _, name := range []string{"a", "b"} { // Nothing creates them again.
		must(t, c.Pod(ctx, ns, name, cluster.Pods{Pool: ns}))
	}
	must(t, c.WaitReady(ctx, ns, "", 2))

	pods, err := machines.Pods(ctx, id)
	must(t, err)
	killed, err := machines.Terminate(ctx, id)
	must(t, err)
	if len(pods) != 2 || len(killed) != 2 {
		t.Errorf("there were %v, killed were %v", pods, killed)
	}
	killed, err = machines.Terminate(ctx, id)
	must(t, err)
	if pods, err = machines.Pods(ctx, id); err != nil || len(pods) != 0 || len(killed) != 0 {
		t.Errorf("an instance without a node has %v, killed were %v, error %v", pods, killed, err)
	}
}

// TestMachineThatWasNotQuiteTerminated: the API server was stopped between the node's deletion and its pods'.
func TestMachineThatWasNotQuiteTerminated(t *testing.T) {
	c, ctx := cluster.Shared(t), bounded(t)
	ns, id := c.Namespace(t), cluster.NewInstanceID()
	machines := c.Machines(cluster.Node{Pool: ns})
	must(t, machines.Launch(ctx, id, "eu-central-1c"))
	must(t, c.Deploy(ctx, web(ns, 2)))
	must(t, c.WaitReady(ctx, ns, "", 2))
	must(t, c.Client().CoreV1().Nodes().Delete(ctx, cluster.NodeName(id), metav1.DeleteOptions{}))
	if killed, err := machines.Terminate(ctx, id); err != nil || len(killed) != 2 {
		t.Errorf("killed were %v, error %v", killed, err)
	}
}

func TestMachinesOfAVersion(t *testing.T) {
	c, ctx := cluster.Shared(t), bounded(t)
	machines := c.Machines(cluster.Node{Pool: c.Namespace(t)})
	machines.Boot(2, cluster.BootUnready)
	machines.Boot(3, cluster.BootLost)
	for name, row := range map[string]struct {
		version int
		joins   bool
		ready   bool
	}{
		"that nothing was said of":      {version: 1, joins: true, ready: true},
		"that never becomes ready":      {version: 2, joins: true},
		"that never joins":              {version: 3},
		"of a group without a template": {version: 0, joins: true, ready: true},
	} {
		t.Run(name, func(t *testing.T) {
			id := cluster.NewInstanceID()
			must(t, machines.LaunchVersion(ctx, id, "", row.version))
			terminated(ctx, t, machines, id)
			n, err := c.Client().CoreV1().Nodes().Get(ctx, cluster.NodeName(id), metav1.GetOptions{})
			if !row.joins {
				if !apierrors.IsNotFound(err) {
					t.Errorf("it joined: %v", err)
				}
				return
			}
			must(t, err)
			if got := readiness(n); (got == corev1.ConditionTrue) != row.ready {
				t.Errorf("Ready is %s", got)
			}
			// Stopping and starting makes nothing ready that was not.
			must(t, machines.Stop(ctx, id))
			must(t, machines.Start(ctx, id))
			n, err = c.Client().CoreV1().Nodes().Get(ctx, cluster.NodeName(id), metav1.GetOptions{})
			must(t, err)
			if got := readiness(n); (got == corev1.ConditionTrue) != row.ready {
				t.Errorf("after it was stopped and started Ready is %s", got)
			}
		})
	}
}

func TestUnreadyNodeTakesNoPods(t *testing.T) {
	c, ctx := cluster.Shared(t), bounded(t)
	ns := c.Namespace(t)
	name := c.Node(t, cluster.Node{Pool: ns, Unready: true})
	nodes, err := c.Client().CoreV1().Nodes().Watch(ctx, metav1.ListOptions{
		FieldSelector: "metadata.name=" + name, ResourceVersion: "0",
	})
	must(t, err)
	defer nodes.Stop()
	for e := range nodes.ResultChan() { // the controller that tends to taints sees to labels next
		if n, ok := e.Object.(*corev1.Node); ok && n.Labels["beta.kubernetes.io/os"] != "" {
			break
		}
	}
	must(t, c.Deploy(ctx, web(ns, 1)))
	must(t, c.WaitPods(ctx, ns, "", func(pods []*corev1.Pod) bool {
		return len(pods) == 1 && slices.ContainsFunc(pods[0].Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable
		})
	}))
	must(t, c.MarkReady(ctx, name))
	must(t, c.WaitReady(ctx, ns, "", 1))
}

func TestStoppedMachineKeepsItsNode(t *testing.T) {
	c, ctx := cluster.Shared(t), bounded(t)
	machines, id := c.Machines(cluster.Node{Pool: c.Namespace(t)}), cluster.NewInstanceID()
	must(t, machines.Launch(ctx, id, ""))
	terminated(ctx, t, machines, id)
	before, err := c.Client().CoreV1().Nodes().Get(ctx, cluster.NodeName(id), metav1.GetOptions{})
	must(t, err)
	must(t, machines.Stop(ctx, id))
	stopped, err := c.Client().CoreV1().Nodes().Get(ctx, cluster.NodeName(id), metav1.GetOptions{})
	must(t, err)
	if readiness(stopped) == corev1.ConditionTrue {
		t.Error("the node of a stopped machine is Ready")
	}
	must(t, machines.Start(ctx, id))
	after, err := c.Client().CoreV1().Nodes().Get(ctx, cluster.NodeName(id), metav1.GetOptions{})
	must(t, err)
	if before.UID != after.UID || readiness(after) != corev1.ConditionTrue {
		t.Errorf("another node, or not Ready: %+v", after.Status.Conditions)
	}
}

// terminated has a machine terminated when the test ends.
func terminated(ctx context.Context, t *testing.T, machines *cluster.Machines, id string) {
	t.Helper()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		_, _ = machines.Terminate(ctx, id)
	})
}

// readiness is the status of the node's condition Ready.
func readiness(n *corev1.Node) corev1.ConditionStatus {
	for _, condition := range n.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status
		}
	}
	return corev1.ConditionUnknown
}
