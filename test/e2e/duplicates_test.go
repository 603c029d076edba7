//go:build e2e

package e2e

import (
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/cluster"
)

// TestDuplicates: however often and in whatever order SQS hands a message out, there is one drain and one
// completion, and no message stays.
func TestDuplicates(t *testing.T) {
	tests := map[string]struct {
		before func(w *world)                  // the termination
		during func(w *world, instance string) // once the drain has begun
	}{
		"two copies with one message id": {
			before: func(w *world) { w.aws.Duplicate(w.queue, 1) },
		},
		"two messages, in order": {
			during: func(w *world, instance string) { w.aws.ResendMessages(instance) },
		},
		"two messages, reversed": {
			before: func(w *world) { w.aws.Reorder(w.queue, true) },
			during: func(w *world, instance string) { w.aws.ResendMessages(instance) },
		},
		"the message comes back with a new receipt handle": {
			during: func(w *world, _ string) { w.aws.ExpireVisibility(w.queue) },
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := hooked(t, time.Minute)
			old, instance := w.node()
			w.node()
			w.deploy("api", old, 2, cluster.Pods{Stop: 4 * time.Second})
			pods := w.podsOf("api")
			if tt.before != nil {
				tt.before(w)
			}
			agent := w.startAgent()
			complete := w.aws.Inject(awsim.Fault{Action: "CompleteLifecycleAction", Code: "Throttling"})
			w.terminate(instance)
			agent.waitLog("pod evicted")
			received := w.aws.Queue(w.queue).Received
			if tt.during != nil {
				tt.during(w, instance)
				w.waitReceived(received + 1)
			}
			complete()
			a := w.waitCompleted(instance)
			w.waitQueueEmpty()
			if n := completions(a); n != 1 {
				t.Errorf("the action was completed %d times: %+v", n, a.Completions)
			}
			agent.logs(1, "node drained")
			w.assertEvictedOnce(pods)
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

// TestCopyAfterTheEnd: a copy that comes when the instance is long gone touches nothing.
func TestCopyAfterTheEnd(t *testing.T) {
	t.Parallel()
	w := hooked(t, time.Minute)
	old, instance := w.node()
	w.node()
	w.deploy("api", old, 1, cluster.Pods{})
	agent := w.startAgent()
	w.aws.Duplicate(w.queue, 0)
	w.terminate(instance)
	w.aws.ResendMessages(instance)
	body := w.direct(instance)
	w.waitCompleted(instance)
	w.waitQueueEmpty()
	w.waitState(instance, "Terminated")
	w.aws.Forget(instance)
	w.aws.Send(w.queue, body)
	agent.waitLog("termination ended", "outcome", "gone")
	w.waitQueueEmpty()
	agent.logs(1, "node cordoned")
}
