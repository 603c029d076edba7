//go:build e2e

package e2e

import (
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/cluster"
)

// TestKilledAndRestarted kills the agent without warning in each phase of a termination. The next one brings it
// to the same end.
func TestKilledAndRestarted(t *testing.T) {
	slow := func(action string) awsim.Fault { return awsim.Fault{Action: action, Latency: 20 * time.Second} }
	phases := map[string]struct {
		hold  awsim.Fault // keeps the agent in the phase
		until func(*process)
	}{
		"after the receipt": {
			hold:  slow("DescribeAutoScalingInstances"),
			until: func(p *process) { p.waitLog("event received", "event", "lifecycle-terminating") },
		},
		"after the taint": {
			until: func(p *process) { p.waitLog("node cordoned") },
		},
		"amid the evictions": {
			until: func(p *process) { p.waitLog("pod evicted") },
		},
		"before the completion": {
			hold:  slow("CompleteLifecycleAction"),
			until: func(p *process) { p.waitLog("node drained") },
		},
		"before the deletion of the message": {
			hold:  slow("DeleteMessageBatch"),
			until: func(p *process) { p.waitLog("termination ended") },
		},
	}
	for name, phase := range phases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := hooked(t, time.Minute)
			old, instance := w.node()
			other, _ := w.node()
			w.deploy("api", old, 4, cluster.Pods{Stop: 2 * time.Second})
			w.must(w.cluster.MinAvailable(w.ctx, w.namespace, "api", "2"))
			before := w.podsOf("api")
			release := func() {}
			if phase.hold.Action != "" {
				release = w.aws.Inject(phase.hold)
			}
			first := w.startAgent()
			w.terminate(instance)
			phase.until(first)
			first.kill()
			release()

			second := w.startAgent()
			w.waitCompleted(instance)
			w.waitQueueEmpty()
			w.waitPodsReady("api", 4)
			w.assertUnmarked(other)
			w.assertEvicted(before)
			if second.count("pod deleted at the deadline") > 0 {
				t.Error("the second agent deleted a pod past its budget")
			}
		})
	}
}

// TestStopped: SIGTERM gives what is in hand back at once, and the next agent goes on.
func TestStopped(t *testing.T) {
	t.Parallel()
	w := hooked(t, time.Minute)
	old, instance := w.node()
	w.node()
	w.deploy("api", old, 2, cluster.Pods{Stop: 4 * time.Second})
	before := w.podsOf("api")
	first := w.startAgent("QUEUE_VISIBILITY_TIMEOUT=1h")
	complete := w.aws.Inject(awsim.Fault{Action: "CompleteLifecycleAction", Code: "Throttling"}) // It stops before the end.
	w.terminate(instance)
	first.waitLog("pod evicted")
	if code := first.stop(); code != 0 {
		t.Errorf("the agent stopped with code %d, want 0", code)
	}
	if q := w.aws.Queue(w.queue); q.Visible != 1 || q.InFlight != 0 {
		t.Errorf("after SIGTERM the queue is %+v, want the message visible", q)
	}
	if a := w.aws.Ledger()[0]; !a.ClosedAt.IsZero() {
		t.Errorf("the action was closed by %q though the node was not empty", a.ClosedBy)
	}
	complete()
	w.startAgent()
	w.waitCompleted(instance)
	w.waitQueueEmpty()
	w.assertEvicted(before)
}
