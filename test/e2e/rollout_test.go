//go:build e2e

package e2e

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	policyv1 "k8s.io/api/policy/v1"

	"github.com/node-drainer/node-drainer/pkg/refresh"
	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/cluster"
)

// outdate gives the launch template a new version, so that a group at $Latest is outdated.
func (f *fleet) outdate() {
	f.t.Helper()
	_, err := f.aws.AddTemplateVersion(launchTemplate, "ami-2")
	f.must(err)
}

// assertRolled expects that all nodes are new, that the old ones were drained, that the workload kept its budget, and that
// the trigger has not set the desired capacity.
func (f *fleet) assertRolled(lowest func() int) {
	f.t.Helper()
	size := len(f.old)
	f.assertRefreshed(size)
	for _, action := range []string{"SetDesiredCapacity", "UpdateAutoScalingGroup", "TerminateInstanceInAutoScalingGroup"} {
		if n := f.changes()[action]; n > 0 {
			f.t.Errorf("the trigger called %s %d times", action, n)
		}
	}
	if n := lowest(); n < 2*size-1 {
		f.t.Errorf("only %d pods of api were ready at one time, its budget requires %d", n, 2*size-1)
	}
}

// pinned is a group that launches from the first version of its template.
func pinned(size int) awsim.Group { return awsim.Group{Desired: size, LaunchTemplateVersion: "1"} }

// latest is a group that launches from the latest version of its template.
func latest(size int) awsim.Group {
	return awsim.Group{Desired: size, LaunchTemplateVersion: "$Latest"}
}

// launchingFirst is latest with a maintenance policy by which Auto Scaling launches before it terminates.
func launchingFirst(size int) awsim.Group {
	g := latest(size)
	g.MinHealthy, g.MaxHealthy = 100, 150
	return g
}

// makeReady has nodes of the second version boot Ready from now on, and makes those Ready that have booted.
func (f *fleet) makeReady() {
	f.t.Helper()
	ctx := waits(f.t)
	f.machines.SetUnready(2, false)
	var booted []awsim.Instance
	f.must(f.aws.WaitInstances(ctx, group, func(all []awsim.Instance) bool {
		booted = slices.DeleteFunc(all, func(i awsim.Instance) bool { return i.Version != 2 })
		return !slices.ContainsFunc(booted, func(i awsim.Instance) bool { return i.State == "Pending" })
	}))
	for _, i := range booted {
		f.must(f.cluster.MarkReady(ctx, cluster.NodeName(i.ID)))
	}
}

// TestRollout: the trigger replaces all nodes, a Deployment keeps its budget, and the desired capacity does not change.
func TestRollout(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		group awsim.Group
		args  []string
		calls map[string]int
	}{
		"by an Instance Refresh": {
			latest(6), []string{"--surge", "2"}, map[string]int{"StartInstanceRefresh": 1},
		},
		"by marking batches of two unhealthy": {
			launchingFirst(6), []string{"--mode", "unhealthy", "--batch", "2"}, map[string]int{"SetInstanceHealth": 6},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, tt.group)
			f.launchHook(hookTimeout)
			f.serve(cluster.Pods{Stop: time.Second})
			lowest := f.watchReady("api")
			agent := f.startAgent("RESYNC_INTERVAL=1s")
			f.outdate()
			f.trigger(append([]string{"--asg", group}, tt.args...)...).waitExit(0, `6 instances replaced`)
			f.assertRolled(lowest)
			for _, i := range f.waitServing(6) {
				agent.waitLog("scale-down disabled during the rollout", "node", cluster.NodeName(i.ID))
				f.waitUnprotected(cluster.NodeName(i.ID))
			}
			calls := f.changes()
			for _, renewal := range []string{"CreateOrUpdateTags", "DeleteTags"} { // of the lease, as often as needed
				delete(calls, renewal)
			}
			if !maps.Equal(calls, tt.calls) {
				t.Errorf("the trigger called %v, want %v", calls, tt.calls)
			}
			// An Instance Refresh does not wait for terminating hooks, the trigger does.
			if n := f.mostGoing(); n > 2 && tt.calls["SetInstanceHealth"] > 0 {
				t.Errorf("%d nodes were draining at one time, want 2 at most", n)
			}
		})
	}
}

// TestRolloutWithASurge does what eks-rolling-update does in one group that has no room: it taints all old nodes, raises
// the maximum size and then the capacity in steps, and waits for Ready nodes and for a gate before it drains the first.
func TestRolloutWithASurge(t *testing.T) {
	t.Parallel()
	const size = 3
	f := newFleet(t, latest(size))
	f.limitMax(size)
	f.launchHook(hookTimeout)
	f.serve(cluster.Pods{Stop: time.Second})
	lowest := f.watchReady("api")
	f.startAgent("RESYNC_INTERVAL=1s")
	f.outdate()
	f.tainting("--asg", group, "--mode", "unhealthy", "--surge", "100%", "--surge-step", "2", "--batch", "50%", "--raise-max",
		"--taint-outdated", "hard", "--together", "surge", "--suspend", "AZRebalance", "--ready-timeout", "5m",
		"--gate-command", "test $GATE_TOTAL = 3").
		waitExit(0, `3 nodes: tainted`, `maximum size raised from 3 to 6`, `desired capacity raised from 3 to 5`, `desired capacity raised from 3 to 6`,
			`maximum size restored from 6 to 3`, `3 instances replaced`)
	f.assertRefreshed(size)
	if n := lowest(); n < 2*size-1 {
		t.Errorf("only %d pods of api were ready at one time, its budget requires %d", n, 2*size-1)
	}
	out, err := f.api().DescribeAutoScalingGroups(f.ctx, &autoscaling.DescribeAutoScalingGroupsInput{})
	f.must(err)
	g := out.AutoScalingGroups[0]
	if *g.DesiredCapacity != size || *g.MaxSize != size || len(g.SuspendedProcesses) > 0 || len(g.Tags) != len(owned) {
		t.Errorf("the capacity is %d of %d, left are %d suspended processes and the tags %v", *g.DesiredCapacity, *g.MaxSize,
			len(g.SuspendedProcesses), g.Tags)
	}
}

// mostGoing is how many old instances had a terminating hook pending at one time, at most.
func (f *fleet) mostGoing() (most int) {
	var going []awsim.Action
	for _, a := range f.aws.Ledger() {
		if a.Transition == awsim.Terminating && slices.Contains(f.old, a.InstanceID) {
			going = append(going, a)
		}
	}
	for _, a := range going {
		n := 0
		for _, b := range going {
			if !b.StartedAt.After(a.StartedAt) && (b.ClosedAt.IsZero() || b.ClosedAt.After(a.StartedAt)) {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// TestDrainedAndNotOnlyReplaced: AWS calls the refresh successful while the last node still drains. The trigger waits
// for that, and says what it waits for.
func TestDrainedAndNotOnlyReplaced(t *testing.T) {
	t.Parallel()
	f := newFleet(t, latest(2))
	f.serve(cluster.Pods{})
	f.startAgent("RESYNC_INTERVAL=1s", "DRAIN_BLOCKED_AFTER=1s")
	f.outdate()
	f.allow("0")
	run := f.trigger("--asg", group, "--surge", "100%")
	_, err := f.aws.WaitRefresh(waits(f.t), group, "Successful")
	f.must(err)
	run.waitOutput(`Successful`)
	run.waitOutput(`pods left.*` + f.namespace + `/api`)
	select {
	case <-run.Ended():
		t.Error("the trigger has ended while nodes still drain")
	default:
	}
	f.allow("1")
	run.waitExit(0, `2 instances replaced`)
	for _, id := range f.old {
		f.waitCompleted(id)
	}
}

// allow sets how many pods of api may be unavailable, and waits until the disruption controller has counted them: before
// that, the budget's status is empty.
func (f *fleet) allow(most string) {
	f.t.Helper()
	f.must(f.cluster.RemoveBudget(f.ctx, f.namespace, "api"))
	f.must(f.cluster.MaxUnavailable(f.ctx, f.namespace, "api", most))
	f.must(f.cluster.WaitBudget(waits(f.t), f.namespace, "api", func(s policyv1.PodDisruptionBudgetStatus) bool {
		return s.ExpectedPods > 0
	}))
}

// TestPlanShowsNodes: with access to the cluster a plan names nodes, pods, the budgets that block them, pods that no other
// node can have, and the instance that the trigger itself runs on, which it finds by its pod.
func TestPlanShowsNodes(t *testing.T) {
	t.Parallel()
	f := newFleet(t, latest(2))
	f.serve(cluster.Pods{})
	f.allow("0")
	f.must(f.cluster.Deploy(f.ctx, cluster.Deployment{
		Namespace: f.namespace, Name: "local", Replicas: 1, Pods: cluster.Pods{Node: cluster.NodeName(f.old[1])},
	}))
	f.waitPodsReady("local", 1)
	f.outdate()
	f.install(renderTainting)
	f.pod("self", cluster.NodeName(f.old[0]), cluster.Pods{})
	for _, kubeconfig := range []string{f.viewer, f.token(taintingAccount)} {
		run := f.runTrigger([]string{
			"KUBECONFIG=" + kubeconfig, "POD_NAMESPACE=" + f.namespace, "POD_NAME=self",
		}, "plan", "--asg", group, "--detailed-exitcode")
		run.waitExit(2, `2 of 2 instances are outdated`, `version 1.*version 2|version 1, .*at 2`, f.namespace+`/api`,
			f.old[0]+`.*`+cluster.NodeName(f.old[0]), f.old[1]+`.*`+cluster.NodeName(f.old[1]), `the trigger runs on `+f.old[0],
			`warn +pinned +pods that find no other node.*`+f.namespace+`/local-`)
	}
	run := f.trigger("plan", "--asg", group, "-o", "json", "--no-kubernetes")
	run.waitExit(0, `"outdated": ?true`)
	if calls := f.changes(); len(calls) > 0 {
		t.Errorf("a plan called %v", calls)
	}
}

// TestWaves: the nodes of the first wave are replaced and drained before the second one begins.
func TestWaves(t *testing.T) {
	t.Parallel()
	f := newFleet(t, latest(2))
	first := latest(1)
	first.Name, first.Max, first.LaunchTemplate, first.Tags = "batch", 10, launchTemplate, maps.Clone(owned)
	first.Tags[refresh.WaveTag] = "1"
	f.must(f.aws.CreateGroup(first))
	f.must(f.aws.PutHook(first.Name, awsim.Hook{
		Name: hook, HeartbeatTimeout: hookTimeout, NotificationTargetARN: f.aws.QueueARN(f.queue),
	}))
	f.must(f.aws.WaitInstances(waits(t), first.Name, func(now []awsim.Instance) bool {
		return len(now) == 1 && now[0].State == "InService"
	}))
	f.startAgent()
	f.outdate()
	run := f.trigger("--cluster", "demo", "--parallel-asgs", "0", "--mode", "unhealthy", "--surge", "1", "--allow", "hook-timeout")
	run.waitExit(0, `(?s)batch +desired capacity raised from 1 to 2.*batch +done: .*workers +desired capacity raised from 2 to 3.*workers +done: `)
}
