//go:build e2e

package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/cluster"
)

// These tests hold what becomes of many messages. How long that takes they only log: other tests run beside them,
// and the agent has the race detector in it.

// TestVolume: a queue full of events of instances that are no nodes here is emptied, and no other API is asked.
func TestVolume(t *testing.T) {
	t.Parallel()
	const messages = 15_000 // as in Karpenter's benchmark of interruptions
	w := newWorld(t)
	for i := range messages {
		e, id := w.aws.Envelope(), cluster.NewInstanceID()
		e.Seed = uint64(i)
		var body string
		switch i % 5 {
		case 0:
			body = awsim.SpotInterruption(e, id, "eu-central-1a", "terminate")
		case 1:
			body = awsim.Rebalance(e, id, "eu-central-1a")
		case 2:
			body = awsim.StateChange(e, id, "running")
		case 3:
			body = awsim.InstanceEvent(e, awsim.TerminateSuccessful, "others", id, "eu-central-1a", "scaled in")
		default:
			body = awsim.SNSMessage(e, "arn:aws:sns:eu-central-1:123456789012:events", "", awsim.StateChange(e, id, "pending"))
		}
		w.aws.Send(w.queue, body)
	}
	agent := w.startAgent("LOG_LEVEL=info", "QUEUE_VISIBILITY_TIMEOUT=5m")
	began := time.Now()
	w.waitQueueEmpty()
	took := time.Since(began)
	t.Logf("%d messages in %v: %.0f a second", messages, took, messages/took.Seconds())
	if q := w.aws.Queue(w.queue); q.Deleted != messages || q.Received != messages {
		t.Errorf("the queue is %+v: want each message received once, and deleted", q)
	}
	// The agent hears of the last deletions a moment later.
	agent.waitMetric("node_drainer_messages_total", "deleted", messages)
	for call, n := range w.aws.Requests() {
		sweeps := strings.Contains(call, "DescribeAutoScalingGroups") && n <= 6 // three for each look
		if service := call[:3]; service != "sqs" && !sweeps {
			t.Errorf("%s was called %d times for instances that are no nodes here", call, n)
		}
	}
}

// waitMetric waits until a counter has the value.
func (p *process) waitMetric(name, label string, want float64) {
	p.t.Helper()
	eventually(p.t, patience, func() string {
		if got := p.metric(name, label); got != want {
			return fmt.Sprintf("%s %q is %v, want %v", name, label, got, want)
		}
		return ""
	})
}

// TestForeignMessagesDoNotStarveOurs: terminations of another cluster, which nobody takes out of the queue, come
// back again and again. One of ours is served nevertheless.
func TestForeignMessagesDoNotStarveOurs(t *testing.T) {
	t.Parallel()
	const foreign = 2_000
	w := hooked(t, time.Minute)
	w.must(w.aws.CreateGroup(awsim.Group{Name: "others", Tags: map[string]string{"kubernetes.io/cluster/other": "owned"}}))
	old, instance := w.node()
	w.node()
	agent := w.startAgent("LOG_LEVEL=info", "QUEUE_VISIBILITY_TIMEOUT=1m")
	w.waitQueueEmpty()
	before := w.aws.Queue(w.queue)
	for i := range foreign {
		e := w.aws.Envelope()
		e.Seed = uint64(i)
		w.aws.Send(w.queue, awsim.DirectMessage(e, awsim.Notification{
			Token: fmt.Sprintf("0f9e4a9e-4f3c-4c4c-8b0e-%012x", i), Group: "others", Hook: hook,
			InstanceID: cluster.NewInstanceID(), Transition: awsim.Terminating,
		}))
	}
	w.waitReceived(before.Received + 2*foreign) // each has come back once
	sent := time.Now()
	w.terminate(instance)
	w.waitNode(old, isMarked)
	q := w.aws.Queue(w.queue)
	t.Logf("with %d messages of others (received %d times by now) the node was marked after %v",
		foreign, q.Received-before.Received, time.Since(sent))
	w.waitCompleted(instance)
	agent.waitMetric("node_drainer_messages_total", "deleted", float64(before.Deleted+1))
	if q := w.aws.Queue(w.queue); q.Visible+q.InFlight != foreign || q.Deleted != before.Deleted+1 {
		t.Errorf("the queue is %+v: want all messages of others left in it, and ours deleted", q)
	}
	// The tags of a group are asked for once, and nothing is done to its instances.
	if n := len(w.calls("autoscaling", "DescribeTags")); n > 3 {
		t.Errorf("the tags were asked for %d times", n)
	}
	for _, call := range w.aws.Calls("autoscaling", "RecordLifecycleActionHeartbeat") {
		if call.Values.Get("AutoScalingGroupName") == "others" {
			t.Error("an action of another cluster was prolonged")
		}
	}
}

// TestHundredNodes: a hundred nodes go at once, and five messages of three kinds tell of each.
func TestHundredNodes(t *testing.T) {
	t.Parallel()
	const nodes = 100
	w := newWorld(t)
	names, instances := make([]string, nodes), make([]string, nodes)
	w.hook(time.Minute)
	for i := range nodes {
		names[i], instances[i] = w.node()
		w.must(w.aws.SetMarket(instances[i], awsim.Spot, ""))
	}
	agent := w.startAgent("LOG_LEVEL=info", "QUEUE_VISIBILITY_TIMEOUT=1m", "EVENT_REBALANCE_RECOMMENDATION=drain")
	w.waitQueueEmpty()
	began := time.Now()
	for _, instance := range instances {
		w.terminate(instance) // the first message: the hook's own
	}
	const topic = "arn:aws:sns:eu-central-1:123456789012:events"
	for i, a := range w.aws.Ledger() {
		n := awsim.Notification{
			Token: a.Token, Group: a.Group, Hook: a.Hook, InstanceID: a.InstanceID, Transition: awsim.Terminating,
		}
		e := w.aws.Envelope()
		e.Seed = uint64(i)
		warning := awsim.SpotInterruption(e, a.InstanceID, "eu-central-1a", "terminate")
		w.aws.Send(w.queue, awsim.EventBridgeMessage(e, n))
		w.aws.Send(w.queue, warning)
		w.aws.Send(w.queue, awsim.SNSMessage(e, topic, "", warning))
		w.aws.Send(w.queue, awsim.Rebalance(e, a.InstanceID, "eu-central-1a"))
	}
	sent := time.Since(began)
	var last time.Time
	for _, instance := range instances {
		if at := agent.waitLog("node cordoned", "instance", instance).at(t); at.After(last) {
			last = at
		}
	}
	t.Logf("%d messages were sent in %v, and the last node was marked %v after the first message", 5*nodes, sent, last.Sub(began))
	for _, instance := range instances {
		a := w.waitCompleted(instance)
		if n := completions(a); n != 1 {
			t.Errorf("the action of %s was completed %d times", instance, n)
		}
	}
	w.waitQueueEmpty()
	agent.waitCount(nodes, "node drained")
	for i, name := range names {
		if n := agent.count("node drained", "instance", instances[i]); n != 1 {
			t.Errorf("node %s was drained %d times", name, n)
		}
	}
	if code, _ := agent.get("/healthz"); code != http.StatusOK {
		t.Errorf("/healthz is %d", code)
	}
}
