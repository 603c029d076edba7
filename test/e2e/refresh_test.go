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
	machines *cluster.Machines
	old      []string // the ids of these instances
}

// newFleet returns a fleet in service, whose group has a terminating hook from then on.
func newFleet(t testing.TB, size int) *fleet {
	t.Helper()
	return newFleetOf(t, awsim.Group{Desired: size, LaunchTemplateVersion: "1"})
}

// newFleetOf is newFleet for a group with more of its own.
func newFleetOf(t testing.TB, g awsim.Group) *fleet {
	t.Helper()
	return newFleetOn(t, cluster.Shared(t), g)
}

func newFleetOn(t testing.TB, c *cluster.Cluster, g awsim.Group) *fleet {
	t.Helper()
	base, machines := withMachines(t, c, cluster.Node{})
	f := &fleet{fixture: base, machines: machines}
	_, err := f.aws.CreateLaunchTemplate(launchTemplate, "ami-1")
	f.must(err)
	size := g.Desired
	g.Name, g.Max, g.LaunchTemplate = group, 100, launchTemplate
	g.Tags = map[string]string{"kubernetes.io/cluster/demo": "owned"}
	f.must(f.aws.CreateGroup(g))
	for _, i := range f.waitServing(size) {
		f.old = append(f.old, i.ID)
	}
	f.addHook(time.Minute)
	return f
}

// waitServing waits until the group has so many instances, all of them in service, and returns them.
func (f *fleet) waitServing(size int) []awsim.Instance {
	f.t.Helper()
	return f.inService(group, size)
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

// refresh begins to replace all nodes by some of another version, which come up as said. A maximum of zero is not
// given.
func (f *fleet) refresh(how cluster.Boot, minHealthy, maxHealthy int32) {
	f.t.Helper()
	version, err := f.aws.AddTemplateVersion(launchTemplate, "ami-2")
	f.must(err)
	f.machines.Boot(version, how)
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

// waitRefreshed waits until the refresh has ended, and returns it as the API tells of it.
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

// gone are those of the old instances that have been told to go.
func (f *fleet) gone() []string { return f.goneOf(f.aws.Ledger()) }

func (f *fleet) goneOf(ledger []awsim.Action) (ids []string) {
	for _, a := range ledger {
		if a.Transition == awsim.Terminating && slices.Contains(f.old, a.InstanceID) {
			ids = append(ids, a.InstanceID)
		}
	}
	return ids
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

// TestRefreshToNodesThatNeverServe: no more old nodes are drained than the percentages of the refresh allow; every
// launch is abandoned, and the refresh fails and says so. Then the group is as it was.
func TestRefreshToNodesThatNeverServe(t *testing.T) {
	for _, tt := range []struct {
		name                   string
		size                   int
		how                    cluster.Boot
		minHealthy, maxHealthy int32
		goes                   int
	}{
		{"the percentage leaves room for none, and so one goes first", 6, cluster.BootUnready, 90, 0, 1},
		{"a new one comes first", 4, cluster.BootUnready, 90, 125, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, tt.size)
			f.launchHook(time.Minute)
			pods := f.serve(cluster.Pods{})
			lowest := f.watchReady("api")
			agent := f.startAgent("LAUNCH_TIMEOUT=3s", "NODE_REGISTRATION_TIMEOUT=1s", "RESYNC_INTERVAL=1s")
			f.refresh(tt.how, tt.minHealthy, tt.maxHealthy)
			f.waitAbandoned(2)
			f.aws.SetDelays(awsim.Delays{RefreshGiveUp: time.Second})

			ended := f.waitRefreshed()
			reason := aws.ToString(ended.StatusReason)
			if ended.Status != types.InstanceRefreshStatusFailed || !strings.Contains(reason, "no progress") {
				t.Errorf("the refresh is %s: %s", ended.Status, reason)
			}
			gone := f.gone()
			if len(gone) != tt.goes {
				t.Errorf("%d old nodes were told to go, want %d", len(gone), tt.goes)
			}
			f.assertRestored(tt.size)
			f.waitQueueEmpty()
			abandoned, givenUp := f.assertAbandoned(3 * time.Second)
			f.assertUntouched(gone, pods)
			if n := lowest(); n < 2*tt.size-1 {
				t.Errorf("only %d pods of api were ready at one time, its budget asks for %d", n, 2*tt.size-1)
			}
			agent.waitCount(abandoned, "launch ended", "outcome", "abandoned")
			if n := int(agent.metric("node_drainer_launches_total", "abandoned")); n < abandoned || n > abandoned+givenUp {
				t.Errorf("%d launches are counted as abandoned, want %d, and %d more at most", n, abandoned, givenUp)
			}
			if tt.how == cluster.BootUnready {
				f.waitEvent("NodeNotReadyInTime")
			}
			t.Logf("%d of %d old nodes went, %d launches were abandoned: %s", len(gone), tt.size, abandoned, reason)
		})
	}
}

// waitAbandoned waits until so many launches have been abandoned by the agent.
func (f *fleet) waitAbandoned(n int) {
	f.t.Helper()
	f.must(f.aws.WaitLedger(waits(f.t), func(all []awsim.Action) bool {
		abandoned := 0
		for _, a := range all {
			if a.Transition == awsim.Launching && a.ClosedBy == awsim.ByCompletion && a.Result == "ABANDON" {
				abandoned++
			}
		}
		return abandoned >= n
	}))
}

// assertRestored holds if the group gets back to its size, by the old version.
func (f *fleet) assertRestored(size int) {
	f.t.Helper()
	for _, i := range f.waitServing(size) {
		if i.Version != 1 {
			f.t.Errorf("instance %s of version %d is in service", i.ID, i.Version)
		}
	}
}

// assertAbandoned holds if all launches but those that are in service were abandoned when their time was over, and
// returns how many these are. The refresh itself gives up one at most, when it ends.
func (f *fleet) assertAbandoned(timeout time.Duration) (abandoned, givenUp int) {
	f.t.Helper()
	var serving []string
	for _, i := range f.aws.Instances(group) {
		serving = append(serving, i.ID)
	}
	for _, a := range f.launches() {
		switch took := a.ClosedAt.Sub(a.StartedAt); {
		case slices.Contains(serving, a.InstanceID):
		case a.ClosedBy == awsim.ByAbandon:
			givenUp++
		case a.ClosedBy != awsim.ByCompletion || a.Result != "ABANDON" || took < timeout-time.Second: // Time is in seconds
			f.t.Errorf("the launch of %s was closed by %q with %q after %v", a.InstanceID, a.ClosedBy, a.Result, took)
		default:
			abandoned++
		}
	}
	if abandoned < 2 || givenUp > 1 {
		f.t.Errorf("%d launches were abandoned, and %d given up", abandoned, givenUp)
	}
	return abandoned, givenUp
}

// assertUntouched holds if every old node but those that are gone is in service with nothing of ours on it, and no
// pod but those of the gone was evicted.
func (f *fleet) assertUntouched(gone []string, pods map[string][]string) {
	f.t.Helper()
	var evicted []string
	for _, id := range f.old {
		if slices.Contains(gone, id) {
			evicted = append(evicted, pods[id]...)
			continue
		}
		f.assertUnmarked(cluster.NodeName(id))
		if n := f.getNode(cluster.NodeName(id)); condition(n) != nil {
			f.t.Errorf("node %s shows %v", n.Name, condition(n))
		}
	}
	f.assertEvicted(evicted)
}

// TestRefresh: old nodes go one by one, drained, and none before the new one of the one before can serve. While it is
// on, the cluster autoscaler is kept off the new nodes; what somebody else has asked of it stays.
func TestRefresh(t *testing.T) {
	t.Parallel()
	const size = 4
	f := newFleet(t, size)
	f.launchHook(time.Minute)
	f.serve(cluster.Pods{Stop: time.Second})
	lowest := f.watchReady("api")
	f.refresh(cluster.BootUnready, 75, 0)
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
		if n := len(f.gone()); n > i+1 {
			t.Errorf("%d old nodes were told to go when %d new ones could serve", n, i)
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
		agent.waitLog("scale-down enabled after the instance refresh", "node", node)
	}
	if n := f.getNode(theirs); n.Annotations[scaleDownDisabled] != "true" || n.Annotations[scaleDownOwner] != "" {
		t.Errorf("somebody else's annotation has become %v", n.Annotations)
	}
	if n := lowest(); n < 2*size-1 {
		t.Errorf("only %d pods of api were ready at one time, its budget asks for %d", n, 2*size-1)
	}
}

// assertRefreshed holds if all old nodes were drained and completed, and all new ones are in service with nothing of a
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
