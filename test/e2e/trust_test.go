//go:build e2e

package e2e

import (
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/cluster"
)

// direct returns a message that says that the instance of the group is terminating.
func (f *fixture) direct(instanceID string) string {
	return awsim.DirectMessage(f.aws.Envelope(), awsim.Notification{
		Token: "0f9e4a9e-4f3c-4c4c-8b0e-1a2b3c4d5e6f", Group: group, Hook: hook, InstanceID: instanceID,
		Transition: awsim.Terminating,
	})
}

// TestForgedMessage: a message about a healthy instance does nothing, even while Auto Scaling does not answer at first: a
// node that was cordoned meanwhile is uncordoned.
func TestForgedMessage(t *testing.T) {
	t.Parallel()
	for name, silent := range map[string]bool{
		"Auto Scaling answers": false, "Auto Scaling does not answer at first": true,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixtureWithHook(t)
			node, instance := f.node()
			f.deploy("api", node, 2, cluster.Pods{})
			answer := func() {}
			if silent {
				answer = f.aws.Inject(awsim.Fault{Action: "DescribeAutoScalingInstances", Code: "ServiceUnavailable", Status: 503})
			}
			agent := f.startAgent()
			f.aws.Send(f.queue, f.direct(instance))
			if silent {
				f.waitNode(node, isMarked)
			}
			answer()
			agent.waitLog("termination ended", "outcome", "unconfirmed", "instance", instance)
			f.waitQueueEmpty()
			f.assertUnmarked(node)
			if n := len(f.evicted()); n > 0 {
				t.Errorf("%d pods were evicted", n)
			}
			if n := agent.metric("node_drainer_terminations_total", "unconfirmed"); n != 1 {
				t.Errorf("%v terminations were counted as unconfirmed, want 1", n)
			}
		})
	}
}

// TestForgedSpotInterruption: a Spot warning for an instance that EC2 does not interrupt bypasses no budget, and the node is
// uncordoned. A genuine one does, in time for the end.
func TestForgedSpotInterruption(t *testing.T) {
	t.Parallel()
	f := newFixtureWithHook(t)
	node, instance := f.node()
	f.must(f.aws.SetMarket(instance, awsim.Spot, ""))
	f.deploy("api", node, 2, cluster.Pods{GracePeriod: 2 * time.Minute})
	f.must(f.cluster.MinAvailable(f.ctx, f.namespace, "api", "2"))
	agent := f.startAgent()
	f.aws.Send(f.queue, awsim.SpotInterruption(f.aws.Envelope(), instance, "eu-central-1a", "terminate"))
	f.waitNode(node, isMarked)
	agent.waitLog("termination ended", "outcome", "unconfirmed", "instance", instance)
	f.waitQueueEmpty()
	f.assertUnmarked(node)
	if n := len(f.evicted()) + agent.Count("pod deleted at the deadline"); n > 0 {
		t.Errorf("%d pods were evicted or deleted", n)
	}
	if n := agent.metric("node_drainer_spot_statuses_total", awsim.SpotFulfilled); n != 1 {
		t.Errorf("%v statuses were counted as fulfilled, want 1", n)
	}
}

// TestForeignInstance: a message for another cluster is left for its owner, and costs its hook nothing.
func TestForeignInstance(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.must(f.aws.CreateGroup(awsim.Group{
		Name: "others", Max: 10, Tags: map[string]string{"kubernetes.io/cluster/other": "owned"},
	}))
	f.must(f.aws.PutHook("others", awsim.Hook{
		Name: hook, HeartbeatTimeout: time.Minute, NotificationTargetARN: f.aws.QueueARN(f.queue),
	}))
	instance := cluster.NewInstanceID()
	f.must(f.aws.AddInstance("others", instance, "eu-central-1a"))
	agent := f.startAgent()
	f.terminate(instance)
	agent.waitLog("termination ended", "outcome", "other-cluster")
	agent.waitLog("message handled", "outcome", "released")
	if n := len(f.calls("autoscaling", "RecordLifecycleActionHeartbeat")); n > 0 {
		t.Errorf("%d heartbeats were sent for another cluster's hook", n)
	}
	owner := f.startAgent("AWS_ACCESS_KEY_ID=owner", "CLUSTER_NAME=other", "NODE_REGISTRATION_TIMEOUT=0s")
	owner.waitLog("termination ended", "outcome", "unregistered")
	f.waitHandled(instance)
}

// TestForeignMessagesDoNotStarveOurs: terminations of another cluster, which no agent deletes, are
// received again and again. A termination of this cluster is handled nevertheless.
func TestForeignMessagesDoNotStarveOurs(t *testing.T) {
	t.Parallel()
	const foreign = 1_000 // twice as many as are handled at the same time
	f := newFixtureWithHook(t)
	f.must(f.aws.CreateGroup(awsim.Group{
		Name: "others", Max: foreign, Tags: map[string]string{"kubernetes.io/cluster/other": "owned"},
	}))
	f.must(f.aws.PutHook("others", awsim.Hook{
		Name: hook, HeartbeatTimeout: time.Hour, NotificationTargetARN: f.aws.QueueARN(f.queue),
	}))
	old, instance := f.node()
	f.node()
	agent := f.startAgent("LOG_LEVEL=info", "QUEUE_VISIBILITY_TIMEOUT=1m", "QUEUE_MAX_IN_FLIGHT=500")
	f.waitQueueEmpty()
	before := f.aws.Queue(f.queue)
	for range foreign {
		id := cluster.NewInstanceID()
		f.must(f.aws.AddInstance("others", id, "eu-central-1a"))
		f.terminate(id)
	}
	f.waitReceived(before.Received + 2*foreign) // each has been received twice
	sent := time.Now()
	f.terminate(instance)
	f.waitNode(old, isMarked)
	q := f.aws.Queue(f.queue)
	t.Logf("with %d messages of others (received %d times by now) the node was marked after %v",
		foreign, q.Received-before.Received, time.Since(sent))
	f.waitCompleted(instance)
	agent.waitMetric("node_drainer_messages_total", "deleted", float64(before.Deleted+1))
	if q := f.aws.Queue(f.queue); q.Visible+q.InFlight != foreign || q.Deleted != before.Deleted+1 {
		t.Errorf("the queue is %+v: want all messages of others left in it, and ours deleted", q)
	}
	// The tags of a group are described once, and nothing is done to its instances.
	if n := len(f.calls("autoscaling", "DescribeTags")); n > 3 {
		t.Errorf("the tags were described %d times", n)
	}
	f.refused = "RecordLifecycleActionHeartbeat" // for those of others, which are judged here
	slow := unconfirmedFor(agent, 5*time.Second)
	for _, call := range f.aws.Calls("autoscaling", "RecordLifecycleActionHeartbeat") {
		if id := call.Values.Get("InstanceId"); call.Values.Get("AutoScalingGroupName") == "others" && !slow[id] {
			t.Errorf("the action of %s, of another cluster, was prolonged", id)
		}
	}
}

// unconfirmedFor returns the instances of whose actions it took so long at least to find out that they are another
// cluster's, on a busy machine. Meanwhile they are held.
func unconfirmedFor(agent *agentProcess, least time.Duration) map[string]bool {
	slow := map[string]bool{}
	for _, line := range agent.Lines() {
		took, _ := line["took"].(float64)
		if line.Matches("termination ended", "outcome", "other-cluster") && took >= float64(least.Milliseconds()) {
			slow[line.Text("instance")] = true
		}
	}
	return slow
}
