//go:build e2e

package e2e

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/node-drainer/node-drainer/test/cluster"
)

// replica starts an agent that stands for election.
func (w *world) replica(name string, env ...string) *process {
	w.t.Helper()
	return w.startAgent(append([]string{
		"LEADER_ELECTION=true", "LEADER_LEASE_NAME=" + w.namespace, "POD_NAMESPACE=" + w.namespace, "POD_NAME=" + name,
	}, env...)...)
}

// pair starts a leader, and then one that stands by.
func (w *world) pair(env ...string) (leader, standby *process) {
	w.t.Helper()
	leader = w.replica("one", env...)
	leader.waitLog("started leading")
	leader.waitReadyz(http.StatusOK, "ready: leading")
	standby = w.replica("two", env...)
	standby.waitReadyz(http.StatusOK, "ready: standing by; one_")
	return leader, standby
}

// at is when the line was written.
func (l line) at(t *testing.T) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, l.text("time"))
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// deadline is until when the node must be empty, as is noted on it.
func (w *world) deadline(node string) string {
	w.t.Helper()
	_, after, ok := strings.Cut(w.getNode(node).Annotations[mark], `"deadline":`)
	if !ok {
		w.t.Fatalf("node %s has no deadline", node)
	}
	deadline, _, _ := strings.Cut(after, ",")
	return deadline
}

// healthy holds if the agent is alive by its own word.
func (p *process) healthy() {
	p.t.Helper()
	if code, body := p.get("/healthz"); code != http.StatusOK {
		p.t.Errorf("/healthz is %d: %s", code, body)
	}
}

// TestStandby: one of two works, and both tell the truth about it.
func TestStandby(t *testing.T) {
	t.Parallel()
	w := hooked(t, time.Minute)
	old, instance := w.node()
	w.node()
	w.deploy("api", old, 2, cluster.Pods{})
	one, two := w.pair()
	w.terminate(instance)
	w.waitCompleted(instance)
	w.waitQueueEmpty()
	if one.metric("node_drainer_leader", "") != 1 || two.metric("node_drainer_leader", "") != 0 {
		t.Error("the metrics do not tell who leads")
	}
	if one.metric("node_drainer_leader_transitions_total", "") != 1 || two.metric("node_drainer_leader_transitions_total", "") != 1 {
		t.Error("the metrics do not tell of one leader seen")
	}
	one.healthy()
	two.healthy()
	one.logs(1, "node drained")
	if two.count("message received") > 0 {
		t.Error("the wrong one has worked")
	}
	if code := two.stop(); code != 0 {
		t.Errorf("the standby stopped with code %d", code)
	}
	one.waitReadyz(http.StatusOK, "ready: leading")
}

// TestHandOver: however the leader goes, the other goes on with the drain that is running, until the same
// deadline.
func TestHandOver(t *testing.T) {
	tests := map[string]struct {
		env []string
		end func(*process)
	}{
		"the leader is stopped": { // Nobody waits for the end of its lease.
			env: []string{"QUEUE_VISIBILITY_TIMEOUT=1h", "LEADER_LEASE_DURATION=2m"},
			end: func(p *process) { p.stop() },
		},
		"the leader is killed": {
			end: (*process).kill,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := hooked(t, time.Minute)
			old, instance := w.node()
			w.node()
			w.deploy("api", old, 4, cluster.Pods{Stop: 2 * time.Second})
			w.must(w.cluster.MinAvailable(w.ctx, w.namespace, "api", "3"))
			before := w.podsOf("api")
			one, two := w.pair(tt.env...)
			w.terminate(instance)
			one.waitLog("pod evicted")
			deadline := w.deadline(old)
			ended := time.Now()
			tt.end(one)
			began := two.waitLog("started leading").at(t)
			two.waitLog("pod evicted") // More pods are on the node, which goes when it is empty.
			if after := w.deadline(old); after != deadline {
				t.Errorf("the deadline was %s, and is %s", deadline, after)
			}
			w.waitCompleted(instance)
			w.waitQueueEmpty()
			w.assertEvicted(before)
			again := two.waitLog("event received", "instance", instance).at(t)
			t.Logf("led after %v, went on with the drain after %v", began.Sub(ended), again.Sub(ended))
			if took := began.Sub(ended); took > time.Minute {
				t.Errorf("the hand-over took %v", took)
			}
			two.waitReadyz(http.StatusOK, "ready: leading")
		})
	}
}

// TestLostLease: a leader that may not renew its lease stops working and stands by, and leads again when it may.
func TestLostLease(t *testing.T) {
	t.Parallel()
	w := hooked(t, time.Minute)
	old, instance := w.node()
	w.node()
	w.deploy("api", old, 2, cluster.Pods{Stop: 2 * time.Second})
	w.must(w.cluster.MinAvailable(w.ctx, w.namespace, "api", "2"))
	agent := w.replica("one", "QUEUE_VISIBILITY_TIMEOUT=1h")
	agent.waitLog("started leading")
	w.terminate(instance)
	agent.waitLog("node cordoned")

	bindings := w.cluster.Client().RbacV1().RoleBindings(w.namespace)
	binding, err := bindings.Get(w.ctx, w.namespace, metav1.GetOptions{})
	w.must(err)
	w.must(bindings.Delete(w.ctx, w.namespace, metav1.DeleteOptions{}))
	agent.waitLog("stopped leading")
	agent.waitReadyz(http.StatusServiceUnavailable, "/"+w.namespace+" could not be reached")
	agent.healthy()
	if q := w.aws.Queue(w.queue); q.Visible != 1 || q.InFlight != 0 {
		t.Errorf("the queue is %+v, want the message visible", q)
	}
	if agent.metric("node_drainer_leader", "") != 0 {
		t.Error("the metric says that it leads")
	}

	binding.ResourceVersion = ""
	_, err = bindings.Create(w.ctx, binding, metav1.CreateOptions{})
	w.must(err)
	agent.waitReadyz(http.StatusOK, "ready: leading")
	w.must(w.cluster.Client().PolicyV1().PodDisruptionBudgets(w.namespace).Delete(w.ctx, "api", metav1.DeleteOptions{}))
	w.waitCompleted(instance)
	w.waitQueueEmpty()
}

// TestLeaderOnItsOwnNode: it hands over before it drains the node that it runs on, and stands by.
func TestLeaderOnItsOwnNode(t *testing.T) {
	t.Parallel()
	w := hooked(t, time.Minute)
	old, instance := w.node()
	other, _ := w.node()
	w.deploy("api", old, 2, cluster.Pods{})
	before := w.podsOf("api")
	env := []string{"QUEUE_VISIBILITY_TIMEOUT=1h"}
	one := w.replica("one", append(env, "NODE_NAME="+old)...)
	one.waitLog("started leading")
	two := w.replica("two", append(env, "NODE_NAME="+other)...)
	two.waitReadyz(http.StatusOK, "standing by")
	w.terminate(instance)
	w.waitCompleted(instance)
	w.waitQueueEmpty()
	marked, began := one.waitLog("node cordoned").at(t), two.waitLog("started leading").at(t)
	t.Logf("the other led %v after the node was marked", began.Sub(marked))
	two.logs(1, "node drained")
	if one.count("pod evicted") > 0 {
		t.Error("the node was not drained by the other")
	}
	one.waitReadyz(http.StatusOK, "ready: standing by; two_")
	one.healthy()
	w.assertEvictedOnce(before)
}

// TestSingleReplicaOnItsOwnNode: nobody takes over, so it leads again and drains its node itself.
func TestSingleReplicaOnItsOwnNode(t *testing.T) {
	t.Parallel()
	w := hooked(t, time.Minute)
	old, instance := w.node()
	w.node()
	w.deploy("api", old, 2, cluster.Pods{})
	before := w.podsOf("api")
	one := w.replica("one", "QUEUE_VISIBILITY_TIMEOUT=1h", "NODE_NAME="+old,
		"LEADER_LEASE_DURATION=3s", "LEADER_RENEW_DEADLINE=2s", "LEADER_RETRY_PERIOD=500ms")
	one.waitLog("started leading")
	w.terminate(instance)
	w.waitCompleted(instance)
	w.waitQueueEmpty()
	one.logs(2, "started leading")
	w.assertEvictedOnce(before)
}

// TestBothReplicasOnNodesThatGo: the lease goes there and back at most, and both nodes are drained.
func TestBothReplicasOnNodesThatGo(t *testing.T) {
	t.Parallel()
	w := hooked(t, time.Minute)
	names, instances := make([]string, 2), make([]string, 2)
	for i := range names {
		names[i], instances[i] = w.node()
	}
	w.node()
	w.deploy("api", names[0], 2, cluster.Pods{})
	w.deploy("web", names[1], 2, cluster.Pods{})
	env := []string{"QUEUE_VISIBILITY_TIMEOUT=1h"}
	one := w.replica("one", append(env, "NODE_NAME="+names[0])...)
	one.waitLog("started leading")
	two := w.replica("two", append(env, "NODE_NAME="+names[1])...)
	two.waitReadyz(http.StatusOK, "standing by")
	for _, instance := range instances {
		w.terminate(instance)
	}
	for _, instance := range instances {
		w.waitCompleted(instance)
	}
	w.waitQueueEmpty()
	if n := one.count("started leading") + two.count("started leading"); n < 2 || n > 3 {
		t.Errorf("there were %d leaders, want two or three", n)
	}
}

// TestTwoLeaders: two agents that both work on one queue, on copies of the same messages, do no harm.
func TestTwoLeaders(t *testing.T) {
	t.Parallel()
	w := hooked(t, time.Minute)
	const nodes = 5
	var names, instances, before []string
	for range nodes {
		name, instance := w.node()
		names, instances = append(names, name), append(instances, instance)
	}
	w.node()
	w.node()
	for i, name := range names {
		app := "api-" + string(rune('a'+i))
		w.deploy(app, name, 3, cluster.Pods{Stop: time.Second})
		w.must(w.cluster.MinAvailable(w.ctx, w.namespace, app, "2"))
		before = append(before, w.podsOf(app)...)
	}
	limit(t, w.aws, agentKey, "second", w.aws.QueueARN(w.queue))
	one, two := w.startAgent(), w.startAgent("AWS_ACCESS_KEY_ID=second")
	w.waitQueueEmpty() // of the hook's test notification
	eventually(t, patience, func() string {
		if w.aws.RequestsBy("second")["sqs.ReceiveMessage"] == 0 {
			return "the second agent has not asked for messages"
		}
		return ""
	})
	w.aws.Duplicate(w.queue, nodes)
	for _, instance := range instances {
		w.terminate(instance)
		w.aws.ResendMessages(instance)
	}
	for _, instance := range instances {
		w.waitCompleted(instance)
	}
	w.waitQueueEmpty()
	asked := map[string]int{}
	for _, r := range w.requests("create", "pods/eviction") {
		if r.Code == http.StatusCreated {
			asked[r.Name]++
		}
	}
	for pod, n := range asked {
		if n > 2 || !slices.Contains(before, pod) {
			t.Errorf("the eviction of %s was granted %d times", pod, n)
		}
	}
	if len(asked) != len(before) {
		t.Errorf("%d pods were evicted, want %d", len(asked), len(before))
	}
	one.waitLog("termination started")
	two.waitLog("termination started")
	for _, p := range []*process{one, two} {
		p.healthy()
		if p.count("pod deleted at the deadline") > 0 {
			t.Error("a pod was deleted past its budget")
		}
	}
}

// TestReplicasOutliveTheAPIServer: while it is away, for longer than the Lease and the hook's heartbeat timeout, the
// leader holds the hook; then the drain goes on.
func TestReplicasOutliveTheAPIServer(t *testing.T) {
	t.Parallel()
	const outage = 75 * time.Second
	w := newWorldOn(t, ownCluster(t))
	w.hook(time.Minute)
	old, instance := w.node()
	w.node()
	w.deploy("api", old, 4, cluster.Pods{Stop: 3 * time.Second})
	w.must(w.cluster.MinAvailable(w.ctx, w.namespace, "api", "3"))
	before := w.podsOf("api")
	one, two := w.pair()
	w.terminate(instance)
	one.waitLog("pod evicted")
	w.must(w.cluster.Stop(w.ctx))
	<-time.After(outage) // the length of the outage is the subject of the test
	for _, p := range []*process{one, two} {
		p.waitReadyz(http.StatusServiceUnavailable, "could not be reached")
		p.healthy()
	}
	w.must(w.cluster.StartAgain(w.ctx))
	a := w.waitCompleted(instance)
	t.Logf("%d heartbeats, led %d and %d times", len(a.Heartbeats), one.count("started leading"), two.count("started leading"))
	w.waitQueueEmpty()
	w.assertEvictedAmidOutage(before)
}
