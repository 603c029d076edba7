//go:build e2e

package e2e

import (
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/cluster"
)

// outdate gives the launch template a new version, so that a group at $Latest is outdated.
func (f *fleet) outdate() {
	f.t.Helper()
	_, err := f.aws.AddTemplateVersion(launchTemplate, "ami-2")
	f.must(err)
}

// rolled holds if all nodes of the fleet are new, and were drained, and the workload kept its budget.
func (f *fleet) assertRolled(lowest func() int) {
	f.t.Helper()
	size := len(f.old)
	f.assertRefreshed(size)
	f.assertDesired(group, size)
	if n := lowest(); n < 2*size-1 {
		f.t.Errorf("only %d pods of api were ready at one time, its budget asks for %d", n, 2*size-1)
	}
}

// latest is a group that launches from the latest version of its template.
func latest(size int) awsim.Group {
	return awsim.Group{Desired: size, LaunchTemplateVersion: "$Latest"}
}

// launchingFirst is the same with a policy by which Auto Scaling replaces what is unhealthy only when another has come.
func launchingFirst(size int) awsim.Group {
	g := latest(size)
	g.MinHealthy, g.MaxHealthy = 100, 150
	return g
}

// rollingOut is patience with the replacement of a whole group, by one drain after the other.
const rollingOut = 10 * time.Minute

// completes is ends for a trigger that replaces a whole group.
func (r *triggering) completes(patterns ...string) {
	r.t.Helper()
	r.waitEnd(rollingOut)
	r.ends(0, patterns...)
}

// letServe has the machines of the second version come up Ready from now on, and makes those Ready that are up.
func (f *fleet) letServe(groups ...string) {
	f.t.Helper()
	ctx := patient(f.t)
	f.machines.Boot(2, cluster.BootReady)
	for _, name := range groups {
		var come []awsim.Instance
		f.must(f.aws.WaitInstances(ctx, name, func(all []awsim.Instance) bool {
			come = slices.DeleteFunc(all, func(i awsim.Instance) bool { return i.Version != 2 })
			return !slices.ContainsFunc(come, func(i awsim.Instance) bool { return i.State == "Pending" })
		}))
		for _, i := range come {
			f.must(f.cluster.MarkReady(ctx, cluster.NodeName(i.ID)))
		}
	}
}

// TestRollout: the group becomes new, a Deployment keeps its budget, and the desired capacity stays what it was.
func TestRollout(t *testing.T) {
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
			f := newFleetOf(t, tt.group)
			f.launchHook(time.Minute)
			f.serve(cluster.Pods{Stop: time.Second})
			lowest := f.watchReady("api")
			f.startAgent("RESYNC_INTERVAL=1s")
			f.outdate()
			f.trigger(append([]string{"--asg", group}, tt.args...)...).completes(`6 instances replaced`)
			f.assertRolled(lowest)
			if calls := changing(f.aws); !maps.Equal(calls, tt.calls) {
				t.Errorf("the trigger called %v, want %v", calls, tt.calls)
			}
			// An Instance Refresh does not wait for terminating hooks, the trigger does.
			if n := f.mostGoing(); n > 2 && tt.calls["SetInstanceHealth"] > 0 {
				t.Errorf("%d nodes were draining at one time, want 2 at most", n)
			}
		})
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

// TestRolloutOfTwoGroups: both become new, side by side.
func TestRolloutOfTwoGroups(t *testing.T) {
	t.Parallel()
	const other = "batch"
	f := newFleetOf(t, latest(3))
	f.launchHook(time.Minute)
	f.must(f.aws.CreateGroup(awsim.Group{
		Name: other, Max: 100, Desired: 3, LaunchTemplate: launchTemplate, LaunchTemplateVersion: "$Latest",
		Tags: map[string]string{"kubernetes.io/cluster/demo": "owned"},
	}))
	old := inService(t, f.aws, other, 3)
	f.must(f.aws.PutHook(other, awsim.Hook{
		Name: hook, HeartbeatTimeout: time.Minute, NotificationTargetARN: f.aws.QueueARN(f.queue),
	}))
	f.must(f.aws.PutHook(other, awsim.Hook{
		Name: launchHook, Transition: awsim.Launching, HeartbeatTimeout: time.Minute,
		NotificationTargetARN: f.aws.QueueARN(f.queue),
	}))
	f.serve(cluster.Pods{Stop: time.Second})
	lowest := f.watchReady("api")
	f.startAgent("RESYNC_INTERVAL=1s")
	f.outdate()
	f.machines.Boot(2, cluster.BootUnready)
	run := f.trigger("--cluster", "demo", "--parallel-asgs", "0")
	f.waitRequests("StartInstanceRefresh", 2) // Neither ends before new nodes serve.
	f.letServe(group, other)
	run.completes(group+`.*3 instances replaced`, other+`.*3 instances replaced`)
	for _, i := range old {
		f.waitCompleted(i.ID)
	}
	f.old = append(f.old, ids(old)...)
	for _, name := range []string{group, other} {
		for _, i := range inService(t, f.aws, name, 3) {
			if i.Version != 2 {
				t.Errorf("instance %s of %s is of version %d", i.ID, name, i.Version)
			}
		}
		f.assertDesired(name, 3)
	}
	if n := lowest(); n < 5 {
		t.Errorf("only %d pods of api were ready at one time, its budget asks for 5", n)
	}
}

// TestTriggerKilled: a trigger that is killed amid a rollout is started again, and ends it. Nothing is done twice.
func TestTriggerKilled(t *testing.T) {
	for name, tt := range map[string]struct {
		group awsim.Group
		args  []string
		calls map[string]int
	}{
		"by an Instance Refresh": {latest(4), []string{"--surge", "1"}, map[string]int{"StartInstanceRefresh": 1}},
		"by marking them unhealthy": {
			launchingFirst(4), []string{"--mode", "unhealthy"}, map[string]int{"SetInstanceHealth": 4},
		},
		"by marking them unhealthy, with a surge": {
			latest(4), []string{"--mode", "unhealthy", "--surge", "1"}, map[string]int{
				"SetInstanceHealth": 3, "SetDesiredCapacity": 1, "CreateOrUpdateTags": 1, "DeleteTags": 1,
				"TerminateInstanceInAutoScalingGroup": 1,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleetOf(t, tt.group)
			f.launchHook(time.Minute)
			f.serve(cluster.Pods{Stop: time.Second})
			lowest := f.watchReady("api")
			f.startAgent("RESYNC_INTERVAL=1s")
			f.outdate()
			args := append([]string{"--asg", group}, tt.args...)
			for went := range 3 {
				run := f.trigger(args...)
				f.waitGone(went + 1)
				run.kill()
			}
			f.trigger(args...).completes()
			for _, i := range f.waitServing(4) {
				if i.Version != 2 {
					t.Errorf("instance %s of version %d is in service", i.ID, i.Version)
				}
			}
			if n := lowest(); n < 7 {
				t.Errorf("only %d pods of api were ready at one time, its budget asks for 7", n)
			}
			if calls := changing(f.aws); !maps.Equal(calls, tt.calls) {
				t.Errorf("the triggers called %v, want %v", calls, tt.calls)
			}
		})
	}
}

// waitGone waits until so many old instances have been told to go.
func (f *fleet) waitGone(n int) {
	f.t.Helper()
	f.must(f.aws.WaitLedger(patient(f.t), func(all []awsim.Action) bool { return len(f.goneOf(all)) >= n }))
}

// TestDrainedAndNotOnlyReplaced: AWS calls the refresh successful while the last node still drains. The trigger waits
// for that, and says what it waits for.
func TestDrainedAndNotOnlyReplaced(t *testing.T) {
	t.Parallel()
	f := newFleetOf(t, latest(2))
	f.serve(cluster.Pods{})
	f.startAgent("RESYNC_INTERVAL=1s", "DRAIN_BLOCKED_AFTER=1s")
	f.outdate()
	f.allow("0")
	run := f.trigger("--asg", group, "--surge", "100%")
	_, err := f.aws.WaitRefresh(patient(f.t), group, "Successful")
	f.must(err)
	run.waitOutput(`Successful`)
	run.waitOutput(`pods left.*` + f.namespace + `/api`)
	select {
	case <-run.done:
		t.Error("the trigger has ended while nodes still drain")
	default:
	}
	f.allow("1")
	run.ends(0, `2 instances replaced`)
	for _, id := range f.old {
		f.waitCompleted(id)
	}
}

// allow sets how many pods of api may be unavailable, and waits until the disruption controller has counted them: before,
// the budget tells nothing.
func (f *fleet) allow(most string) {
	f.t.Helper()
	f.must(f.cluster.Client().PolicyV1().PodDisruptionBudgets(f.namespace).Delete(f.ctx, "api", metav1.DeleteOptions{}))
	f.must(f.cluster.MaxUnavailable(f.ctx, f.namespace, "api", most))
	f.must(f.cluster.WaitBudget(patient(f.t), f.namespace, "api", func(s policyv1.PodDisruptionBudgetStatus) bool {
		return s.ExpectedPods > 0
	}))
}

// TestPlanShowsNodes: with access to the cluster a plan tells of nodes, pods and the budgets that hold them.
func TestPlanShowsNodes(t *testing.T) {
	t.Parallel()
	f := newFleetOf(t, latest(2))
	f.serve(cluster.Pods{})
	f.allow("0")
	f.outdate()
	run := f.trigger("plan", "--asg", group, "--detailed-exitcode")
	run.ends(2, `2 of 2 instances are outdated`, `version 1.*version 2|version 1, .*at 2`, f.namespace+`/api`)
	for _, id := range f.old {
		run.ends(2, id+`.*`+cluster.NodeName(id))
	}
	run = f.trigger("plan", "--asg", group, "-o", "json", "--no-kubernetes")
	run.ends(0, `"outdated": ?true`)
	if calls := changing(f.aws); len(calls) > 0 {
		t.Errorf("a plan called %v", calls)
	}
}

// TestExcludedNodes: nodes with the label stay, the others go; that is what was asked for.
func TestExcludedNodes(t *testing.T) {
	t.Parallel()
	f := newFleetOf(t, launchingFirst(2))
	f.startAgent("RESYNC_INTERVAL=1s")
	f.outdate()
	stays, goes := f.old[0], f.old[1]
	f.change(cluster.NodeName(stays), func(n *corev1.Node) { n.Labels["example.com/pet"] = "yes" })
	f.trigger("--asg", group, "--mode", "unhealthy", "--exclude-node-label", "example.com/pet=yes").ends(0, `1 instance replaced`)
	f.waitCompleted(goes)
	if gone := f.gone(); len(gone) != 1 {
		t.Errorf("%v were told to go, want %s alone", gone, goes)
	}
}

// TestUnhealthyWaitsForReady: the next batch waits until the new node can serve.
func TestUnhealthyWaitsForReady(t *testing.T) {
	t.Parallel()
	f := newFleetOf(t, launchingFirst(2))
	f.startAgent("RESYNC_INTERVAL=1s")
	f.outdate()
	f.machines.Boot(2, cluster.BootUnready)
	run := f.trigger("--asg", group, "--mode", "unhealthy")
	f.waitGone(1)
	f.waitCompleted(f.gone()[0])
	run.waitOutput(`1 node to become ready`)
	if n := changing(f.aws)["SetInstanceHealth"]; n != 1 {
		t.Errorf("%d instances were marked while the new node was not ready", n)
	}
	f.letServe(group)
	run.completes(`2 instances replaced`)
}

// TestTriggerPausesAndResumes: a paused refresh halts and goes on. By default it is given the version by its number.
func TestTriggerPausesAndResumes(t *testing.T) {
	t.Parallel()
	f := newFleetOf(t, latest(3))
	f.launchHook(time.Minute)
	f.startAgent("RESYNC_INTERVAL=1s")
	f.outdate()
	f.machines.Boot(2, cluster.BootUnready)
	run := f.trigger("--asg", group, "--surge", "1")
	run.waitOutput(`Pending:Wait`)
	f.trigger("pause", "--asg", group).ends(0)
	f.letServe(group)
	f.waitServing(4)
	f.trigger("status", "--asg", group).ends(0, `InProgress`)
	if gone := f.gone(); len(gone) > 0 {
		t.Errorf("%v were told to go while the refresh was paused", gone)
	}
	f.trigger("resume", "--asg", group).ends(0)
	run.completes()
	out, err := f.api().DescribeAutoScalingGroups(f.ctx, &autoscaling.DescribeAutoScalingGroupsInput{
		AutoScalingGroupNames: []string{group},
	})
	f.must(err)
	if version := aws.ToString(out.AutoScalingGroups[0].LaunchTemplate.Version); version != strconv.Itoa(2) {
		t.Errorf("the group is at version %s: the refresh was not pinned", version)
	}
}
