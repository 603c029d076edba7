//go:build e2e

package e2e

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/cluster"
)

const (
	mark  = "node-drainer.io/termination"
	taint = "node-drainer.io/terminating"
	topic = "arn:aws:sns:eu-central-1:123456789012:terminations"
)

// TestDrain follows a termination from the message to the end, in each form that the message can have.
func TestDrain(t *testing.T) {
	forms := map[string]func(w *world) (target string){
		"direct to the queue": func(w *world) string { return w.aws.QueueARN(w.queue) },
		"through SNS": func(w *world) string {
			w.aws.SubscribeTopic(topic, w.aws.QueueARN(w.queue), false)
			return topic
		},
		"through EventBridge": func(w *world) string {
			w.aws.AddRule(w.aws.QueueARN(w.queue), awsim.TerminateAction)
			return ""
		},
		"through EventBridge and SNS": func(w *world) string {
			w.aws.SubscribeTopic(topic, w.aws.QueueARN(w.queue), false)
			w.aws.AddRule(topic, awsim.TerminateAction)
			return ""
		},
	}
	for name, target := range forms {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.must(w.aws.PutHook(group, awsim.Hook{
				Name: hook, HeartbeatTimeout: time.Minute, NotificationTargetARN: target(w),
			}))
			old, instance := w.node()
			w.node()
			w.deploy("api", old, 6, cluster.Pods{Stop: time.Second})
			w.must(w.cluster.MinAvailable(w.ctx, w.namespace, "api", "5"))
			w.must(w.cluster.DaemonSet(w.ctx, w.namespace, "logs", cluster.Pods{
				Pool: w.namespace, Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			}))
			w.waitPodsReady("logs", 2)
			before := w.podsOf("api")
			lowest := w.watchReady("api")
			agent := w.startAgent()
			w.terminate(instance)
			agent.waitLog("node cordoned", "node", old)
			assertMarked(w, old, instance)
			a := w.waitCompleted(instance)
			w.waitQueueEmpty()
			agent.waitLog("termination ended", "outcome", "drained")

			w.assertEvictedOnce(before)
			if n := lowest(); n < 5 {
				t.Errorf("only %d pods of api were ready at one time, its budget asks for 5", n)
			}
			if patches := w.requests("patch", "nodes"); len(patches) != 1 {
				t.Errorf("the node was patched %d times, want one patch", len(patches))
			}
			if len(a.Heartbeats) == 0 || a.Heartbeats[0].Sub(a.StartedAt) > 30*time.Second {
				t.Errorf("heartbeats at %v of an action that began at %v, want the first at once", a.Heartbeats, a.StartedAt)
			}
			deleted := slices.MaxFunc(w.calls("sqs", "DeleteMessageBatch"), time.Time.Compare)
			if deleted.Before(a.Completions[0].At) {
				t.Errorf("the message was deleted at %v, before the action was completed at %v", deleted, a.Completions[0].At)
			}
		})
	}
}

// assertMarked holds if the one patch has put everything on the node.
func assertMarked(w *world, name, instance string) {
	w.t.Helper()
	n := w.getNode(name)
	if !slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool {
		return t.Key == taint && t.Effect == corev1.TaintEffectNoSchedule
	}) {
		w.t.Errorf("node %s has the taints %v, want %s", name, n.Spec.Taints, taint)
	}
	if !n.Spec.Unschedulable {
		w.t.Errorf("node %s is schedulable", name)
	}
	if _, ok := n.Labels[corev1.LabelNodeExcludeBalancers]; !ok {
		w.t.Errorf("node %s is not excluded from load balancers", name)
	}
	var m struct {
		Instance, Hook string
		Deadline       time.Time
	}
	w.must(json.Unmarshal([]byte(n.Annotations[mark]), &m))
	if m.Instance != instance || m.Hook != group+"/"+hook || !m.Deadline.After(time.Now()) {
		w.t.Errorf("node %s is annotated with %+v", name, m)
	}
}

func TestDrainThatOutlastsTheHeartbeatTimeout(t *testing.T) {
	t.Parallel()
	const timeout = 15 * time.Second
	w := hooked(t, timeout)
	old, instance := w.node()
	w.node()
	w.deploy("slow", old, 2, cluster.Pods{Stop: 2*timeout + time.Second, GracePeriod: time.Minute})
	w.startAgent()
	w.terminate(instance)
	a := w.waitCompleted(instance)
	if took := a.ClosedAt.Sub(a.StartedAt); took < 2*timeout {
		t.Fatalf("the drain took %v, want more than twice the heartbeat timeout of %v", took, timeout)
	}
	w.waitQueueEmpty()
}

// TestHeartbeatsEndWithTheDrain: also when the agent may not complete. Then the hook's timeout lets the empty node go,
// and the agent its message.
func TestHeartbeatsEndWithTheDrain(t *testing.T) {
	t.Parallel()
	w := hooked(t, 20*time.Second)
	old, instance := w.node()
	w.node()
	w.deploy("api", old, 2, cluster.Pods{Stop: time.Second})
	before := w.podsOf("api")
	w.aws.Inject(awsim.Fault{Action: "CompleteLifecycleAction", Code: "AccessDenied", Status: 403})
	agent := w.startAgent()
	w.terminate(instance)
	agent.waitLog("node drained", "node", old)
	agent.waitLog("call failed, retrying", "api", "autoscaling")
	a := w.waitClosed(instance)
	if a.ClosedBy != awsim.ByHeartbeatTimeout || len(a.PodsAtClose) > 0 {
		t.Errorf("the action was closed by %q with the pods %q", a.ClosedBy, a.PodsAtClose)
	}
	completed := w.calls("autoscaling", "CompleteLifecycleAction")[0]
	for _, beat := range w.calls("autoscaling", "RecordLifecycleActionHeartbeat") {
		if beat.After(completed.Add(time.Second)) { // one may have been on its way
			t.Errorf("a heartbeat was sent at %v, after the completion at %v", beat, completed)
		}
	}
	agent.waitLog("termination ended", "outcome", "drained")
	w.waitQueueEmpty()
	w.assertEvictedOnce(before)
}

func TestDeadline(t *testing.T) {
	tests := map[string]struct {
		env       []string
		outcome   string
		forced    bool
		leftCount int
	}{
		"pods that a budget holds are deleted in time": {
			env: []string{"DRAIN_TIMEOUT=20s"}, outcome: "drained", forced: true,
		},
		"or left to go with the instance": {
			env: []string{"DRAIN_TIMEOUT=8s", "DRAIN_AT_DEADLINE=leave"}, outcome: "left-behind", leftCount: 1,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := hooked(t, time.Minute)
			w.mayKill = tt.leftCount > 0
			old, instance := w.node()
			w.node()
			w.deploy("db", old, 1, cluster.Pods{Stop: 2 * time.Second, GracePeriod: 10 * time.Second})
			w.must(w.cluster.MinAvailable(w.ctx, w.namespace, "db", "1"))
			agent := w.startAgent(tt.env...)
			w.terminate(instance)
			agent.waitLog("eviction blocked")
			agent.waitLog("termination ended", "outcome", tt.outcome)
			a := w.waitCompleted(instance)
			if len(a.PodsAtClose) != tt.leftCount {
				t.Errorf("%q were on the node, want %d", a.PodsAtClose, tt.leftCount)
			}
			if forced := agent.count("pod deleted at the deadline") > 0; forced != tt.forced {
				t.Errorf("a pod was forced: %v, want %v", forced, tt.forced)
			}
			reason := map[bool]string{true: "DeletedAtDeadline", false: "PodsLeftBehind"}[tt.forced]
			w.waitEvent(reason)
			w.waitEvent("BudgetMisconfigured")
		})
	}
}

func TestWhatIsPutOnTheNode(t *testing.T) {
	tests := map[string]struct {
		env                         []string
		taint                       string
		effect                      corev1.TaintEffect
		cordoned, excluded, atClose bool
	}{
		"without cordon and label, with a taint of the user's": {
			env: []string{
				"NODE_CORDON=false", "NODE_EXCLUDE_FROM_LOAD_BALANCERS=off",
				"NODE_TAINT_KEY=example.com/going", "NODE_TAINT_EFFECT=PreferNoSchedule",
			},
			taint: "example.com/going", effect: corev1.TaintEffectPreferNoSchedule,
		},
		"with the label only when the pods have gone": {
			env:   []string{"NODE_EXCLUDE_FROM_LOAD_BALANCERS=late"},
			taint: taint, effect: corev1.TaintEffectNoSchedule, cordoned: true, atClose: true,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := hooked(t, time.Minute)
			old, instance := w.node()
			w.node()
			w.deploy("api", old, 1, cluster.Pods{Stop: 10 * time.Second}) // Time to look at the node before it is empty.
			complete := w.aws.Inject(awsim.Fault{Action: "CompleteLifecycleAction", Code: "Throttling"})
			agent := w.startAgent(tt.env...)
			w.terminate(instance)
			agent.waitLog("node cordoned")
			n := w.getNode(old)
			_, excluded := n.Labels[corev1.LabelNodeExcludeBalancers]
			tainted := slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool {
				return t.Key == tt.taint && t.Effect == tt.effect
			})
			if !tainted || n.Spec.Unschedulable != tt.cordoned || excluded != tt.excluded {
				t.Errorf("taints %v, unschedulable %v, excluded %v", n.Spec.Taints, n.Spec.Unschedulable, excluded)
			}
			agent.waitLog("call failed, retrying", "api", "autoscaling")
			_, excluded = w.getNode(old).Labels[corev1.LabelNodeExcludeBalancers]
			if excluded != tt.atClose {
				t.Errorf("excluded from load balancers after the drain: %v, want %v", excluded, tt.atClose)
			}
			complete()
			w.waitCompleted(instance)
		})
	}
}

// TestTwoHooks: the hooks of one instance share its drain, and each is completed.
func TestTwoHooks(t *testing.T) {
	t.Parallel()
	w := hooked(t, time.Minute)
	w.must(w.aws.PutHook(group, awsim.Hook{
		Name: "second", HeartbeatTimeout: time.Minute, NotificationTargetARN: w.aws.QueueARN(w.queue),
	}))
	old, instance := w.node()
	w.node()
	w.deploy("api", old, 2, cluster.Pods{Stop: 2 * time.Second})
	before := w.podsOf("api")
	w.startAgent()
	w.terminate(instance)
	w.waitCompleted(instance)
	w.waitQueueEmpty()
	w.assertEvictedOnce(before)
	for _, a := range w.aws.Ledger() {
		if a.ClosedBy != awsim.ByCompletion || a.Result != "CONTINUE" {
			t.Errorf("hook %s was closed by %q with %q", a.Hook, a.ClosedBy, a.Result)
		}
	}
}

// TestStatefulSet: a pod that comes back under its own name on another node is not evicted there.
func TestStatefulSet(t *testing.T) {
	t.Parallel()
	w := hooked(t, time.Minute)
	old, instance := w.node()
	w.node()
	w.must(w.cluster.StatefulSet(w.ctx, w.namespace, "db", 1, cluster.Pods{
		Pool: w.namespace, Prefer: old, Stop: 2 * time.Second,
	}))
	w.waitPodsReady("db", 1)
	w.startAgent()
	w.terminate(instance)
	w.waitCompleted(instance)
	w.waitQueueEmpty()
	w.waitPodsReady("db", 1)
	w.assertEvictedOnce([]string{"db-0"})
}

// podsOf returns the names of the pods of a workload.
func (w *world) podsOf(name string) []string {
	w.t.Helper()
	list, err := w.cluster.Client().CoreV1().Pods(w.namespace).List(w.ctx,
		metav1.ListOptions{LabelSelector: cluster.Selector(name)})
	w.must(err)
	names := make([]string, len(list.Items))
	for i := range list.Items {
		names[i] = list.Items[i].Name
	}
	return names
}
