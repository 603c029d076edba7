//go:build e2e

package e2e

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/cluster"
)

// The faults that are tested here have been found in other drainers.

// TestKilledDuringManyDrains: the agent is killed while three nodes drain, and the next one continues.
// Every pod is evicted, no budget is broken, and nothing hangs.
func TestKilledDuringManyDrains(t *testing.T) {
	t.Parallel()
	f := newFixtureWithHook(t)
	var instances []string
	for range 3 {
		_, instance := f.node()
		instances = append(instances, instance)
	}
	var before []string
	lowest := map[string]func() int{}
	for name, replicas := range map[string]int{"api": 9, "db": 3} {
		f.must(f.cluster.Deploy(f.ctx, cluster.Deployment{
			Namespace: f.namespace, Name: name, Replicas: int32(replicas),
			Pods: cluster.Pods{Pool: f.namespace, Stop: 2 * time.Second},
		}))
		f.waitPodsReady(name, replicas)
		f.must(f.cluster.MaxUnavailable(f.ctx, f.namespace, name, "1"))
		before = append(before, f.podsOf(name)...)
		lowest[name] = f.watchReady(name)
	}
	f.node()
	first := f.startAgent()
	for _, instance := range instances {
		f.terminate(instance)
	}
	first.waitCount(4, "pod evicted")
	first.Kill()
	second := f.startAgent()
	for _, instance := range instances {
		f.waitCompleted(instance)
	}
	f.waitQueueEmpty()
	f.assertEvicted(before)
	for name, replicas := range map[string]int{"api": 9, "db": 3} {
		if n := lowest[name](); n < replicas-1 {
			t.Errorf("only %d pods of %s were ready at one time, its budget requires %d", n, name, replicas-1)
		}
	}
	if n := second.Count("pod deleted at the deadline"); n > 0 {
		t.Errorf("the second agent deleted %d pods past their budgets", n)
	}
}

// TestOneMessageAtATime: a message that is received when its node has been drained for another hook has its own hook
// completed.
func TestOneMessageAtATime(t *testing.T) {
	t.Parallel()
	f := newFixtureWithHook(t)
	f.must(f.aws.PutHook(group, awsim.Hook{
		Name: "second", HeartbeatTimeout: time.Minute, NotificationTargetARN: f.aws.QueueARN(f.queue),
	}))
	old, instance := f.node()
	f.node()
	f.deploy("api", old, 2, cluster.Pods{Stop: time.Second})
	before := f.podsOf("api")
	f.startAgent("QUEUE_MAX_IN_FLIGHT=1")
	f.terminate(instance)
	f.waitCompleted(instance)
	f.waitQueueEmpty()
	f.assertEvictedOnce(before)
	for _, a := range f.aws.Ledger() {
		if a.ClosedBy != awsim.ByCompletion {
			t.Errorf("hook %s was closed by %q", a.Hook, a.ClosedBy)
		}
	}
}

// TestOneEventID: two messages with the same id about two instances are both handled.
func TestOneEventID(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.must(f.aws.PutHook(group, awsim.Hook{Name: hook, HeartbeatTimeout: time.Minute}))
	var instances []string
	for range 2 {
		old, instance := f.node()
		f.deploy("on-"+old, old, 1, cluster.Pods{Stop: time.Second})
		instances = append(instances, instance)
	}
	f.node()
	f.startAgent()
	for _, instance := range instances {
		f.terminate(instance)
	}
	envelope := f.aws.Envelope()
	for _, a := range f.aws.Ledger() {
		f.aws.Send(f.queue, awsim.EventBridgeMessage(envelope, awsim.Notification{
			Token: a.Token, Group: group, Hook: hook, InstanceID: a.InstanceID, Transition: awsim.Terminating,
		}))
	}
	for _, instance := range instances {
		f.waitCompleted(instance)
	}
	f.waitQueueEmpty()
}

// TestDuplicates: however often and in whatever order SQS hands a message out, there is one drain and one
// completion, and no message stays.
func TestDuplicates(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		before func(f *fixture)                  // the termination
		during func(f *fixture, instance string) // once the drain has begun
	}{
		"two copies with one message id": {
			before: func(f *fixture) { f.aws.Duplicate(f.queue, 1) },
		},
		"two messages, in order": {
			during: func(f *fixture, instance string) { f.aws.ResendMessages(instance) },
		},
		"two messages, reversed": {
			before: func(f *fixture) { f.aws.Reorder(f.queue, true) },
			during: func(f *fixture, instance string) { f.aws.ResendMessages(instance) },
		},
		"the message is received again with a new receipt handle": {
			during: func(f *fixture, _ string) { f.aws.ExpireVisibility(f.queue) },
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixtureWithHook(t)
			old, instance := f.node()
			f.node()
			f.deploy("api", old, 2, cluster.Pods{Stop: 4 * time.Second})
			pods := f.podsOf("api")
			if tt.before != nil {
				tt.before(f)
			}
			agent := f.startAgent()
			complete := f.aws.Inject(awsim.Fault{Action: "CompleteLifecycleAction", Code: "Throttling"})
			f.terminate(instance)
			agent.waitLog("pod evicted")
			received := f.aws.Queue(f.queue).Received
			if tt.during != nil {
				tt.during(f, instance)
				f.waitReceived(received + 1)
			}
			complete()
			a := f.waitCompleted(instance)
			f.waitQueueEmpty()
			if n := completions(a); n != 1 {
				t.Errorf("the action was completed %d times: %+v", n, a.Completions)
			}
			agent.logs(1, "node drained")
			f.assertEvictedOnce(pods)
		})
	}
}

// completions is how often the action was completed, or would have been if it had not been already.
func completions(a awsim.Action) (n int) {
	for _, c := range a.Completions {
		if c.Err == "" {
			n++
		}
	}
	return n
}

// TestKilledAndRestarted kills the agent without warning in each phase of a termination. The next one brings it
// to the same end.
func TestKilledAndRestarted(t *testing.T) {
	t.Parallel()
	slow := func(action string) awsim.Fault { return awsim.Fault{Action: action, Latency: 20 * time.Second} }
	phases := map[string]struct {
		hold  awsim.Fault // keeps the agent in the phase
		until func(*agentProcess)
	}{
		"after the receipt": {
			hold:  slow("DescribeAutoScalingInstances"),
			until: func(p *agentProcess) { p.waitLog("event received", "event", "lifecycle-terminating") },
		},
		"after the taint": {
			until: func(p *agentProcess) { p.waitLog("node cordoned") },
		},
		"during the evictions": {
			until: func(p *agentProcess) { p.waitLog("pod evicted") },
		},
		"before the completion": {
			hold:  slow("CompleteLifecycleAction"),
			until: func(p *agentProcess) { p.waitLog("node drained") },
		},
		"before the deletion of the message": {
			hold:  slow("DeleteMessageBatch"),
			until: func(p *agentProcess) { p.waitLog("termination ended") },
		},
	}
	for name, phase := range phases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixtureWithHook(t)
			old, instance := f.node()
			other, _ := f.node()
			f.deploy("api", old, 4, cluster.Pods{Stop: 2 * time.Second})
			f.must(f.cluster.MinAvailable(f.ctx, f.namespace, "api", "2"))
			before := f.podsOf("api")
			release := func() {}
			if phase.hold.Action != "" {
				release = f.aws.Inject(phase.hold)
			}
			first := f.startAgent()
			f.terminate(instance)
			phase.until(first)
			first.Kill()
			release()

			second := f.startAgent()
			f.waitCompleted(instance)
			f.waitQueueEmpty()
			f.waitPodsReady("api", 4)
			f.assertUnmarked(other)
			f.assertEvicted(before)
			if second.Count("pod deleted at the deadline") > 0 {
				t.Error("the second agent deleted a pod past its budget")
			}
		})
	}
}

// TestStopped: on SIGTERM the agent makes its message visible at once, and the next one continues. A receive that is
// canceled in that moment may still take the message, here as in SQS, so the test looks at the call.
func TestStopped(t *testing.T) {
	t.Parallel()
	f := newFixtureWithHook(t)
	old, instance := f.node()
	f.node()
	f.deploy("api", old, 2, cluster.Pods{Stop: 4 * time.Second})
	before := f.podsOf("api")
	first := f.startAgent()
	complete := f.aws.Inject(awsim.Fault{Action: "CompleteLifecycleAction", Code: "Throttling"}) // It stops before the end.
	f.terminate(instance)
	first.waitLog("pod evicted")
	if code := first.stop(); code != 0 {
		t.Errorf("the agent stopped with code %d, want 0", code)
	}
	visible := slices.ContainsFunc(f.aws.Calls("sqs", "ChangeMessageVisibilityBatch"), func(c awsim.Call) bool {
		return c.Code == "" && bytes.Contains(c.Body, []byte(`"VisibilityTimeout":0`))
	})
	if !visible || first.Count("message handled", "outcome", "released") != 1 {
		t.Error("after SIGTERM the agent has not made its message visible")
	}
	if a := f.aws.Ledger()[0]; !a.ClosedAt.IsZero() {
		t.Errorf("the action was closed by %q though the node was not empty", a.ClosedBy)
	}
	complete()
	f.startAgent()
	f.waitCompleted(instance)
	f.waitQueueEmpty()
	f.assertEvicted(before)
}

// TestAWSFails: errors, throttling and dropped connections of AWS delay the end, and do not change it.
func TestAWSFails(t *testing.T) {
	t.Parallel()
	tests := map[string][]awsim.Fault{
		"the completion is throttled, then its answer is lost": {
			{Action: "CompleteLifecycleAction", Code: "Throttling", Times: 1},
			{Action: "CompleteLifecycleAction", Drop: true, AfterApply: true, Times: 1},
		},
		"SQS answers 500 for a while": {
			{Service: "sqs", Code: "InternalFailure", Status: 500, Times: 12},
		},
		"the instance still shows as in service": {},
	}
	for name, faults := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixtureWithHook(t)
			if len(faults) == 0 {
				f.aws.SetDelays(awsim.Delays{Visible: 2 * time.Second})
			}
			old, instance := f.node()
			f.node()
			f.deploy("api", old, 2, cluster.Pods{Stop: time.Second})
			before := f.podsOf("api")
			f.startAgent()
			for _, fault := range faults {
				f.aws.Inject(fault)
			}
			f.terminate(instance)
			f.waitCompleted(instance)
			f.waitQueueEmpty()
			f.assertEvictedOnce(before)
		})
	}
}
