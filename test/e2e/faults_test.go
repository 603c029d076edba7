//go:build e2e

package e2e

import (
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/cluster"
)

// The faults that are tested here have been found in other drainers.

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
		"a copy with another receipt handle during the drain": {
			during: func(f *fixture, instance string) { f.aws.ResendMessages(instance); f.aws.ExpireVisibility(f.queue) },
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
			a := f.waitHandled(instance)
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
			f.waitHandled(instance)
			f.waitPodsReady("api", 4)
			f.assertUnmarked(other)
			f.assertEvicted(before)
			if second.Count("pod deleted at the deadline") > 0 {
				t.Error("the second agent deleted a pod past its budget")
			}
		})
	}
}

// TestStopped: on SIGTERM the agent stops its drain, whose message is deleted, and the next one continues from the mark.
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
	f.waitQueueEmpty()
	first.stop()
	if a := f.aws.Ledger()[0]; !a.ClosedAt.IsZero() {
		t.Errorf("the action was closed by %q though the node was not empty", a.ClosedBy)
	}
	complete()
	f.startAgent()
	f.waitHandled(instance)
	f.assertEvicted(before)
}

// TestStoppedBeforeTheMark: on SIGTERM the agent makes a message visible at once whose node is not marked yet. A receive
// that is canceled in that moment may still take the message, here as in SQS, so the test looks at the call.
func TestStoppedBeforeTheMark(t *testing.T) {
	t.Parallel()
	f := newFixtureWithHook(t)
	_, instance := f.node()
	f.node()
	first := f.startAgent()
	f.waitQueueEmpty() // of the hook's test notification
	answer := f.aws.Inject(awsim.Fault{Action: "DescribeAutoScalingInstances", Code: "Throttling"})
	f.terminate(instance)
	first.waitLog("termination started")
	first.stop()
	f.assertReleased(first)
	answer()
	f.startAgent()
	f.waitHandled(instance)
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
		"the states of instances are denied": {
			{Action: "DescribeAutoScalingInstances", Code: "AccessDenied", Status: 403},
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
			f.waitHandled(instance)
			f.assertEvictedOnce(before)
		})
	}
}
