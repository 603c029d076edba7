//go:build e2e

package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/node-drainer/node-drainer/internal/cloud"
	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/cluster"
)

const reservation = "cr-0a1b2c3d4e5f60718"

// listening is newWorld whose event bus sends everything to the queue.
func listening(t testing.TB) *world {
	t.Helper()
	w := newWorld(t)
	w.aws.AddRule(w.aws.QueueARN(w.queue))
	return w
}

// ec2 is a client of the simulated EC2, for what people do at its console.
func (w *world) ec2() *ec2.Client {
	return ec2.New(ec2.Options{
		HTTPClient: cloud.InMemory(http.DefaultClient),
		Region:     "eu-central-1", BaseEndpoint: aws.String(w.aws.URL()),
		Credentials: credentials.NewStaticCredentialsProvider("console", "test", ""),
	})
}

// interrupted waits until the machine has been taken back, and holds that no pod was left on it.
func (w *world) interrupted(instanceID string) {
	w.t.Helper()
	i, err := w.aws.WaitInterrupted(patient(w.t), instanceID)
	w.must(err)
	if i.PodsError != "" || len(i.PodsAtEnd)+len(i.Killed) > 0 {
		w.t.Errorf("the instance was taken at %v with pods on it: %q, killed: %q %s", i.TakenAt, i.PodsAtEnd, i.Killed, i.PodsError)
	}
}

// TestNotices: each kind of event that no hook waits for has the node marked and drained in time, and its message
// deleted.
func TestNotices(t *testing.T) {
	for _, tt := range []struct {
		name, kind string
		env        []string
		happens    func(w *world, instance string)
		ends       func(w *world, instance string)
	}{
		{
			name: "a Spot interruption", kind: "spot-interruption",
			happens: func(w *world, id string) {
				w.must(w.aws.SetMarket(id, awsim.Spot, ""))
				w.must(w.aws.Interrupt(id, 40*time.Second))
			},
			ends: (*world).interrupted,
		},
		{
			name: "an instance of an interruptible Capacity Reservation", kind: "capacity-reservation-interruption",
			happens: func(w *world, id string) {
				w.must(w.aws.SetMarket(id, awsim.Interruptible, reservation))
				w.must(w.aws.ReclaimReservation(id, 40*time.Second))
			},
			ends: (*world).interrupted,
		},
		{
			name: "the end of a Capacity Block", kind: "capacity-block-expiration",
			happens: func(w *world, id string) {
				w.must(w.aws.SetMarket(id, awsim.CapacityBlock, reservation))
				w.must(w.aws.ExpireBlock(reservation, 40*time.Second))
			},
			ends: (*world).interrupted,
		},
		{
			name: "scheduled maintenance", kind: "scheduled-change",
			happens: func(w *world, id string) {
				_, err := w.aws.ScheduleChange("instance-retirement", time.Now().Add(48*time.Hour), id)
				w.must(err)
			},
		},
		{
			name: "a rebalance recommendation, where that is asked for", kind: "rebalance-recommendation",
			env: []string{"EVENT_REBALANCE_RECOMMENDATION=drain"},
			happens: func(w *world, id string) {
				w.must(w.aws.SetMarket(id, awsim.Spot, ""))
				w.must(w.aws.Recommend(id))
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := listening(t)
			old, instance := w.node()
			other, _ := w.node()
			w.deploy("api", old, 3, cluster.Pods{Stop: time.Second})
			w.must(w.cluster.MinAvailable(w.ctx, w.namespace, "api", "2"))
			before, lowest := w.podsOf("api"), w.watchReady("api")
			agent := w.startAgent(tt.env...)
			w.waitQueueEmpty() // the instances have begun to run
			tt.happens(w, instance)
			agent.waitLog("node drained", "node", old, "event", tt.kind)
			agent.waitLog("termination ended", "outcome", "drained", "event", tt.kind)
			if tt.ends != nil {
				tt.ends(w, instance)
			} else if n := w.getNode(old); !isMarked(n) {
				t.Error("a node that is drained has no mark")
			}
			w.waitQueueEmpty()
			w.assertEvictedOnce(before)
			w.assertUnmarked(other)
			if n := lowest(); n < 2 {
				t.Errorf("only %d pods of api were ready at one time, its budget asks for 2", n)
			}
		})
	}
}

// TestTerminatedAtTheConsole: EC2 is told to terminate the instance, past its group. Its pods are moved while it
// shuts down, and the hook that comes afterwards, for a dead instance, is completed.
func TestTerminatedAtTheConsole(t *testing.T) {
	t.Parallel()
	w := listening(t)
	w.hook(time.Minute)
	w.mayKill = true // EC2 waits for nobody
	w.aws.SetDelays(awsim.Delays{Terminate: 15 * time.Second})
	old, instance := w.node()
	w.node()
	w.deploy("api", old, 3, cluster.Pods{Stop: time.Second})
	agent := w.startAgent()
	w.waitQueueEmpty()
	_, err := w.ec2().TerminateInstances(w.ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{instance}})
	w.must(err)
	agent.waitLog("node drained", "node", old, "event", "state-change")
	w.waitCompleted(instance)
	w.waitQueueEmpty()
	for _, a := range w.aws.Ledger() {
		if len(a.PodsAtClose)+len(a.Killed) > 0 {
			t.Errorf("pods were left: %q, killed: %q", a.PodsAtClose, a.Killed)
		}
	}
}

// TestSpotAmidASlowDrain: EC2 takes an instance back while its hook waits for pods that a budget holds. The drain
// is tightened, every pod is told to stop in time, and hook and messages are done with.
func TestSpotAmidASlowDrain(t *testing.T) {
	t.Parallel()
	w := listening(t)
	w.hook(time.Minute)
	old, instance := w.node()
	w.must(w.aws.SetMarket(instance, awsim.Spot, ""))
	w.node()
	w.deploy("db", old, 2, cluster.Pods{Stop: 2 * time.Second, GracePeriod: 2 * time.Minute})
	w.must(w.cluster.MinAvailable(w.ctx, w.namespace, "db", "2"))
	agent := w.startAgent("DRAIN_FORCE_SPACING=1s")
	w.terminate(instance)
	agent.waitLog("eviction blocked")
	w.must(w.aws.Interrupt(instance, 30*time.Second))
	w.waitCompleted(instance)
	w.interrupted(instance)
	w.waitQueueEmpty()
	agent.logs(1, "node drained")
	agent.waitLog("node cordoned", "event", "spot-interruption")
}

// TestManyInstancesOfOneChange: one event of AWS Health names several instances. All are drained before its message
// goes.
func TestManyInstancesOfOneChange(t *testing.T) {
	t.Parallel()
	w := listening(t)
	var names, ids []string
	for i := range 3 {
		name, id := w.node()
		names, ids = append(names, name), append(ids, id)
		w.deploy(fmt.Sprint("api-", i), name, 1, cluster.Pods{})
	}
	w.node()
	agent := w.startAgent()
	w.waitQueueEmpty()
	_, err := w.aws.ScheduleChange("system-reboot", time.Now().Add(time.Hour), ids...)
	w.must(err)
	w.waitQueueEmpty()
	agent.waitCount(len(names), "node drained")
	for _, name := range names {
		if agent.count("node drained", "node", name) != 1 {
			t.Errorf("node %s was not drained once when the message was deleted", name)
		}
	}
}

// TestCanceledChange: maintenance is called off, and the nodes go back into service, with a message or without.
func TestCanceledChange(t *testing.T) {
	for name, env := range map[string][]string{
		"a message tells":    {"RESYNC_INTERVAL=1h"},
		"no message tells":   {"RESYNC_INTERVAL=1s"},
		"it has taken place": {"RESYNC_INTERVAL=1h"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := listening(t)
			node, instance := w.node()
			w.node()
			w.deploy("api", node, 2, cluster.Pods{})
			agent := w.startAgent(env...)
			change, err := w.aws.ScheduleChange("instance-reboot", time.Now().Add(time.Hour), instance)
			w.must(err)
			agent.waitLog("termination ended", "outcome", "drained")
			switch name {
			case "no message tells":
				w.aws.Delay(w.queue, time.Hour)
				w.must(w.aws.CancelChange(change))
			case "it has taken place":
				w.must(w.aws.CompleteChange(change))
			default:
				w.must(w.aws.CancelChange(change))
			}
			w.waitNode(node, func(n *corev1.Node) bool { return !isMarked(n) && condition(n) == nil })
			agent.waitLog("node uncordoned", "node", node)
		})
	}
}

// TestActions: what is configured for a kind of event is done, and no more.
func TestActions(t *testing.T) {
	for _, tt := range []struct {
		action, outcome string
		marked          bool
	}{
		{"cordon", "cordoned", true},
		{"replace", "replaced", false},
		{"ignore", "", false},
	} {
		t.Run(tt.action, func(t *testing.T) {
			t.Parallel()
			w := listening(t)
			w.aws.SetDelays(awsim.Delays{Terminate: time.Hour})
			node, instance := w.node()
			w.node()
			w.deploy("api", node, 2, cluster.Pods{})
			agent := w.startAgent("EVENT_SCHEDULED_CHANGE="+tt.action, "EVENT_STATE_CHANGE=ignore")
			w.waitQueueEmpty()
			_, err := w.aws.ScheduleChange("system-maintenance", time.Now().Add(time.Hour), instance)
			w.must(err)
			if tt.outcome == "" {
				agent.waitLog("event ignored", "event", "scheduled-change", "instance", instance)
			} else {
				agent.waitLog("termination ended", "outcome", tt.outcome)
			}
			w.waitQueueEmpty()
			if isMarked(w.getNode(node)) != tt.marked {
				t.Errorf("marked: %v", !tt.marked)
			}
			unhealthy := len(w.calls("autoscaling", "SetInstanceHealth")) > 0
			if unhealthy != (tt.action == "replace") {
				t.Errorf("told to be unhealthy: %v", unhealthy)
			}
			if n := len(w.evicted()); n > 0 {
				t.Errorf("%d pods were evicted", n)
			}
		})
	}
}

// TestForgedNotice: EC2 knows nothing of what the message says, so nothing is done to the node.
func TestForgedNotice(t *testing.T) {
	t.Parallel()
	w := listening(t)
	node, instance := w.node()
	w.deploy("api", node, 2, cluster.Pods{})
	agent := w.startAgent()
	w.aws.Send(w.queue, awsim.SpotInterruption(w.aws.Envelope(), instance, "eu-central-1a", "terminate"))
	w.aws.Send(w.queue, awsim.StateChange(w.aws.Envelope(), instance, "stopping"))
	agent.waitLog("termination ended", "outcome", "unconfirmed", "event", "spot-interruption")
	agent.waitLog("termination ended", "outcome", "unconfirmed", "event", "state-change")
	w.waitQueueEmpty()
	w.assertUnmarked(node)
	if n := len(w.evicted()); n > 0 {
		t.Errorf("%d pods were evicted", n)
	}
}

// TestNoMessage: no message tells of a termination, and the node is drained and its hook completed all the same.
func TestNoMessage(t *testing.T) {
	for name, lose := range map[string]func(w *world){
		"the queue holds everything back": func(w *world) {
			w.hook(time.Minute)
			w.aws.Delay(w.queue, time.Hour)
		},
		"the hook speaks to EventBridge, which has no rule": func(w *world) {
			w.must(w.aws.PutHook(group, awsim.Hook{Name: hook, HeartbeatTimeout: time.Minute}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			lose(w)
			w.aws.SubscribeTopic(topic, w.aws.QueueARN(w.aws.CreateQueue("theirs", nil)), false)
			w.must(w.aws.PutHook(group, awsim.Hook{ // somebody else's
				Name: "theirs", HeartbeatTimeout: 10 * time.Second, NotificationTargetARN: topic, DefaultResult: "CONTINUE",
			}))
			old, instance := w.node()
			w.node()
			w.deploy("api", old, 2, cluster.Pods{Stop: time.Second})
			before := w.podsOf("api")
			agent := w.startAgent("RESYNC_INTERVAL=1s")
			w.terminate(instance)
			agent.waitLog("termination ended", "outcome", "drained")
			w.waitClosed(instance)
			w.assertEvictedOnce(before)
			for _, a := range w.aws.Ledger() {
				switch {
				case a.Hook == hook && (a.ClosedBy != awsim.ByCompletion || a.Result != "CONTINUE"):
					t.Errorf("our hook was closed by %q with %q", a.ClosedBy, a.Result)
				case a.Hook != hook && (len(a.Heartbeats)+len(a.Completions) > 0):
					t.Errorf("somebody else's hook had %d heartbeats and %d completions of ours", len(a.Heartbeats), len(a.Completions))
				}
			}
			agent.waitMetric("node_drainer_messages_lost_total", "", 1) // a look later
		})
	}
}

// TestMarkOnALivingNode: a mark that was left on a node whose instance is in service is taken off, and nothing else.
func TestMarkOnALivingNode(t *testing.T) {
	t.Parallel()
	w := hooked(t, time.Minute)
	node, instance := w.node()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}},"spec":{"unschedulable":true,"taints":[`+
		`{"key":%q,"value":"lifecycle-terminating","effect":"NoSchedule"},{"key":"theirs","effect":"NoSchedule"}]}}`, mark,
		fmt.Sprintf(`{"instance":%q,"reason":"lifecycle-terminating","since":"2026-01-02T03:04:05Z","added":["taint"]}`, instance), taint)
	_, err := w.cluster.Client().CoreV1().Nodes().Patch(w.ctx, node, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	w.must(err)
	w.startAgent("RESYNC_INTERVAL=1s").waitLog("node uncordoned", "node", node)
	n := w.getNode(node)
	if !n.Spec.Unschedulable || len(n.Spec.Taints) == 0 || n.Spec.Taints[0].Key != "theirs" {
		t.Errorf("what was not ours is gone: unschedulable %v, taints %v", n.Spec.Unschedulable, n.Spec.Taints)
	}
	if slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == taint }) {
		t.Errorf("the taint is left: %v", n.Spec.Taints)
	}
}

// TestResumedNotice: an agent that is killed amid the drain of a Spot interruption leaves it to the next one, which
// has no message of it yet. The deadline stays the first one's.
func TestResumedNotice(t *testing.T) {
	t.Parallel()
	w := listening(t)
	old, instance := w.node()
	w.must(w.aws.SetMarket(instance, awsim.Spot, ""))
	w.node()
	w.deploy("db", old, 1, cluster.Pods{Stop: time.Second})
	w.must(w.cluster.MinAvailable(w.ctx, w.namespace, "db", "1"))
	first := w.startAgent("QUEUE_VISIBILITY_TIMEOUT=10m")
	w.waitQueueEmpty()
	w.must(w.aws.Interrupt(instance, 75*time.Second))
	first.waitLog("eviction blocked")
	deadline := first.waitLog("node cordoned").text("deadline")
	first.kill()
	second := w.startAgent("QUEUE_VISIBILITY_TIMEOUT=10m")
	second.waitLog("node drained", "node", old)
	w.interrupted(instance)
	if again := second.count("node cordoned"); again != 0 {
		t.Errorf("the second agent gave the node another deadline than %s", deadline)
	}
}

// TestDryRun: everything is read and told, and nothing is changed.
func TestDryRun(t *testing.T) {
	t.Parallel()
	w := listening(t)
	w.hook(time.Minute)
	old, instance := w.node()
	spot, second := w.node()
	w.must(w.aws.SetMarket(second, awsim.Spot, ""))
	w.deploy("api", old, 3, cluster.Pods{})
	w.install(renderLooking)
	w.kubeconfig, w.user = w.token(lookingAccount), cluster.UserName(w.namespace, lookingAccount)
	agent := w.startAgent("DRY_RUN=true")
	w.terminate(instance)
	w.aws.Send(w.queue, awsim.SpotInterruption(w.aws.Envelope(), second, "eu-central-1a", "terminate"))
	agent.waitLog("node drained", "node", old, "dry_run", "true", "pods", "3")
	agent.waitLog("node drained", "node", spot, "dry_run", "true")
	sent := w.aws.Queue(w.queue)
	agent.stop()
	for _, name := range []string{old, spot} {
		w.assertUnmarked(name)
		if condition(w.getNode(name)) != nil {
			t.Errorf("node %s shows a condition", name)
		}
	}
	for _, verb := range []string{"create", "patch", "delete", "update"} {
		for _, resource := range []string{"pods/eviction", "pods", "nodes", "nodes/status", "events"} {
			if n := len(w.requests(verb, resource)); n > 0 {
				t.Errorf("the dry run sent %d requests to %s %s", n, verb, resource)
			}
		}
	}
	for _, action := range []string{"CompleteLifecycleAction", "RecordLifecycleActionHeartbeat", "SetInstanceHealth"} {
		if n := len(w.calls("autoscaling", action)); n > 0 {
			t.Errorf("the dry run called %s %d times", action, n)
		}
	}
	if n := len(w.calls("sqs", "DeleteMessageBatch")); n > 0 {
		t.Errorf("the dry run deleted messages: %+v", sent)
	}
	for _, a := range w.aws.Ledger() {
		if !a.ClosedAt.IsZero() {
			t.Errorf("hook %s was closed by %q", a.Hook, a.ClosedBy)
		}
	}
}
