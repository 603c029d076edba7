//go:build e2e

package e2e

import (
	"slices"
	"strconv"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	corev1 "k8s.io/api/core/v1"

	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/cluster"
)

// replaceVolumes starts an Instance Refresh that replaces the root volumes of the instances.
func (f *fleet) replaceVolumes() {
	f.t.Helper()
	version, err := f.aws.AddTemplateVersion(launchTemplate, "ami-2")
	f.must(err)
	_, err = f.api().StartInstanceRefresh(f.ctx, &autoscaling.StartInstanceRefreshInput{
		AutoScalingGroupName: aws.String(group), Strategy: types.RefreshStrategyReplaceRootVolume,
		Preferences: &types.RefreshPreferences{MinHealthyPercentage: aws.Int32(0)},
		DesiredConfiguration: &types.DesiredConfiguration{MixedInstancesPolicy: &types.MixedInstancesPolicy{
			LaunchTemplate: &types.LaunchTemplate{
				LaunchTemplateSpecification: &types.LaunchTemplateSpecification{
					LaunchTemplateName: aws.String(launchTemplate), Version: aws.String(strconv.Itoa(version)),
				},
				Overrides: []types.LaunchTemplateOverrides{{ImageId: aws.String("ami-2")}},
			},
		}},
	})
	f.must(err)
}

// TestReplaceRootVolume: the node is drained before its instance reboots. Then it looks ready although the kubelet has
// not started: the agent keeps the instance out of service, and the node cordoned, until the node has booted. Without a
// message, or without a launch hook, the resync does this.
func TestReplaceRootVolume(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		message bool
		launch  bool
	}{
		{"by messages", true, true},
		{"by the resync", false, true},
		{"without a launch hook", true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, pinned(1))
			f.must(f.cluster.Deploy(f.ctx, cluster.Deployment{
				Namespace: f.namespace, Name: "api", Replicas: 2, Pods: cluster.Pods{Pool: f.namespace},
			}))
			f.waitPodsReady("api", 2)
			id, node := f.old[0], cluster.NodeName(f.old[0])
			if tt.launch {
				f.launchHook(hookTimeout)
			}
			if !tt.message {
				f.must(f.aws.PutHook(group, awsim.Hook{Name: hook, HeartbeatTimeout: hookTimeout}))
				f.must(f.aws.PutHook(group, awsim.Hook{
					Name: launchHook, Transition: awsim.Launching, HeartbeatTimeout: hookTimeout,
				}))
			}
			agent := f.startAgent("RESYNC_INTERVAL=1s", "HOOK_CONFIRM_TIMEOUT=1s", "HOOK_NAMES="+hook+","+launchHook)
			f.replaceVolumes()
			if tt.launch {
				agent.waitLog("waiting for the node to become ready", "node", node, "missing", "a boot from the new root volume")
				f.assertUnbooted(node)
				f.must(f.cluster.Boot(f.ctx, node))
			}
			f.waitState(id, "InService")
			f.waitNode(node, func(n *corev1.Node) bool { return !isMarked(n) })
			for _, a := range f.aws.Ledger() {
				drained := len(a.PodsAtClose) == 0 || a.Transition == awsim.Launching
				if a.ClosedBy != awsim.ByCompletion || a.Result != "CONTINUE" || !drained {
					t.Errorf("the action of hook %s is %+v", a.Hook, a)
				}
			}
			f.waitPodsReady("api", 2)
			if got := f.waitRefreshed(); got.Status != types.InstanceRefreshStatusSuccessful {
				t.Errorf("the refresh is %s", got.Status)
			}
		})
	}
}

// assertUnbooted expects that the instance has passed the terminating hook and is held by the launch hook, and that its
// node looks ready, but for the mark.
func (f *fleet) assertUnbooted(node string) {
	f.t.Helper()
	n := f.getNode(node)
	ready := slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
	if !ready || !isMarked(n) {
		f.t.Errorf("before the boot the node is ready: %v, marked: %v", ready, isMarked(n))
	}
	all := f.aws.Ledger()
	if len(all) != 2 || all[0].ClosedAt.IsZero() || !all[1].ClosedAt.IsZero() || all[1].Transition != awsim.Launching {
		f.t.Errorf("before the boot the actions are %+v", all)
	}
}
