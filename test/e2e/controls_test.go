//go:build e2e

package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/node-drainer/node-drainer/internal/node"
	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/cluster"
)

// annotate sets an annotation of the node, as who is on call does.
func (f *fixture) annotate(name, key, value string) {
	f.t.Helper()
	f.change(name, func(n *corev1.Node) { n.Annotations[key] = value })
}

// TestControlsOfADrain: who is on call pauses the drain of a node, gives it another deadline, or ends it, and sees what
// has changed.
func TestControlsOfADrain(t *testing.T) {
	t.Parallel()
	in := func(d time.Duration) string { return time.Now().Add(d).UTC().Format(time.RFC3339) }
	t.Run("hold", func(t *testing.T) {
		t.Parallel()
		f := newFixtureWithHook(t)
		name, instance := f.node()
		f.node()
		f.deploy("api", name, 2, cluster.Pods{})
		f.annotate(name, node.HoldAnnotation, in(time.Hour))
		agent := f.startAgent()
		f.terminate(instance)
		f.waitEventText("DrainChanged", "no pod is evicted before")
		f.triggerNodes(nil, `2 are held until the time that an annotation of the Node names`)
		f.assertHeld()
		if evicted := f.evicted(); len(evicted) > 0 {
			t.Errorf("%v were evicted", evicted)
		}
		f.annotate(name, node.HoldAnnotation, "") // a mistake, which pauses nothing
		agent.waitLog("termination ended", "outcome", "drained")
		f.waitEventText("DrainChanged", `node-drainer.io/hold is ""`)
	})
	t.Run("deadline", func(t *testing.T) {
		t.Parallel()
		f := newFixtureWithHook(t)
		name, instance := f.node()
		f.node()
		f.deploy("api", name, 1, cluster.Pods{Stop: time.Second, GracePeriod: 5 * time.Second})
		f.must(f.cluster.MaxUnavailable(f.ctx, f.namespace, "api", "0"))
		agent := f.startAgent("DRAIN_TIMEOUT=10m")
		f.terminate(instance)
		agent.waitLog("eviction blocked")
		f.annotate(name, node.DeadlineAnnotation, in(15*time.Second))
		agent.waitLog("termination ended", "outcome", "drained")
		f.assertEndsBy(instance, 2*time.Minute)
		f.waitEventText("DrainChanged", "the deadline is ")
	})
	t.Run("end", func(t *testing.T) {
		t.Parallel()
		f := newFixtureWithHook(t)
		f.mayKill = true
		name, instance := f.node()
		f.node()
		f.deploy("api", name, 1, cluster.Pods{})
		f.must(f.cluster.MaxUnavailable(f.ctx, f.namespace, "api", "0"))
		agent := f.startAgent("DRAIN_TIMEOUT=10m")
		complete := f.aws.Inject(awsim.Fault{Action: "CompleteLifecycleAction", Code: "Throttling"})
		f.terminate(instance)
		agent.waitLog("eviction blocked")
		f.annotate(name, node.EndDrainAnnotation, instance)
		agent.waitLog("drain ended with pods left on the node", "node", name)
		f.waitEventText("DrainChanged", "it ends at once")
		f.waitEvent("PodsLeftBehind")
		complete()
		agent.waitLog("termination ended", "outcome", "left-behind")
		f.assertEndsBy(instance, 2*time.Minute)
	})
}

// TestUncordonedNode: a node that somebody uncordons while it is drained is cordoned again, by the same deadline.
func TestUncordonedNode(t *testing.T) {
	t.Parallel()
	f := newFixtureWithHook(t)
	name, instance := f.node()
	f.node()
	f.deploy("api", name, 1, cluster.Pods{Stop: time.Second, GracePeriod: 5 * time.Second})
	f.must(f.cluster.MaxUnavailable(f.ctx, f.namespace, "api", "0"))
	agent := f.startAgent("DRAIN_TIMEOUT=2m")
	f.terminate(instance)
	agent.waitLog("eviction blocked")
	before := f.getNode(name).Annotations[mark]
	f.change(name, func(n *corev1.Node) {
		n.Spec.Unschedulable = false
		n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == taint })
	})
	eventually(t, 90*time.Second, func() string {
		n := f.getNode(name)
		isTainted := slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == taint })
		if !isTainted || !n.Spec.Unschedulable || n.Annotations[mark] != before {
			return fmt.Sprintf("the node is not cordoned again: %v, %t, %s", n.Spec.Taints, n.Spec.Unschedulable, n.Annotations[mark])
		}
		return ""
	})
	agent.waitLog("termination ended", "outcome", "drained")
	f.assertEndsBy(instance, 3*time.Minute)
}

// TestDrainsWaitForRoom: the drain that an annotation asks for waits while a pod of a drained node is Pending.
func TestDrainsWaitForRoom(t *testing.T) {
	t.Parallel()
	f := newFixtureWithHook(t)
	full, first := f.node()
	next, second := f.node()
	f.deploy("pinned", full, 1, cluster.Pods{Node: full}) // Its next pod waits for the same node.
	f.deploy("api", next, 1, cluster.Pods{})
	agent := f.startAgent("DRAIN_MAX_CONCURRENT=100%")
	f.annotate(full, node.DrainRequestAnnotation, first)
	agent.waitLog("termination ended", "outcome", "drained")
	f.annotate(next, node.DrainRequestAnnotation, second)
	agent.waitLog("drain postponed", "node", next, "noRoom", "true")
	f.waitEventText("DrainPostponed", "which are Pending, have found room")
	f.triggerNodes(nil, "waits until pods of drained nodes, which are Pending, have found room")
	if n := f.getNode(next); isMarked(n) {
		t.Errorf("node %s is marked while its drain waits", next)
	}
	_, err := f.cluster.Kubectl(f.ctx, "delete", "deployment", "pinned", "--namespace", f.namespace)
	f.must(err)
	agent.waitCount(2, "termination ended", "outcome", "drained")
}
