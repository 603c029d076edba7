//go:build e2e

package e2e

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

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
	t.Parallel()
	forms := map[string]func(f *fixture) (target string){
		"direct to the queue": func(f *fixture) string { return f.aws.QueueARN(f.queue) },
		"through SNS": func(f *fixture) string {
			f.aws.SubscribeTopic(topic, f.aws.QueueARN(f.queue), false)
			return topic
		},
		"through EventBridge": func(f *fixture) string {
			f.aws.AddRule(f.aws.QueueARN(f.queue), awsim.TerminateAction)
			return ""
		},
		"through EventBridge and SNS": func(f *fixture) string {
			f.aws.SubscribeTopic(topic, f.aws.QueueARN(f.queue), false)
			f.aws.AddRule(topic, awsim.TerminateAction)
			return ""
		},
	}
	for name, target := range forms {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.must(f.aws.PutHook(group, awsim.Hook{
				Name: hook, HeartbeatTimeout: time.Minute, NotificationTargetARN: target(f),
			}))
			old, instance := f.node()
			f.node()
			f.deploy("api", old, 6, cluster.Pods{Stop: time.Second})
			f.must(f.cluster.MinAvailable(f.ctx, f.namespace, "api", "5"))
			f.must(f.cluster.DaemonSet(f.ctx, f.namespace, "logs", cluster.Pods{
				Pool: f.namespace, Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			}))
			f.waitPodsReady("logs", 2)
			before := f.podsOf("api")
			lowest := f.watchReady("api")
			agent := f.startAgent()
			f.terminate(instance)
			agent.waitLog("node cordoned", "node", old)
			assertMarked(f, old, instance)
			a := f.waitHandled(instance)
			agent.waitLog("termination ended", "outcome", "drained")

			f.assertEvictedOnce(before)
			if n := lowest(); n < 5 {
				t.Errorf("only %d pods of api were ready at one time, its budget requires 5", n)
			}
			patches := f.requests("patch", "nodes")
			if len(patches) != 1 {
				t.Fatalf("the node was patched %d times, want one patch", len(patches))
			}
			if len(a.Heartbeats) == 0 || a.Heartbeats[0].Sub(a.StartedAt) > 30*time.Second {
				t.Errorf("heartbeats at %v of an action that began at %v, want the first at once", a.Heartbeats, a.StartedAt)
			}
			deleted := slices.MaxFunc(f.calls("sqs", "DeleteMessageBatch"), time.Time.Compare)
			// No resync finds a hook that does not notify the queue: its message stays.
			isEarly, isDirect := deleted.Before(a.Completions[0].At), strings.HasPrefix(name, "direct")
			if deleted.Before(patches[0].At) || isEarly != isDirect {
				t.Errorf("the message was deleted at %v, the node marked at %v, and the action completed at %v",
					deleted, patches[0].At, a.Completions[0].At)
			}
		})
	}
}

// assertMarked expects that the patch has put everything on the node.
func assertMarked(f *fixture, name, instance string) {
	f.t.Helper()
	n := f.getNode(name)
	if !slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool {
		return t.Key == taint && t.Effect == corev1.TaintEffectNoSchedule
	}) {
		f.t.Errorf("node %s has the taints %v, want %s", name, n.Spec.Taints, taint)
	}
	if !n.Spec.Unschedulable {
		f.t.Errorf("node %s is schedulable", name)
	}
	if _, ok := n.Labels[corev1.LabelNodeExcludeBalancers]; !ok {
		f.t.Errorf("node %s is not excluded from load balancers", name)
	}
	m := f.markOf(name)
	if m.Instance != instance || m.Hook != group+"/"+hook || !m.Deadline.After(time.Now()) {
		f.t.Errorf("node %s is annotated with %+v", name, m)
	}
}

// annotation is what the agent notes on a node.
type annotation struct {
	Instance, Hook string
	Deadline       time.Time
}

func (f *fixture) markOf(node string) (a annotation) {
	f.t.Helper()
	f.must(json.Unmarshal([]byte(f.getNode(node).Annotations[mark]), &a))
	return a
}

func TestDeadline(t *testing.T) {
	t.Parallel()
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
			f := newFixtureWithHook(t)
			f.mayKill = tt.leftCount > 0
			old, instance := f.node()
			f.node()
			f.deploy("db", old, 1, cluster.Pods{Stop: 2 * time.Second, GracePeriod: 10 * time.Second})
			f.must(f.cluster.MinAvailable(f.ctx, f.namespace, "db", "1"))
			agent := f.startAgent(tt.env...)
			f.terminate(instance)
			agent.waitLog("eviction blocked")
			agent.waitLog("termination ended", "outcome", tt.outcome)
			a := f.waitCompleted(instance)
			if len(a.PodsAtClose) != tt.leftCount {
				t.Errorf("%q were on the node, want %d", a.PodsAtClose, tt.leftCount)
			}
			if forced := agent.Count("pod deleted at the deadline") > 0; forced != tt.forced {
				t.Errorf("a pod was forced: %v, want %v", forced, tt.forced)
			}
			reason := map[bool]string{true: "DeletedAtDeadline", false: "PodsLeftBehind"}[tt.forced]
			f.waitEvent(reason)
			f.waitEvent("BudgetMisconfigured")
			if evictions := f.requests("create", "pods/eviction"); len(evictions) > 0 {
				t.Errorf("%d evictions were tried, which the budget never allows", len(evictions))
			}
		})
	}
}
