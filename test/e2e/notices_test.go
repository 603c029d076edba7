//go:build e2e

package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	corev1 "k8s.io/api/core/v1"

	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/cluster"
	"github.com/node-drainer/node-drainer/test/harness"
)

const reservation = "cr-0a1b2c3d4e5f60718"

// newFixtureWithRule is newFixture whose event bus sends everything to the queue.
func newFixtureWithRule(t testing.TB) *fixture {
	t.Helper()
	f := newFixture(t)
	f.aws.AddRule(f.aws.QueueARN(f.queue))
	return f
}

// ec2 is a client of the simulated EC2, for what people do at its console.
func (f *fixture) ec2() *ec2.Client {
	return ec2.NewFromConfig(harness.AWSConfig(f.aws.URL(), "console"))
}

// interrupted waits until EC2 has reclaimed the instance, and expects that no pod was left on it.
func (f *fixture) interrupted(instanceID string) {
	f.t.Helper()
	i, err := f.aws.WaitInterrupted(waits(f.t), instanceID)
	f.must(err)
	if i.PodsError != "" || len(i.PodsAtEnd)+len(i.Killed) > 0 {
		f.t.Errorf("the instance was taken at %v with pods on it: %q, killed: %q %s", i.TakenAt, i.PodsAtEnd, i.Killed, i.PodsError)
	}
}

// TestNotices: each kind of event that no hook waits for has the node marked and drained in time, and its message
// deleted.
func TestNotices(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, kind string
		env        []string
		happens    func(f *fixture, instance string)
		taken      bool // The test waits until EC2 takes the instance.
	}{
		{
			name: "a Spot interruption", kind: "spot-interruption", taken: true,
			happens: func(f *fixture, id string) {
				f.must(f.aws.SetMarket(id, awsim.Spot, ""))
				f.must(f.aws.Interrupt(id, 40*time.Second))
			},
		},
		{
			name: "an instance of an interruptible Capacity Reservation", kind: "capacity-reservation-interruption",
			happens: func(f *fixture, id string) {
				f.must(f.aws.SetMarket(id, awsim.Interruptible, reservation))
				f.must(f.aws.ReclaimReservation(id, 2*time.Minute))
			},
		},
		{
			name: "the end of a Capacity Block", kind: "capacity-block-expiration",
			happens: func(f *fixture, id string) {
				f.must(f.aws.SetMarket(id, awsim.CapacityBlock, reservation))
				f.must(f.aws.ExpireBlock(reservation, 2*time.Minute))
			},
		},
		{
			name: "scheduled maintenance", kind: "scheduled-change",
			env: []string{"EVENT_SCHEDULED_CHANGE_LEAD=72h"},
			happens: func(f *fixture, id string) {
				_, err := f.aws.ScheduleChange("instance-retirement", time.Now().Add(48*time.Hour), id)
				f.must(err)
			},
		},
		{
			name: "a rebalance recommendation, where it is enabled", kind: "rebalance-recommendation",
			env: []string{"EVENT_REBALANCE_RECOMMENDATION=drain"},
			happens: func(f *fixture, id string) {
				f.must(f.aws.SetMarket(id, awsim.Spot, ""))
				f.must(f.aws.Recommend(id))
			},
		},
		{
			name: "a CloudWatch alarm, where it is enabled", kind: "alarm", env: []string{"EVENT_ALARM=drain"},
			happens: func(f *fixture, id string) { f.aws.SetInstanceAlarm("node-drainer-disk", id, awsim.AlarmFires) },
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newFixtureWithRule(t)
			old, instance := f.node()
			other, _ := f.node()
			f.deploy("api", old, 3, cluster.Pods{Stop: time.Second})
			f.must(f.cluster.MinAvailable(f.ctx, f.namespace, "api", "2"))
			before, lowest := f.podsOf("api"), f.watchReady("api")
			agent := f.startAgent(tt.env...)
			f.waitQueueEmpty() // the instances have begun to run
			tt.happens(f, instance)
			agent.waitLog("node drained", "node", old, "event", tt.kind)
			agent.waitLog("termination ended", "outcome", "drained", "event", tt.kind)
			if tt.taken {
				f.interrupted(instance)
			} else if n := f.getNode(old); !isMarked(n) {
				t.Error("a node that is drained has no mark")
			}
			f.waitQueueEmpty()
			f.assertEvictedOnce(before)
			f.assertUnmarked(other)
			if n := lowest(); n < 2 {
				t.Errorf("only %d pods of api were ready at one time, its budget requires 2", n)
			}
		})
	}
}

// TestTerminatedAtTheConsole: a user terminates the instance with EC2, bypassing its Auto Scaling group. Its pods are
// evicted while it shuts down, and the hook that starts afterwards is completed.
func TestTerminatedAtTheConsole(t *testing.T) {
	t.Parallel()
	f := newFixtureWithRule(t)
	f.addHook(hookTimeout)
	f.mayKill = true // EC2 waits for nobody
	f.aws.SetDelays(awsim.Delays{Terminate: 15 * time.Second})
	old, instance := f.node()
	f.node()
	f.deploy("api", old, 3, cluster.Pods{Stop: time.Second})
	agent := f.startAgent()
	f.waitQueueEmpty()
	_, err := f.ec2().TerminateInstances(f.ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{instance}})
	f.must(err)
	agent.waitLog("node drained", "node", old, "event", "state-change")
	f.waitHandled(instance)
	for _, a := range f.aws.Ledger() {
		if len(a.PodsAtClose)+len(a.Killed) > 0 {
			t.Errorf("pods were left: %q, killed: %q", a.PodsAtClose, a.Killed)
		}
	}
}

// TestSpotInterruptionDuringADrain: EC2 takes an instance back while its hook waits for pods that a budget holds. The drain
// gets the earlier deadline, every pod is deleted in time, the hook is completed and the messages are deleted.
func TestSpotInterruptionDuringADrain(t *testing.T) {
	t.Parallel()
	f := newFixtureWithRule(t)
	f.addHook(hookTimeout)
	old, instance := f.node()
	f.must(f.aws.SetMarket(instance, awsim.Spot, ""))
	f.node()
	f.deploy("db", old, 2, cluster.Pods{Stop: 2 * time.Second, GracePeriod: 2 * time.Minute})
	f.must(f.cluster.MinAvailable(f.ctx, f.namespace, "db", "2"))
	agent := f.startAgent("DRAIN_FORCE_SPACING=1s")
	f.terminate(instance)
	agent.waitLog("eviction blocked")
	f.must(f.aws.Interrupt(instance, 30*time.Second))
	f.waitCompleted(instance)
	f.interrupted(instance)
	f.waitQueueEmpty()
	agent.logs(1, "node drained")
	agent.waitLog("node cordoned", "event", "spot-interruption")
}

// TestCanceledChange: maintenance is called off, and the nodes go back into service, with a message or without.
func TestCanceledChange(t *testing.T) {
	t.Parallel()
	for name, env := range map[string][]string{
		"with a message":     {"RESYNC_INTERVAL=1h"},
		"without a message":  {"RESYNC_INTERVAL=1s"},
		"it has taken place": {"RESYNC_INTERVAL=1h"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixtureWithRule(t)
			node, instance := f.node()
			f.node()
			f.deploy("api", node, 2, cluster.Pods{})
			agent := f.startAgent(env...)
			change, err := f.aws.ScheduleChange("instance-reboot", time.Now().Add(time.Hour), instance)
			f.must(err)
			agent.waitLog("termination ended", "outcome", "drained")
			switch name {
			case "without a message":
				f.aws.Delay(f.queue, time.Hour)
				f.must(f.aws.CancelChange(change))
			case "it has taken place":
				f.must(f.aws.CompleteChange(change))
			default:
				f.must(f.aws.CancelChange(change))
			}
			f.waitNode(node, func(n *corev1.Node) bool { return !isMarked(n) && condition(n) == nil })
			agent.waitLog("node uncordoned", "node", node)
		})
	}
}

// TestMaintenanceThatTheGroupReplaces: the group replaces an instance itself when its maintenance begins, while the agent
// drains the node for that. The hook joins the drain, or finds the node empty; no pod is left on it.
func TestMaintenanceThatTheGroupReplaces(t *testing.T) {
	t.Parallel()
	for name, lead := range map[string]time.Duration{
		"after the drain": 20 * time.Second, "during the drain": 5 * time.Second,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixtureWithRule(t)
			f.addHook(hookTimeout)
			old, instance := f.node()
			f.node()
			f.deploy("api", old, 3, cluster.Pods{Stop: time.Second})
			f.must(f.cluster.MinAvailable(f.ctx, f.namespace, "api", "2"))
			agent := f.startAgent("EVENT_MARGIN=0s")
			f.waitQueueEmpty()
			_, err := f.aws.ScheduleChange("instance-retirement", time.Now().Add(lead), instance)
			f.must(err)
			if a := f.waitCompleted(instance); len(a.PodsAtClose) > 0 {
				t.Errorf("pods were left: %q", a.PodsAtClose)
			}
			f.waitQueueEmpty()
			agent.waitLog("termination ended", "event", "lifecycle-terminating", "outcome", "drained")
		})
	}
}

// TestNoMessage: the resync finds a termination whose message was lost, and the hook is completed.
func TestNoMessage(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(f *fixture){
		"the queue holds everything back": func(f *fixture) {
			f.addHook(hookTimeout)
			f.aws.Delay(f.queue, time.Hour)
		},
		"the hook speaks to EventBridge, which has no rule": func(f *fixture) {
			f.must(f.aws.PutHook(group, awsim.Hook{Name: hook, HeartbeatTimeout: time.Minute}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			lose(f)
			f.aws.SubscribeTopic(topic, f.aws.QueueARN(f.aws.CreateQueue("theirs", nil)), false)
			f.must(f.aws.PutHook(group, awsim.Hook{ // of another program
				Name: "theirs", HeartbeatTimeout: 10 * time.Second, NotificationTargetARN: topic, DefaultResult: "CONTINUE",
			}))
			old, instance := f.node()
			f.node()
			f.deploy("api", old, 2, cluster.Pods{Stop: time.Second})
			before := f.podsOf("api")
			agent := f.startAgent("RESYNC_INTERVAL=1s", "HOOK_NAMES="+hook)
			f.terminate(instance)
			agent.waitLog("termination ended", "outcome", "drained")
			f.waitClosed(instance)
			f.assertEvictedOnce(before)
			for _, a := range f.aws.Ledger() {
				switch {
				case a.Hook == hook && (a.ClosedBy != awsim.ByCompletion || a.Result != "CONTINUE"):
					t.Errorf("our hook was closed by %q with %q", a.ClosedBy, a.Result)
				case a.Hook != hook && (len(a.Heartbeats)+len(a.Completions) > 0):
					t.Errorf("the hook of another program had %d heartbeats and %d completions of ours", len(a.Heartbeats), len(a.Completions))
				}
			}
			agent.waitMetric("node_drainer_messages_lost_total", "", 1) // a look later
		})
	}
}

// TestDryRun: the agent reads and logs everything, and changes nothing.
func TestDryRun(t *testing.T) {
	t.Parallel()
	f := newFixtureWithRule(t)
	f.addHook(hookTimeout)
	old, instance := f.node()
	spot, second := f.node()
	f.must(f.aws.SetMarket(second, awsim.Spot, ""))
	f.deploy("api", old, 3, cluster.Pods{})
	f.install(renderLooking)
	f.kubeconfig, f.user = f.token(lookingAccount), cluster.UserName(f.namespace, lookingAccount)
	agent := f.startAgent("DRY_RUN=true")
	f.terminate(instance)
	f.aws.Send(f.queue, awsim.SpotInterruption(f.aws.Envelope(), second, "eu-central-1a", "terminate"))
	agent.waitLog("node drained", "node", old, "dry_run", "true", "pods", "3")
	agent.waitLog("node drained", "node", spot, "dry_run", "true")
	sent := f.aws.Queue(f.queue)
	agent.stop()
	for _, name := range []string{old, spot} {
		f.assertUnmarked(name)
		if condition(f.getNode(name)) != nil {
			t.Errorf("node %s shows a condition", name)
		}
	}
	for _, verb := range []string{"create", "patch", "delete", "update"} {
		for _, resource := range []string{"pods/eviction", "pods", "nodes", "nodes/status", "events"} {
			if n := len(f.requests(verb, resource)); n > 0 {
				t.Errorf("the dry run sent %d requests to %s %s", n, verb, resource)
			}
		}
	}
	for _, action := range []string{"CompleteLifecycleAction", "RecordLifecycleActionHeartbeat", "SetInstanceHealth"} {
		if n := len(f.calls("autoscaling", action)); n > 0 {
			t.Errorf("the dry run called %s %d times", action, n)
		}
	}
	if n := len(f.calls("sqs", "DeleteMessageBatch")); n > 0 {
		t.Errorf("the dry run deleted messages: %+v", sent)
	}
	for _, a := range f.aws.Ledger() {
		if !a.ClosedAt.IsZero() {
			t.Errorf("hook %s was closed by %q", a.Hook, a.ClosedBy)
		}
	}
}

// TestMaintenanceOfManyInstances: one event of AWS Health names several instances. One node is drained at a time, within
// its budgets; the others keep their pods, and say what they wait for. No message is in flight, and a restart of the agent
// forgets nothing.
func TestMaintenanceOfManyInstances(t *testing.T) {
	t.Parallel()
	f := newFixtureWithRule(t)
	var names, ids []string
	for range 3 {
		name, id := f.node()
		names, ids = append(names, name), append(ids, id)
	}
	f.node()
	for i, name := range names {
		app := fmt.Sprint("api-", i)
		f.deploy(app, name, 2, cluster.Pods{})
		f.must(f.cluster.MinAvailable(f.ctx, f.namespace, app, "2"))
	}
	start := func() *agentProcess {
		return f.startAgent("DRAIN_TIMEOUT=1s", "DRAIN_SETTLE=0s", "DRAIN_BLOCKED_AFTER=0s", "DRAIN_MAX_CONCURRENT=1")
	}
	agent := start()
	f.waitQueueEmpty()
	_, err := f.aws.ScheduleChange("system-reboot", time.Now().Add(12*time.Hour), ids...)
	f.must(err)
	agent.waitLog("eviction blocked")
	agent.waitCount(2, "drain postponed", "busy", "true")
	agent.stop()
	agent = start()
	agent.waitCount(2, "drain postponed", "busy", "true")
	cordoned, waiting := 0, 0
	for _, name := range names {
		if n := f.getNode(name); isMarked(n) {
			cordoned++
		} else if c := condition(n); c != nil && c.Reason == "DrainPostponed" {
			waiting++
		}
	}
	if cordoned != 1 || waiting != 2 || agent.Count("pod deleted at the deadline") > 0 {
		t.Errorf("%d nodes are cordoned and %d say that they wait, want 1 and 2", cordoned, waiting)
	}
	_, err = f.cluster.Kubectl(f.ctx, "delete", "poddisruptionbudgets", "--all", "--namespace", f.namespace)
	f.must(err)
	agent.waitCount(len(names), "node drained")
	f.waitQueueEmpty()
}
