//go:build e2e

package e2e

import (
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	corev1 "k8s.io/api/core/v1"

	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/cluster"
)

// theirTaint belongs to another program. The pods of these tests tolerate it.
const theirTaint = "example.com/theirs"

// pool gives the group a warm pool whose machines are stopped, and which takes instances back.
func (f *fleet) pool(least, prepared int32) {
	f.t.Helper()
	_, err := f.api().PutWarmPool(f.ctx, &autoscaling.PutWarmPoolInput{
		AutoScalingGroupName: aws.String(group), PoolState: types.WarmPoolStateStopped, MinSize: aws.Int32(least),
		MaxGroupPreparedCapacity: aws.Int32(prepared),
		InstanceReusePolicy:      &types.InstanceReusePolicy{ReuseOnScaleIn: aws.Bool(true)},
	})
	f.must(err)
}

// scale sets how many instances the group is to have in service.
func (f *fleet) scale(size int32) {
	f.t.Helper()
	_, err := f.api().SetDesiredCapacity(f.ctx, &autoscaling.SetDesiredCapacityInput{
		AutoScalingGroupName: aws.String(group), DesiredCapacity: aws.Int32(size),
	})
	f.must(err)
}

// waitPooled waits until an instance rests in the warm pool, and returns its id.
func (f *fleet) waitPooled() (id string) {
	f.t.Helper()
	f.must(f.aws.WaitInstances(waits(f.t), group, func(all []awsim.Instance) bool {
		i := slices.IndexFunc(all, func(i awsim.Instance) bool { return i.State == "Warmed:Stopped" })
		if i >= 0 {
			id = all[i].ID
		}
		return i >= 0
	}))
	f.nodes[cluster.NodeName(id)] = true
	return id
}

// waitResync waits for two complete resyncs from now on.
func (f *fleet) waitResync() {
	f.t.Helper()
	const action = "DescribeAutoScalingGroups" // twice for each look
	f.waitRequests(action, f.aws.Requests()["autoscaling."+action]+9)
}

// TestBackFromTheWarmPool: an instance that returns to the warm pool is drained, and its node stays cordoned. When it is in
// service again, its node is uncordoned, and taints of other programs stay. This repeats.
func TestBackFromTheWarmPool(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		hook   bool
		resync string
		event  string
	}{
		{"by the message of a launch hook", true, "1h", "Uncordoned"},
		{"by the resync", false, "1s", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, pinned(2))
			if tt.hook {
				f.launchHook(hookTimeout)
			}
			f.pool(0, 2)
			tolerating := []corev1.Toleration{{Key: theirTaint, Operator: corev1.TolerationOpExists}}
			f.serve(cluster.Pods{Stop: time.Second, Tolerations: tolerating})
			f.startAgent("RESYNC_INTERVAL=" + tt.resync)

			f.scale(1)
			id := f.waitPooled()
			node := cluster.NodeName(id)
			f.assertReturned(id)
			f.waitQueueEmpty()
			if tt.resync == "1s" {
				f.waitResync()
			}
			if !isMarked(f.getNode(node)) {
				t.Error("the node of the instance in the pool is not cordoned")
			}
			f.change(node, func(n *corev1.Node) {
				n.Annotations[theirTaint] = "yes"
				n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: theirTaint, Effect: corev1.TaintEffectNoSchedule})
			})
			pinned := cluster.Pods{Node: node, Tolerations: tolerating}
			f.must(f.cluster.Deploy(f.ctx, cluster.Deployment{
				Namespace: f.namespace, Name: "pinned", Replicas: 1, Pods: pinned,
			}))

			f.scale(2)
			f.waitServing(2)
			f.waitPodsReady("pinned", 1)
			f.assertBack(node)
			if tt.event != "" {
				f.waitEvent(tt.event)
			}

			f.scale(1) // Again, by which the agent patches its Events.
			if again := f.waitPooled(); again != id {
				t.Fatalf("%s went into the pool, and not %s", again, id)
			}
			f.assertReturned(id)
			f.scale(2)
			f.waitServing(2)
			f.waitPodsReady("pinned", 1)
			f.assertBack(node)
			f.waitQueueEmpty()
		})
	}
}

// assertReturned expects that the agent completed the hook each time that the instance returned to the pool.
func (f *fleet) assertReturned(id string) {
	f.t.Helper()
	f.waitCompleted(id)
	returned := 0
	for _, a := range f.aws.Ledger() {
		if a.InstanceID != id {
			continue
		}
		if a.Transition == awsim.Terminating && a.Destination == "WarmPool" {
			returned++
		}
		if a.ClosedBy != awsim.ByCompletion || a.Result != "CONTINUE" {
			f.t.Errorf("the action of hook %s was closed by %q with %q", a.Hook, a.ClosedBy, a.Result)
		}
	}
	if returned == 0 {
		f.t.Errorf("%s has not gone into the warm pool by a hook", id)
	}
}

// assertBack expects that the agent's taint, label and annotation are off the node, and that those of others are on it.
func (f *fleet) assertBack(node string) {
	f.t.Helper()
	f.waitNode(node, func(n *corev1.Node) bool { return condition(n) == nil }) // It is removed a little later.
	f.assertUnmarked(node)
	n := f.getNode(node)
	tainted := slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == theirTaint })
	if !tainted || n.Annotations[theirTaint] != "yes" {
		f.t.Errorf("taints or annotations of another program are gone: taints %v, annotations %v", n.Spec.Taints, n.Annotations)
	}
}

// TestIntoTheWarmPoolAndOut: an instance that is launched into the warm pool is not waited for. It is when it leaves the
// pool for the group.
func TestIntoTheWarmPoolAndOut(t *testing.T) {
	t.Parallel()
	f := newFleet(t, pinned(1))
	f.launchHook(hookTimeout)
	f.machines.SetUnready(1, true)
	agent := f.startAgent("RESYNC_INTERVAL=1s")
	f.pool(1, 1)
	id := f.waitPooled()
	node := cluster.NodeName(id)
	agent.waitLog("launch ended", "instance", id, "outcome", "pooled")
	f.assertUnmarked(node)

	f.scale(2)
	agent.waitLog("waiting for the node to become ready", "instance", id)
	f.assertOpen(id)
	f.must(f.cluster.MarkReady(f.ctx, node))
	f.waitCompleted(id)
	agent.waitLog("launch ended", "instance", id, "outcome", "ready")
	f.assertUnmarked(node)
}

// assertOpen expects that the last lifecycle action of the instance is not completed.
func (f *fleet) assertOpen(id string) {
	f.t.Helper()
	var last awsim.Action
	for _, a := range f.aws.Ledger() {
		if a.InstanceID == id {
			last = a
		}
	}
	if last.Origin != "WarmPool" || !last.ClosedAt.IsZero() {
		f.t.Errorf("the action is %+v", last)
	}
}
