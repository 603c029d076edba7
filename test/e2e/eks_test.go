//go:build e2e

package e2e

import (
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/cluster"
	"github.com/node-drainer/node-drainer/test/harness"
)

const nodegroup = "workers"

// eksTimes are EKS's, with seconds for minutes.
func eksTimes() awsim.EKSTimes {
	return awsim.EKSTimes{
		Eviction: 15 * time.Second, Settle: time.Second, Drain: 5 * time.Second, Poll: 200 * time.Millisecond,
	}
}

// managedFixture has two nodes of a managed node group of EKS, which labels, updates and drains them.
type managedFixture struct {
	*fixture
	group     string
	instances []string
}

func newManagedFixture(t *testing.T, spec awsim.Nodegroup, times awsim.EKSTimes) *managedFixture {
	t.Helper()
	f := &managedFixture{fixture: newFixtureWithoutGroup(t, shared(t), cluster.Node{})}
	f.aws.PutSubnet(awsim.Subnet{ID: "subnet-a", Zone: "eu-central-1a", Available: 100})
	f.aws.CreateCluster("demo", "1.31")
	f.aws.PublishRelease(awsim.Release{KubernetesVersion: "1.31", Version: "1.31.0-20260101", Image: "ami-old"})
	f.must(f.aws.Connect("demo", harness.NewEKS(f.cluster.Client()), times))
	spec.Cluster, spec.Name, spec.Subnets = "demo", nodegroup, []string{"subnet-a"}
	spec.Desired, spec.Max = 2, 4
	var err error
	f.group, err = f.aws.CreateNodegroup(spec)
	f.must(err)
	f.must(f.aws.WaitInstances(waits(t), f.group, func(all []awsim.Instance) bool {
		f.instances = nil
		for _, one := range all {
			if one.State == "InService" {
				f.instances = append(f.instances, one.ID)
				f.nodes[cluster.NodeName(one.ID)] = true
			}
		}
		return len(f.instances) == 2
	}))
	return f
}

// hook gives the node group's Auto Scaling group our hook, next to those of EKS.
func (f *managedFixture) hook() {
	f.t.Helper()
	f.must(f.aws.PutHook(f.group, awsim.Hook{
		Name: hook, HeartbeatTimeout: hookTimeout, NotificationTargetARN: f.aws.QueueARN(f.queue),
	}))
}

// ended returns the records of the instance's two terminating hooks, EKS's and ours, once its machine has ended. Ours is
// zero without the hook.
func (f *managedFixture) ended(instanceID string) (ofEKS, ours awsim.Action) {
	f.t.Helper()
	f.waitState(instanceID, "Terminated")
	for _, a := range f.aws.Ledger() {
		switch {
		case a.InstanceID != instanceID || a.Transition != awsim.Terminating:
		case a.Hook == hook:
			ours = a
		default:
			ofEKS = a
		}
	}
	return ofEKS, ours
}

// TestManagedNodeScaleIn: a Deployment needs longer to leave the node within its budget than EKS tries to evict it. With
// our hook it has that time; EKS alone terminates the instance with pods.
func TestManagedNodeScaleIn(t *testing.T) {
	t.Parallel()
	for name, hooked := range map[string]bool{"with node-drainer": true, "EKS alone": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newManagedFixture(t, awsim.Nodegroup{}, eksTimes())
			f.mayKill = !hooked
			instance := f.instances[0]
			f.deploy("api", cluster.NodeName(instance), 3, cluster.Pods{
				Start: 4 * time.Second, Stop: 8 * time.Second, GracePeriod: time.Minute,
			})
			f.must(f.cluster.MinAvailable(f.ctx, f.namespace, "api", "2"))
			lowest := f.watchReady("api")
			if hooked {
				f.hook()
				f.startAgent()
			}
			f.terminate(instance)
			ofEKS, ours := f.ended(instance)
			if len(ofEKS.PodsAtClose) == 0 {
				t.Fatalf("EKS's time was long enough: %+v", ofEKS)
			}
			if !hooked {
				if len(ofEKS.Killed) == 0 {
					t.Error("no pod was killed: the test shows nothing")
				}
				return
			}
			if ours.ClosedBy != awsim.ByCompletion || !ours.ClosedAt.After(ofEKS.ClosedAt) || len(ours.PodsAtClose)+len(ours.Killed) > 0 {
				t.Errorf("our hook ended with %+v, want it to be completed after that of EKS, on an empty node", ours)
			}
			if n := lowest(); n < 2 {
				t.Errorf("only %d pods were ready at one time, the budget requires 2", n)
			}
			f.waitQueueEmpty()
		})
	}
}

// TestManagedNodeRollingRestart: EKS cannot evict a single replica whose budget forbids it. The agent restarts its
// Deployment, so that another pod is Ready before this one ends.
func TestManagedNodeRollingRestart(t *testing.T) {
	t.Parallel()
	f := newManagedFixture(t, awsim.Nodegroup{}, eksTimes())
	instance := f.instances[0]
	f.deploy("single", cluster.NodeName(instance), 1, cluster.Pods{Start: 6 * time.Second})
	f.must(f.cluster.MinAvailable(f.ctx, f.namespace, "single", "1"))
	lowest := f.watchReady("single")
	f.hook()
	f.startAgent("DRAIN_SINGLE_REPLICAS=restart")
	f.terminate(instance)
	if _, ours := f.ended(instance); ours.ClosedBy != awsim.ByCompletion || len(ours.PodsAtClose)+len(ours.Killed) > 0 {
		t.Errorf("our hook ended with %+v, want it to be completed on an empty node", ours)
	}
	if n := lowest(); n < 1 {
		t.Error("no pod was Ready for a while")
	}
	f.waitQueueEmpty()
}

// TestManagedNodeUpdate: EKS updates the node group next to the agent, which leaves the evictions to EKS, and completes
// its hook when the node is empty: also when EKS was forced to delete pods and terminates the instance before they have
// ended.
func TestManagedNodeUpdate(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		strategy string
		force    bool // The budget never allows an eviction.
	}{
		"default": {strategy: awsim.UpdateDefault}, "minimal": {strategy: awsim.UpdateMinimal}, "forced": {force: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			times := eksTimes()
			if tt.force {
				times.Eviction = 3 * time.Second
			}
			f := newManagedFixture(t, awsim.Nodegroup{Strategy: tt.strategy}, times)
			pods, budget := cluster.Pods{Stop: time.Second}, "1"
			if tt.force {
				pods, budget = cluster.Pods{Stop: 15 * time.Second, GracePeriod: time.Minute}, "2"
			}
			f.deploy("api", cluster.NodeName(f.instances[0]), 2, pods)
			f.must(f.cluster.MinAvailable(f.ctx, f.namespace, "api", budget))
			f.hook()
			agent := f.startAgent()
			f.update(tt.force)
			for _, instance := range f.instances {
				if _, ours := f.ended(instance); ours.ClosedBy != awsim.ByCompletion || len(ours.PodsAtClose)+len(ours.Killed) > 0 {
					t.Errorf("our hook ended with %+v, want it to be completed on an empty node", ours)
				}
				agent.waitLog("termination ended", "instance", instance, "outcome", "drained")
			}
			f.assertNoneEvicted()
			f.must(f.cluster.RemoveBudget(f.ctx, f.namespace, "api"))
			f.waitQueueEmpty() // EKS has terminated the nodes by which it had enlarged the group.
			f.waitPodsReady("api", 2)
		})
	}
}

// assertNoneEvicted expects that the agent has evicted no pod of the nodes that EKS has replaced.
func (f *managedFixture) assertNoneEvicted() {
	f.t.Helper()
	bound := f.bound()
	for _, pod := range f.evicted() {
		if slices.Contains(f.instances, harness.InstanceOf(bound[pod])) {
			f.t.Errorf("the agent has evicted %s, which EKS does", pod)
		}
	}
}

// update updates the node group to a new release, and returns when EKS has succeeded.
func (f *managedFixture) update(force bool) {
	f.t.Helper()
	f.aws.PublishRelease(awsim.Release{KubernetesVersion: "1.31", Version: "1.31.0-20260102", Image: "ami-new"})
	client := eks.NewFromConfig(harness.AWSConfig(f.aws.URL(), "console"))
	out, err := client.UpdateNodegroupVersion(f.ctx, &eks.UpdateNodegroupVersionInput{
		ClusterName: new("demo"), NodegroupName: new(nodegroup), Force: force,
	})
	f.must(err)
	eventually(f.t, waitTimeout, func() string {
		u, err := client.DescribeUpdate(f.ctx, &eks.DescribeUpdateInput{
			Name: new("demo"), NodegroupName: new(nodegroup), UpdateId: out.Update.Id,
		})
		f.must(err)
		switch u.Update.Status { //nolint:exhaustive // The others are errors.
		case types.UpdateStatusSuccessful:
			return ""
		case types.UpdateStatusInProgress:
			return "the update has not ended"
		}
		f.t.Fatalf("the update ended with %+v", u.Update)
		return ""
	})
}

// TestManagedNodeSpotInterruption: the agent and EKS drain a Spot node at the warning. No pod is left on it when EC2
// takes it, also if EKS has not drained it in time.
func TestManagedNodeSpotInterruption(t *testing.T) {
	t.Parallel()
	times := eksTimes()
	times.Drain = time.Second
	f := newManagedFixture(t, awsim.Nodegroup{Market: awsim.Spot}, times)
	f.hook()
	f.aws.AddRule(f.aws.QueueARN(f.queue))
	instance := f.instances[0]
	f.deploy("api", cluster.NodeName(instance), 3, cluster.Pods{Start: 2 * time.Second, Stop: time.Second})
	f.must(f.cluster.MinAvailable(f.ctx, f.namespace, "api", "2"))
	agent := f.startAgent("HOOK_NAMES=" + hook)
	f.waitQueueEmpty()
	f.must(f.aws.Interrupt(instance, 40*time.Second))
	agent.waitLog("termination ended", "outcome", "drained", "event", "spot-interruption")
	f.interrupted(instance)
}

// TestManagedNodeRebalance: at a rebalance recommendation EKS launches another node, drains the one at risk when that is
// Ready, and terminates it. The agent completes our hook.
func TestManagedNodeRebalance(t *testing.T) {
	t.Parallel()
	f := newManagedFixture(t, awsim.Nodegroup{Market: awsim.Spot}, eksTimes())
	f.hook()
	f.aws.AddRule(f.aws.QueueARN(f.queue))
	instance := f.instances[0]
	f.deploy("api", cluster.NodeName(instance), 3, cluster.Pods{Stop: time.Second})
	f.must(f.cluster.MaxUnavailable(f.ctx, f.namespace, "api", "1"))
	lowest := f.watchReady("api")
	agent := f.startAgent("HOOK_NAMES=" + hook)
	f.must(f.aws.Recommend(instance))
	if _, ours := f.ended(instance); ours.ClosedBy != awsim.ByCompletion {
		t.Errorf("our hook ended with %+v, want it to be completed", ours)
	}
	agent.waitLog("termination ended", "instance", instance, "outcome", "drained")
	if n := lowest(); n < 2 {
		t.Errorf("only %d pods of api were ready at one time, its budget requires 2", n)
	}
}

// TestManagedNodeRepair: node auto repair terminates a node that is not Ready, and our hook is completed when it is
// empty.
func TestManagedNodeRepair(t *testing.T) {
	t.Parallel()
	times := eksTimes()
	times.Repair = 5 * time.Second
	f := newManagedFixture(t, awsim.Nodegroup{NodeRepair: true}, times)
	instance := f.instances[0]
	f.deploy("api", cluster.NodeName(instance), 2, cluster.Pods{Stop: time.Second})
	f.hook()
	agent := f.startAgent()
	f.must(f.cluster.MarkUnready(f.ctx, cluster.NodeName(instance)))
	if _, ours := f.ended(instance); ours.ClosedBy != awsim.ByCompletion {
		t.Errorf("our hook ended with %+v, want it to be completed", ours)
	}
	agent.waitLog("termination ended", "instance", instance, "outcome", "drained")
	f.waitQueueEmpty()
	f.waitPodsReady("api", 2)
}
