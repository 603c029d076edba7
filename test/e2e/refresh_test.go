//go:build e2e

package e2e

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	corev1 "k8s.io/api/core/v1"

	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/cluster"
)

const (
	launchTemplate    = "node"
	scaleDownDisabled = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
	scaleDownOwner    = "node-drainer.io/scale-down-disabled"
)

// fleet is a fixture whose group has launched its nodes from the first version of a launch template.
type fleet struct {
	*fixture
	old []string // the ids of these instances
}

// newFleet returns a fleet in service, whose group has a terminating hook from then on.
func newFleet(t testing.TB, g awsim.Group) *fleet {
	t.Helper()
	return newFleetOn(t, shared(t), g)
}

func newFleetOn(t testing.TB, c *cluster.Cluster, g awsim.Group) *fleet {
	t.Helper()
	f := &fleet{fixture: newFixtureWithoutGroup(t, c, cluster.Node{})}
	_, err := f.aws.CreateLaunchTemplate(launchTemplate, "ami-1")
	f.must(err)
	size := g.Desired
	g.Name, g.Max, g.LaunchTemplate, g.Tags = group, 100, launchTemplate, owned
	f.must(f.aws.CreateGroup(g))
	for _, i := range f.waitServing(size) {
		f.old = append(f.old, i.ID)
	}
	f.addHook(hookTimeout)
	return f
}

// waitServing waits until the group has so many instances, all of them in service, and returns them.
func (f *fleet) waitServing(size int) (all []awsim.Instance) {
	f.t.Helper()
	f.must(f.aws.WaitInstances(waits(f.t), group, func(now []awsim.Instance) bool {
		all = now
		return len(now) == size && !slices.ContainsFunc(now, func(i awsim.Instance) bool { return i.State != "InService" })
	}))
	return all
}

// serve runs two pods for each node, of which all but one must always be ready, and returns the names of the pods by
// the id of their instance.
func (f *fleet) serve(pods cluster.Pods) map[string][]string {
	f.t.Helper()
	pods.Pool = f.namespace
	n := 2 * len(f.old)
	f.must(f.cluster.Deploy(f.ctx, cluster.Deployment{
		Namespace: f.namespace, Name: "api", Replicas: int32(n), Pods: pods,
	}))
	f.waitPodsReady("api", n)
	f.must(f.cluster.MaxUnavailable(f.ctx, f.namespace, "api", "1"))
	on := map[string][]string{}
	for _, id := range f.old {
		on[id] = f.podsOn(cluster.NodeName(id))
	}
	return on
}

// refresh starts an Instance Refresh to another version, whose nodes stay NotReady. A maximum of zero is not given.
func (f *fleet) refresh(minHealthy, maxHealthy int32) {
	f.t.Helper()
	version, err := f.aws.AddTemplateVersion(launchTemplate, "ami-2")
	f.must(err)
	f.machines.SetUnready(version, true)
	prefs := &types.RefreshPreferences{MinHealthyPercentage: aws.Int32(minHealthy)}
	if maxHealthy > 0 {
		prefs.MaxHealthyPercentage = aws.Int32(maxHealthy)
	}
	_, err = f.api().StartInstanceRefresh(f.ctx, &autoscaling.StartInstanceRefreshInput{
		AutoScalingGroupName: aws.String(group), Preferences: prefs,
		DesiredConfiguration: &types.DesiredConfiguration{LaunchTemplate: &types.LaunchTemplateSpecification{
			LaunchTemplateName: aws.String(launchTemplate), Version: aws.String(strconv.Itoa(version)),
		}},
	})
	f.must(err)
}

// waitRefreshed waits until the refresh has ended, and returns its description.
func (f *fleet) waitRefreshed() types.InstanceRefresh {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.ctx, rolloutTimeout)
	defer cancel()
	_, err := f.aws.WaitRefresh(ctx, group, "Successful", "Failed")
	f.must(err)
	out, err := f.api().DescribeInstanceRefreshes(f.ctx, &autoscaling.DescribeInstanceRefreshesInput{
		AutoScalingGroupName: aws.String(group),
	})
	f.must(err)
	return out.InstanceRefreshes[0]
}

// newcomer waits for the launch of an instance that is not among the known ones, and returns it.
func (f *fleet) newcomer(known ...string) (found awsim.Action) {
	f.t.Helper()
	f.must(f.aws.WaitLedger(waits(f.t), func(all []awsim.Action) bool {
		for _, a := range all {
			if a.Transition == awsim.Launching && !slices.Contains(known, a.InstanceID) {
				found = a
				return true
			}
		}
		return false
	}))
	f.nodes[cluster.NodeName(found.InstanceID)] = true
	return found
}

// launches are the lifecycle actions of launches; what they launched is known as a node of this test from then on.
func (f *fleet) launches() []awsim.Action {
	launches := slices.DeleteFunc(f.aws.Ledger(), func(a awsim.Action) bool { return a.Transition != awsim.Launching })
	for _, a := range launches {
		f.nodes[cluster.NodeName(a.InstanceID)] = true
	}
	return launches
}

// waitUnprotected waits until nothing of ours keeps the cluster autoscaler off the node.
func (f *fleet) waitUnprotected(node string) {
	f.t.Helper()
	f.waitNode(node, func(n *corev1.Node) bool {
		_, disabled := n.Annotations[scaleDownDisabled]
		_, ours := n.Annotations[scaleDownOwner]
		return !disabled && !ours
	})
}

// TestRefreshToNodesThatNeverServe: each launch is abandoned when its time is over, so the refresh fails. The group gets
// back to its size with old nodes, and no pod of a node that stayed has moved.
func TestRefreshToNodesThatNeverServe(t *testing.T) {
	t.Parallel()
	const size = 3
	f := newFleet(t, pinned(size))
	f.launchHook(hookTimeout)
	f.serve(cluster.Pods{})
	agent := f.startAgent("LAUNCH_TIMEOUT=3s", "NODE_REGISTRATION_TIMEOUT=1s", "RESYNC_INTERVAL=1s")
	f.refresh(90, 150) // which launches first
	agent.waitCount(2, "launch ended", "outcome", "abandoned")
	f.aws.SetDelays(awsim.Delays{RefreshGiveUp: time.Second})
	ended := f.waitRefreshed()
	if reason := aws.ToString(ended.StatusReason); ended.Status != types.InstanceRefreshStatusFailed || !strings.Contains(reason, "no progress") {
		t.Errorf("the refresh is %s: %s", ended.Status, reason)
	}
	for _, i := range f.waitServing(size) {
		if i.Version != 1 {
			t.Errorf("instance %s of version %d is in service", i.ID, i.Version)
		}
		f.assertUnmarked(cluster.NodeName(i.ID))
	}
	f.launches() // whose nodes have had Events
	f.waitEvent("NodeNotReadyInTime")
	f.assertEvicted(nil)
}

// TestRefresh: old nodes go one by one, drained, and none before the new one of the one before can serve. While it is
// on, the cluster autoscaler is kept off the new nodes; an annotation of another user stays.
func TestRefresh(t *testing.T) {
	t.Parallel()
	const size = 4
	f := newFleet(t, pinned(size))
	f.launchHook(hookTimeout)
	f.serve(cluster.Pods{Stop: time.Second})
	lowest := f.watchReady("api")
	f.refresh(75, 0)
	theirs := cluster.NodeName(f.newcomer().InstanceID)
	f.change(theirs, func(n *corev1.Node) { n.Annotations[scaleDownDisabled] = "true" })
	agent := f.startAgent("RESYNC_INTERVAL=1s")

	var known, ours []string
	for i := range size {
		id := f.newcomer(known...).InstanceID
		known = append(known, id)
		node := cluster.NodeName(id)
		agent.waitLog("waiting for the node to become ready", "node", node)
		if node != theirs {
			ours = append(ours, node)
			f.waitNode(node, func(n *corev1.Node) bool {
				return n.Annotations[scaleDownDisabled] == "true" && n.Annotations[scaleDownOwner] == group
			})
		}
		if n := len(f.terminated()); n > i+1 {
			t.Errorf("%d old nodes were terminated when %d new ones were ready", n, i)
		}
		f.must(f.cluster.MarkReady(f.ctx, node))
		f.waitCompleted(id)
	}
	if ended := f.waitRefreshed(); ended.Status != types.InstanceRefreshStatusSuccessful {
		t.Errorf("the refresh is %s: %s", ended.Status, aws.ToString(ended.StatusReason))
	}
	f.assertRefreshed(size)
	for _, node := range ours {
		f.waitUnprotected(node)
		agent.waitLog("scale-down enabled after the rollout", "node", node)
	}
	if n := f.getNode(theirs); n.Annotations[scaleDownDisabled] != "true" || n.Annotations[scaleDownOwner] != "" {
		t.Errorf("the annotation of another user has become %v", n.Annotations)
	}
	if n := lowest(); n < 2*size-1 {
		t.Errorf("only %d pods of api were ready at one time, its budget requires %d", n, 2*size-1)
	}
}

// assertRefreshed expects that all old nodes were drained and completed, and all new ones are in service with nothing of a
// termination on them.
func (f *fleet) assertRefreshed(size int) {
	f.t.Helper()
	for _, id := range f.old {
		f.waitCompleted(id)
	}
	for _, i := range f.waitServing(size) {
		if i.Version != 2 {
			f.t.Errorf("instance %s of version %d is in service", i.ID, i.Version)
		}
		f.assertUnmarked(cluster.NodeName(i.ID))
	}
	launches := f.launches()
	if len(launches) != size {
		f.t.Errorf("there were %d launches, want %d", len(launches), size)
	}
	for _, a := range launches {
		if a.ClosedBy != awsim.ByCompletion || a.Result != "CONTINUE" {
			f.t.Errorf("the launch of %s was closed by %q with %q", a.InstanceID, a.ClosedBy, a.Result)
		}
	}
	f.waitQueueEmpty()
}

// terminated returns those of the old instances that the group has terminated.
func (f *fleet) terminated() (ids []string) {
	for _, a := range f.aws.Ledger() {
		if a.Transition == awsim.Terminating && slices.Contains(f.old, a.InstanceID) {
			ids = append(ids, a.InstanceID)
		}
	}
	return ids
}
