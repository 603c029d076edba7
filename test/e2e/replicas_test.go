//go:build e2e

package e2e

import (
	"net/http"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/node-drainer/node-drainer/test/cluster"
	"github.com/node-drainer/node-drainer/test/harness"
)

// replica starts an agent that stands for election.
func (f *fixture) replica(name string, env ...string) *agentProcess {
	f.t.Helper()
	return f.startAgent(append([]string{
		"LEADER_ELECTION=true", "LEADER_LEASE_NAME=" + f.namespace, "POD_NAMESPACE=" + f.namespace, "POD_NAME=" + name,
	}, env...)...)
}

// pair starts a leader, and then one that stands by.
func (f *fixture) pair(env ...string) (leader, standby *agentProcess) {
	f.t.Helper()
	leader = f.replica("one", env...)
	leader.waitLog("started leading")
	leader.waitReadyz(http.StatusOK, "ready: leading")
	standby = f.replica("two", env...)
	standby.waitReadyz(http.StatusOK, "ready: standing by; one_")
	return leader, standby
}

// TestHandOver: one of two agents works, and both report that. When the leader is stopped or killed, the standby continues
// the drain until the same deadline.
func TestHandOver(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		env []string
		end func(*agentProcess)
	}{
		"the leader is stopped": { // Nobody waits for the end of its lease.
			env: []string{"LEADER_LEASE_DURATION=2m"},
			end: (*agentProcess).stop,
		},
		"the leader is killed": {
			end: func(p *agentProcess) { p.Kill() },
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixtureWithHook(t)
			old, instance := f.node()
			f.node()
			f.deploy("api", old, 4, cluster.Pods{Stop: 2 * time.Second})
			f.must(f.cluster.MinAvailable(f.ctx, f.namespace, "api", "3"))
			before := f.podsOf("api")
			one, two := f.pair(tt.env...)
			for p, leads := range map[*agentProcess]float64{one: 1, two: 0} {
				p.assertHealthy()
				if p.metric("node_drainer_leader", "") != leads || p.metric("node_drainer_leader_transitions_total", "") != 1 {
					t.Error("the metrics do not report one leader")
				}
			}
			f.terminate(instance)
			one.waitLog("pod evicted")
			if two.Count("message received") > 0 {
				t.Error("the standby has received messages")
			}
			deadline := f.markOf(old).Deadline
			ended := time.Now()
			tt.end(one)
			two.waitLog("started leading")
			if took := time.Since(ended); took > time.Minute {
				t.Errorf("the hand-over took %v", took)
			}
			two.waitLog("pod evicted") // More pods are on the node, so that its hook is not completed yet.
			if after := f.markOf(old).Deadline; !after.Equal(deadline) {
				t.Errorf("the deadline was %s, and is %s", deadline, after)
			}
			f.waitHandled(instance)
			f.assertEvicted(before)
			two.waitReadyz(http.StatusOK, "ready: leading")
		})
	}
}

// TestLostLease: a leader that may not renew its lease stops working and stands by, and leads again when it may.
func TestLostLease(t *testing.T) {
	t.Parallel()
	f := newFixtureWithHook(t)
	old, instance := f.node()
	f.node()
	f.deploy("api", old, 2, cluster.Pods{Stop: 2 * time.Second})
	f.must(f.cluster.MinAvailable(f.ctx, f.namespace, "api", "2"))
	agent := f.replica("one")
	agent.waitLog("started leading")
	f.terminate(instance)
	agent.waitLog("node cordoned")

	bindings := f.cluster.Client().RbacV1().RoleBindings(f.namespace)
	binding, err := bindings.Get(f.ctx, f.namespace, metav1.GetOptions{})
	f.must(err)
	f.must(bindings.Delete(f.ctx, f.namespace, metav1.DeleteOptions{}))
	agent.waitLog("stopped leading")
	agent.waitReadyz(http.StatusServiceUnavailable, "/"+f.namespace+" has not been reached")
	agent.assertHealthy()
	if agent.metric("node_drainer_leader", "") != 0 {
		t.Error("the metric says that it leads")
	}

	binding.ResourceVersion = ""
	_, err = bindings.Create(f.ctx, binding, metav1.CreateOptions{})
	f.must(err)
	agent.waitReadyz(http.StatusOK, "ready: leading")
	f.must(f.cluster.RemoveBudget(f.ctx, f.namespace, "api"))
	f.waitHandled(instance)
}

// TestLeaderOnItsOwnNode: it hands over before it drains the node that it runs on, and stands by.
func TestLeaderOnItsOwnNode(t *testing.T) {
	t.Parallel()
	f := newFixtureWithHook(t)
	old, instance := f.node()
	other, _ := f.node()
	f.deploy("api", old, 2, cluster.Pods{})
	before := f.podsOf("api")
	one := f.replica("one", "NODE_NAME="+old)
	one.waitLog("started leading")
	two := f.replica("two", "NODE_NAME="+other)
	two.waitReadyz(http.StatusOK, "standing by")
	f.terminate(instance)
	f.waitHandled(instance)
	two.logs(1, "node drained")
	if one.Count("pod evicted") > 0 {
		t.Error("the node was not drained by the other")
	}
	one.waitReadyz(http.StatusOK, "ready: standing by; two_")
	one.assertHealthy()
	f.assertEvictedOnce(before)
}

// TestTwoLeaders: two agents that both work on one queue, on copies of the same messages, do no harm.
func TestTwoLeaders(t *testing.T) {
	t.Parallel()
	f := newFixtureWithHook(t)
	const nodes = 5
	var names, instances, before []string
	for range nodes {
		name, instance := f.node()
		names, instances = append(names, name), append(instances, instance)
	}
	f.node()
	f.node()
	for i, name := range names {
		app := "api-" + string(rune('a'+i))
		f.deploy(app, name, 3, cluster.Pods{Stop: time.Second})
		f.must(f.cluster.MinAvailable(f.ctx, f.namespace, app, "2"))
		before = append(before, f.podsOf(app)...)
	}
	f.limit(harness.Agent, "second", f.aws.QueueARN(f.queue))
	one, two := f.startAgent(), f.startAgent("AWS_ACCESS_KEY_ID=second")
	f.waitQueueEmpty() // of the hook's test notification
	eventually(t, waitTimeout, func() string {
		if f.aws.RequestsBy("second")["sqs.ReceiveMessage"] == 0 {
			return "the second agent has not polled the queue"
		}
		return ""
	})
	f.aws.Duplicate(f.queue, nodes)
	for _, instance := range instances {
		f.terminate(instance)
		f.aws.ResendMessages(instance)
	}
	for _, instance := range instances {
		f.waitCompleted(instance)
	}
	f.waitQueueEmpty()
	evictions := map[string]int{}
	for _, pod := range f.evicted() {
		evictions[pod]++
	}
	for pod, n := range evictions {
		if n > 2 || !slices.Contains(before, pod) {
			t.Errorf("the eviction of %s was granted %d times", pod, n)
		}
	}
	if len(evictions) != len(before) {
		t.Errorf("%d pods were evicted, want %d", len(evictions), len(before))
	}
	one.waitLog("termination started")
	two.waitLog("termination started")
	for _, p := range []*agentProcess{one, two} {
		p.assertHealthy()
		if p.Count("pod deleted at the deadline") > 0 {
			t.Error("a pod was deleted past its budget")
		}
	}
}
