//go:build e2e

package e2e

import (
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/cluster"
)

const outdatedTaint = "node-drainer.io/outdated"

// tainting starts the trigger with the rights to taint nodes as well.
func (f *fixture) tainting(args ...string) *triggerRun {
	f.t.Helper()
	f.install(renderTainting)
	return f.runTrigger([]string{"KUBECONFIG=" + f.token(taintingAccount), "TRIGGER_POLL_INTERVAL=500ms"}, args...)
}

// effectOn is the effect of the taint for outdated nodes on the node, or empty.
func effectOn(n *corev1.Node) corev1.TaintEffect {
	for _, t := range n.Spec.Taints {
		if t.Key == outdatedTaint {
			return t.Effect
		}
	}
	return ""
}

// clinging draws pods to the nodes, of which none is preferred for having fewer pods.
func clinging(nodes ...string) func(*corev1.PodTemplateSpec) {
	return func(p *corev1.PodTemplateSpec) {
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelOSStable, WhenUnsatisfiable: corev1.ScheduleAnyway,
		}}
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
				Weight: 100, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{
					Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: nodes,
				}}},
			}},
		}}
	}
}

// nodesOf are the names of the nodes of instances.
func nodesOf(ids []string) (names []string) {
	for _, id := range ids {
		names = append(names, cluster.NodeName(id))
	}
	return names
}

// TestTaintedPodsMoveOnce: pods that the scheduler would rather put on old nodes move to new ones, each once. Nothing of
// it is left.
func TestTaintedPodsMoveOnce(t *testing.T) {
	t.Parallel()
	f := newFleet(t, latest(3))
	f.launchHook(hookTimeout)
	before := f.serve(cluster.Pods{Stop: time.Second, Change: clinging(nodesOf(f.old)...)})
	lowest := f.watchReady("api")
	f.startAgent("RESYNC_INTERVAL=1s")
	f.outdate()
	f.machines.SetUnready(2, true) // No pod moves before there is the taint.
	run := f.tainting("--asg", group, "--surge", "1", "--taint-outdated", "soft")
	run.waitOutput(`3 nodes: tainted node-drainer.io/outdated`)
	f.makeReady()
	run.waitExit(0, `3 instances replaced`)
	f.assertRolled(lowest)
	pods := slices.Sorted(slices.Values(slices.Concat(slices.Collect(maps.Values(before))...)))
	if got := slices.Sorted(slices.Values(f.evicted())); !slices.Equal(got, pods) { // None was put on an old node again.
		t.Errorf("evicted:\n%q\nwant each pod of the old nodes, and no other:\n%q", got, pods)
	}
	for _, i := range f.waitServing(3) {
		if effect := effectOn(f.getNode(cluster.NodeName(i.ID))); effect != "" {
			t.Errorf("the new node of %s is tainted %s", i.ID, effect)
		}
	}
}

// TestNewNodesAreNotScaledDown: in a group without a launch hook, the cluster autoscaler is kept off a new node from when
// it appears until the rollout has ended, in each mode.
func TestNewNodesAreNotScaledDown(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"--mode", "refresh", "--surge", "1"}, {"--mode", "unhealthy", "--surge", "1"}, {"--mode", "standby"},
	} {
		t.Run(args[1], func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, latest(1))
			f.startAgent("RESYNC_INTERVAL=1s")
			f.serve(cluster.Pods{Stop: 10 * time.Second})
			f.outdate()
			run := f.tainting(append([]string{"--asg", group}, args...)...)
			node := cluster.NodeName(f.newInstance())
			f.waitNode(node, func(n *corev1.Node) bool {
				return n.Annotations[scaleDownDisabled] == "true" && n.Annotations[scaleDownOwner] == group
			})
			run.waitExit(0, `1 new node: scale-down disabled`, `1 instance replaced`)
			f.waitUnprotected(node)
		})
	}
}

// newInstance waits for an instance of the second version of the template, and returns its id.
func (f *fleet) newInstance() (id string) {
	f.t.Helper()
	f.must(f.aws.WaitInstances(waits(f.t), group, func(all []awsim.Instance) bool {
		i := slices.IndexFunc(all, func(i awsim.Instance) bool { return i.Version == 2 })
		if i >= 0 {
			id = all[i].ID
		}
		return i >= 0
	}))
	return id
}

// TestTaintsAreRemoved: a trigger that may not taint says so, and continues; one that may taints the remaining nodes of
// the same refresh. When the refresh is cancelled, the taints are removed.
func TestTaintsAreRemoved(t *testing.T) {
	t.Parallel()
	f := newFleet(t, latest(2))
	f.startAgent("RESYNC_INTERVAL=1s")
	f.launchHook(hookTimeout)
	f.outdate()
	f.machines.SetUnready(2, true)
	args := []string{"--asg", group, "--surge", "1", "--taint-outdated", "hard"}
	provoke(triggerAccount, "get nodes")
	run := f.trigger(args...)
	run.waitOutput(`2 nodes could not be tainted .*forbidden`)
	run.waitOutput(`instance refresh .* started`)
	run.interrupt()
	run.waitExit(130, `continues`)
	run = f.tainting(append(args, "--on-interrupt", "cancel")...)
	for _, node := range nodesOf(f.old) {
		f.waitNode(node, func(n *corev1.Node) bool { return effectOn(n) == corev1.TaintEffectNoSchedule })
	}
	run.waitOutput(`2 nodes: tainted`)
	run.interrupt()
	run.waitExit(130, `is cancelled`, `2 nodes: untainted`)
	for _, node := range nodesOf(f.old) {
		if effect := effectOn(f.getNode(node)); effect != "" {
			t.Errorf("node %s is still tainted %s", node, effect)
		}
	}
}
