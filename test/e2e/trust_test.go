//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/cluster"
)

// direct returns a message that says that the instance of the group is terminating.
func (w *world) direct(instanceID string) string {
	return awsim.DirectMessage(w.aws.Envelope(), awsim.Notification{
		Token: "0f9e4a9e-4f3c-4c4c-8b0e-1a2b3c4d5e6f", Group: group, Hook: hook, InstanceID: instanceID,
		Transition: awsim.Terminating,
	})
}

func TestForgedMessage(t *testing.T) {
	tests := map[string]struct {
		member bool // the instance is in the group, and healthy
		silent bool // Auto Scaling does not answer at first, so that the node is marked
	}{
		"for a healthy instance":                       {member: true},
		"for an instance of no group":                  {},
		"while Auto Scaling does not answer at first":  {member: true, silent: true},
		"of no group, while Auto Scaling is not there": {silent: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := hooked(t, time.Minute)
			var node, instance string
			if tt.member {
				node, instance = w.node()
			} else {
				instance = cluster.NewInstanceID()
				node = w.cluster.Node(t, cluster.Node{InstanceID: instance, Pool: w.namespace})
			}
			w.deploy("api", node, 2, cluster.Pods{})
			answer := func() {}
			if tt.silent {
				answer = w.aws.Inject(awsim.Fault{Action: "DescribeAutoScalingInstances", Code: "ServiceUnavailable", Status: 503})
			}
			agent := w.startAgent()
			w.aws.Send(w.queue, w.direct(instance))
			if tt.silent {
				w.waitNode(node, isMarked)
			}
			answer()
			agent.waitLog("termination ended", "outcome", "unconfirmed", "instance", instance)
			w.waitQueueEmpty()
			w.assertUnmarked(node)
			if n := len(w.evicted()); n > 0 {
				t.Errorf("%d pods were evicted", n)
			}
			if n := agent.metric("node_drainer_terminations_total", "unconfirmed"); n != 1 {
				t.Errorf("%v terminations were counted as forged, want 1", n)
			}
		})
	}
}

// TestBadMessages sends what no agent should act upon. Each is counted by its reason, named by its message id, and
// gone after its fifth delivery, or with the queue's redrive policy.
func TestBadMessages(t *testing.T) {
	const instance = "i-0123456789abcdef0"
	envelope := awsim.Envelope{Account: "123456789012", Region: "eu-central-1", At: time.Now()}
	stranger := strings.Replace(awsim.StateChange(envelope, instance, "stopped"), "aws.ec2", "aws.s3", 1)
	bad := map[string]struct{ body, reason string }{
		"no JSON":        {`{"Service":`, "malformed"},
		"empty object":   {`{}`, "unknown-source"},
		"unknown source": {stranger, "unknown-source"},
		"huge":           {`{"Service":"AWS Auto Scaling","Time":"` + strings.Repeat("x", 900<<10) + `"}`, "malformed"},
		"deeply nested":  {strings.Repeat("[", 100_000), "malformed"},
		"no instance": {
			strings.Replace(lifecycleMessage(instance, awsim.Terminating), instance, "", 1), "malformed",
		},
		"unknown transition": {
			lifecycleMessage(instance, "autoscaling:EC2_INSTANCE_REPLACING_ROOT"), "unknown-transition",
		},
	}
	t.Run("without a redrive policy", func(t *testing.T) {
		t.Parallel()
		w := hooked(t, time.Minute)
		agent := w.startAgent()
		ids := map[string]string{}
		for name, b := range bad {
			ids[name] = w.aws.Send(w.queue, b.body)
		}
		w.waitQueueEmpty()
		counted := map[string]int{}
		agent.waitCount(5*len(bad), "message refused")
		for name, b := range bad {
			if n := agent.count("message refused", "message_id", ids[name], "reason", b.reason); n != 5 {
				t.Errorf("%s: refused %d times as %s, want 5", name, n, b.reason)
			}
			counted[b.reason] += 5
		}
		for reason, want := range counted {
			if n := agent.metric("node_drainer_messages_refused_total", reason); n != float64(want) {
				t.Errorf("%v messages were counted as %s, want %d", n, reason, want)
			}
		}
	})
	t.Run("with a redrive policy", func(t *testing.T) {
		t.Parallel()
		w := hooked(t, time.Minute)
		dead := w.aws.CreateQueue("dead", nil)
		w.queue = w.aws.CreateQueue("live", map[string]string{
			"RedrivePolicy": fmt.Sprintf(`{"deadLetterTargetArn":%q,"maxReceiveCount":"2"}`, w.aws.QueueARN(dead)),
		})
		agent := w.startAgent()
		for _, b := range bad {
			w.aws.Send(w.queue, b.body)
		}
		w.waitQueueEmpty()
		if q := w.aws.Queue(dead); q.Visible != len(bad) {
			t.Errorf("%d messages are in the dead-letter queue, want %d", q.Visible, len(bad))
		}
		if n := agent.metric("node_drainer_messages_total", "dropped"); n != 0 {
			t.Errorf("%v messages were dropped", n)
		}
	})
}

func lifecycleMessage(instanceID, transition string) string {
	return awsim.DirectMessage(awsim.Envelope{Account: "123456789012", At: time.Now()}, awsim.Notification{
		Token: "0f9e4a9e-4f3c-4c4c-8b0e-1a2b3c4d5e6f", Group: group, Hook: hook, InstanceID: instanceID,
		Transition: transition,
	})
}

// TestForeignInstance: a message for another cluster is left for its owner, and costs its hook nothing.
func TestForeignInstance(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(w.aws.CreateGroup(awsim.Group{
		Name: "others", Max: 10, Tags: map[string]string{"kubernetes.io/cluster/other": "owned"},
	}))
	w.must(w.aws.PutHook("others", awsim.Hook{
		Name: hook, HeartbeatTimeout: time.Minute, NotificationTargetARN: w.aws.QueueARN(w.queue),
	}))
	instance := cluster.NewInstanceID()
	w.must(w.aws.AddInstance("others", instance, "eu-central-1a"))
	agent := w.startAgent()
	w.terminate(instance)
	agent.waitLog("termination ended", "outcome", "other-cluster")
	agent.waitLog("message handled", "outcome", "released")
	if n := len(w.calls("autoscaling", "RecordLifecycleActionHeartbeat")); n > 0 {
		t.Errorf("%d heartbeats were sent for another cluster's hook", n)
	}
	owner := w.startAgent("AWS_ACCESS_KEY_ID=owner", "CLUSTER_NAME=other", "NODE_REGISTRATION_TIMEOUT=0s")
	owner.waitLog("termination ended", "outcome", "unregistered")
	w.waitCompleted(instance)
	w.waitQueueEmpty()
}

// TestNodeThatRegistersLate: an instance of ours that is no Node is held, for it may become one and take pods.
func TestNodeThatRegistersLate(t *testing.T) {
	t.Parallel()
	w := hooked(t, time.Minute)
	instance := cluster.NewInstanceID()
	w.must(w.aws.AddInstance(group, instance, "eu-central-1a"))
	agent := w.startAgent("DRAIN_SETTLE=20s") // the node is to be seen Ready before it goes
	w.terminate(instance)
	agent.waitLog("waiting for the instance to register as a node")
	if a := w.aws.Ledger()[0]; !a.ClosedAt.IsZero() {
		t.Fatalf("the action was closed by %q before its node could register", a.ClosedBy)
	}
	node := w.cluster.Node(t, cluster.Node{InstanceID: instance, Pool: w.namespace})
	agent.waitLog("node cordoned", "node", node)
	agent.waitLog("termination ended", "outcome", "drained")
	w.waitCompleted(instance)
}

func TestInstanceThatNeverRegisters(t *testing.T) {
	t.Parallel()
	w := hooked(t, time.Minute)
	instance := cluster.NewInstanceID()
	w.must(w.aws.AddInstance(group, instance, "eu-central-1a"))
	agent := w.startAgent("NODE_REGISTRATION_TIMEOUT=2s")
	w.terminate(instance)
	agent.waitLog("termination ended", "outcome", "unregistered")
	w.waitCompleted(instance)
	w.waitQueueEmpty()
}

// TestBurst: many terminations at once are confirmed with few calls, and every node is marked.
func TestBurst(t *testing.T) {
	t.Parallel()
	w := hooked(t, time.Minute)
	const nodes = 10
	var instances []string
	for range nodes {
		_, instance := w.node()
		instances = append(instances, instance)
	}
	for _, instance := range instances {
		w.terminate(instance)
	}
	agent := w.startAgent()
	for _, instance := range instances {
		w.waitCompleted(instance)
	}
	w.waitQueueEmpty()
	agent.logs(nodes, "node drained")
	if n := len(w.calls("autoscaling", "DescribeAutoScalingInstances")); n > nodes/2 {
		t.Errorf("%d calls confirmed %d terminations, want one or few", n, nodes)
	}
}
