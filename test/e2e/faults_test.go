//go:build e2e

package e2e

import (
	"slices"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/cluster"
)

// The faults that are tested here have been found in other drainers.

// TestKilledAmidManyDrains: the agent is killed without warning while three nodes drain, and the next one goes on.
// Every pod is evicted, no budget is broken, and nothing hangs.
func TestKilledAmidManyDrains(t *testing.T) {
	t.Parallel()
	w := hooked(t, time.Minute)
	var instances []string
	for range 3 {
		_, instance := w.node()
		instances = append(instances, instance)
	}
	var before []string
	lowest := map[string]func() int{}
	for name, replicas := range map[string]int{"api": 9, "db": 3} {
		w.must(w.cluster.Deploy(w.ctx, cluster.Deployment{
			Namespace: w.namespace, Name: name, Replicas: int32(replicas),
			Pods: cluster.Pods{Pool: w.namespace, Stop: 2 * time.Second},
		}))
		w.waitPodsReady(name, replicas)
		w.must(w.cluster.MaxUnavailable(w.ctx, w.namespace, name, "1"))
		before = append(before, w.podsOf(name)...)
		lowest[name] = w.watchReady(name)
	}
	w.node()
	first := w.startAgent()
	for _, instance := range instances {
		w.terminate(instance)
	}
	first.waitCount(4, "pod evicted")
	first.kill()
	second := w.startAgent()
	for _, instance := range instances {
		w.waitCompleted(instance)
	}
	w.waitQueueEmpty()
	w.assertEvicted(before)
	for name, replicas := range map[string]int{"api": 9, "db": 3} {
		if n := lowest[name](); n < replicas-1 {
			t.Errorf("only %d pods of %s were ready at one time, its budget asks for %d", n, name, replicas-1)
		}
	}
	if n := second.count("pod deleted at the deadline"); n > 0 {
		t.Errorf("the second agent deleted %d pods past their budgets", n)
	}
}

// TestOneMessageAtATime: a message that comes to its turn when the node has been drained for another one is served
// like any other.
func TestOneMessageAtATime(t *testing.T) {
	t.Parallel()
	w := hooked(t, time.Minute)
	w.must(w.aws.PutHook(group, awsim.Hook{
		Name: "second", HeartbeatTimeout: time.Minute, NotificationTargetARN: w.aws.QueueARN(w.queue),
	}))
	old, instance := w.node()
	w.node()
	w.deploy("api", old, 2, cluster.Pods{Stop: time.Second})
	before := w.podsOf("api")
	w.startAgent("QUEUE_MAX_IN_FLIGHT=1")
	w.terminate(instance)
	w.waitCompleted(instance)
	w.waitQueueEmpty()
	w.assertEvictedOnce(before)
	for _, a := range w.aws.Ledger() {
		if a.ClosedBy != awsim.ByCompletion {
			t.Errorf("hook %s was closed by %q", a.Hook, a.ClosedBy)
		}
	}
}

// TestOneEventID: messages about two instances that bear the same id are two.
func TestOneEventID(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(w.aws.PutHook(group, awsim.Hook{Name: hook, HeartbeatTimeout: time.Minute}))
	var instances []string
	for range 2 {
		old, instance := w.node()
		w.deploy("on-"+old, old, 1, cluster.Pods{Stop: time.Second})
		instances = append(instances, instance)
	}
	w.node()
	w.startAgent()
	for _, instance := range instances {
		w.terminate(instance)
	}
	envelope := w.aws.Envelope()
	for _, a := range w.aws.Ledger() {
		w.aws.Send(w.queue, awsim.EventBridgeMessage(envelope, awsim.Notification{
			Token: a.Token, Group: group, Hook: hook, InstanceID: a.InstanceID, Transition: awsim.Terminating,
		}))
	}
	for _, instance := range instances {
		w.waitCompleted(instance)
	}
	w.waitQueueEmpty()
}

// TestPodsThatCannotBeListed: a node whose pods are not known is not an empty node.
func TestPodsThatCannotBeListed(t *testing.T) {
	t.Parallel()
	w := hooked(t, time.Minute)
	w.mayKill = true // when the test is over, and nobody holds the hook any more
	old, instance := w.node()
	w.node()
	w.deploy("api", old, 1, cluster.Pods{})
	w.without("list", "pods")
	agent := w.startAgent("DRAIN_TIMEOUT=5s", "HOOK_HEARTBEAT_INTERVAL=1s")
	w.terminate(instance)
	agent.waitLog("node cordoned")
	const beat = "RecordLifecycleActionHeartbeat"
	w.waitRequests(beat, len(w.calls("autoscaling", beat))+7) // past the deadline
	if a := w.aws.Ledger()[0]; !a.ClosedAt.IsZero() {
		t.Errorf("the action was closed by %q", a.ClosedBy)
	}
}

// TestPodsThatCannotBeWatched: lists do, and are not asked for without a pause.
func TestPodsThatCannotBeWatched(t *testing.T) {
	t.Parallel()
	w := hooked(t, time.Minute)
	old, instance := w.node()
	w.node()
	w.deploy("api", old, 4, cluster.Pods{Stop: 2 * time.Second})
	w.must(w.cluster.MaxUnavailable(w.ctx, w.namespace, "api", "2"))
	before := w.podsOf("api")
	w.without("watch", "pods")
	w.startAgent()
	w.terminate(instance)
	w.waitCompleted(instance)
	all, err := w.cluster.Requests(w.ctx, w.user)
	w.must(err)
	var evicted []string
	for _, r := range all {
		if r.Subresource == "eviction" && r.Code < 300 {
			evicted = append(evicted, r.Name)
		}
	}
	slices.Sort(before)
	slices.Sort(evicted)
	if !slices.Equal(slices.Compact(evicted), before) {
		t.Errorf("evicted %q, want %q", evicted, before)
	}
	if len(all) > 300 {
		t.Errorf("the agent has sent %d requests", len(all))
	}
}

// TestNodeThatTheWatchMisses: that an instance has no node is proven by the API server, not by the watch.
func TestNodeThatTheWatchMisses(t *testing.T) {
	t.Parallel()
	w := hooked(t, time.Minute)
	w.node()
	w.without("watch", "nodes")
	agent := w.startAgent("NODE_REGISTRATION_TIMEOUT=0s")
	old, instance := w.node()
	w.deploy("api", old, 2, cluster.Pods{Stop: time.Second})
	w.terminate(instance)
	agent.waitLog("termination ended", "outcome", "drained")
	w.waitCompleted(instance)
}

// TestPodsGoSideBySide: no pod waits for another one, save for its tier and its budget.
func TestPodsGoSideBySide(t *testing.T) {
	t.Parallel()
	w := hooked(t, time.Minute)
	old, instance := w.node()
	w.node()
	w.deploy("api", old, 20, cluster.Pods{Stop: 20 * time.Second})
	before := w.podsOf("api")
	w.startAgent()
	w.terminate(instance)
	w.waitCompleted(instance)
	w.assertEvictedOnce(before)
	asked := w.requests("create", "pods/eviction")
	if took := asked[len(asked)-1].At.Sub(asked[0].At); took > 19*time.Second { // the machine may be busy
		t.Errorf("from the first to the last eviction it took %v, and no pod was to wait for another's end", took)
	}
}
