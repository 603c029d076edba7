//go:build e2e

package e2e

import (
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/cluster"
)

// TestAPIServerStopped takes the API server away amid a drain, for longer than any retry. It has a control plane of
// its own.
func TestAPIServerStopped(t *testing.T) {
	t.Parallel()
	const outage = 30 * time.Second
	w := newWorldOn(t, ownCluster(t))
	w.hook(time.Minute)
	old, instance := w.node()
	w.node()
	w.deploy("api", old, 4, cluster.Pods{Stop: 3 * time.Second})
	w.must(w.cluster.MinAvailable(w.ctx, w.namespace, "api", "3"))
	before := w.podsOf("api")
	agent := w.startAgent()
	w.terminate(instance)
	agent.waitLog("pod evicted")
	w.must(w.cluster.Stop(w.ctx))
	<-time.After(outage) // the length of the outage is the subject of the test
	if a := w.aws.Ledger()[0]; !a.ClosedAt.IsZero() {
		t.Errorf("the action was closed by %q while the API server was away", a.ClosedBy)
	}
	w.must(w.cluster.StartAgain(w.ctx))
	w.waitCompleted(instance)
	w.waitQueueEmpty()
	w.assertEvictedAmidOutage(before)
}

// TestAWSFails: errors, throttling and dropped connections of AWS delay the end, and do not change it.
func TestAWSFails(t *testing.T) {
	tests := map[string][]awsim.Fault{
		"the completion fails five times": {
			{Action: "CompleteLifecycleAction", Code: "InternalFailure", Status: 500, Times: 5},
		},
		"the completion is throttled, then its answer is lost": {
			{Action: "CompleteLifecycleAction", Code: "Throttling", Times: 1},
			{Action: "CompleteLifecycleAction", Drop: true, AfterApply: true, Times: 1},
		},
		"the completion is applied but answered with an error": {
			{Action: "CompleteLifecycleAction", Code: "InternalFailure", Status: 500, AfterApply: true, Times: 1},
		},
		"heartbeats fail for a while": {
			{Action: "RecordLifecycleActionHeartbeat", Code: "ServiceUnavailable", Status: 503, Times: 4},
		},
		"SQS answers 500 for a while": {
			{Service: "sqs", Code: "InternalFailure", Status: 500, Times: 12},
		},
		"the hook cannot be described at first": {
			{Action: "DescribeLifecycleHooks", Code: "Throttling", Times: 4},
		},
		"the instance still shows as in service": {},
	}
	for name, faults := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := hooked(t, time.Minute)
			if len(faults) == 0 {
				w.aws.SetDelays(awsim.Delays{Visible: 2 * time.Second})
			}
			old, instance := w.node()
			w.node()
			w.deploy("api", old, 2, cluster.Pods{Stop: time.Second})
			before := w.podsOf("api")
			w.startAgent()
			for _, f := range faults {
				w.aws.Inject(f)
			}
			w.terminate(instance)
			w.waitCompleted(instance)
			w.waitQueueEmpty()
			w.assertEvictedOnce(before)
		})
	}
}

// TestAutoScalingIsSilent: the node is taken out of service within seconds, but no pod is moved before the
// termination is confirmed.
func TestAutoScalingIsSilent(t *testing.T) {
	t.Parallel()
	w := hooked(t, time.Minute)
	old, instance := w.node()
	w.node()
	w.deploy("api", old, 2, cluster.Pods{})
	before := w.podsOf("api")
	answer := w.aws.Inject(awsim.Fault{Action: "DescribeAutoScalingInstances", Code: "ServiceUnavailable", Status: 503})
	agent := w.startAgent()
	w.terminate(instance)
	w.waitNode(old, isMarked)
	const ask = "DescribeAutoScalingInstances"
	w.waitRequests(ask, len(w.calls("autoscaling", ask))+2)
	if n := len(w.evicted()); n > 0 {
		t.Errorf("%d pods were evicted before Auto Scaling had confirmed the termination", n)
	}
	if n := agent.count("node cordoned"); n > 0 {
		t.Error("the termination went on without a confirmation")
	}
	answer()
	w.waitCompleted(instance)
	w.waitQueueEmpty()
	w.assertEvictedOnce(before)
}

// TestAPIServerWithoutStreamingLists: an older API server does not know watches that begin with a list. There each cache
// lists first, which takes a right of its own.
func TestAPIServerWithoutStreamingLists(t *testing.T) {
	t.Parallel()
	const without = "KUBE_FEATURE_WatchListClient=false" // what client-go finds out by itself there
	f := newFleetOf(t, latest(2))
	f.outdate()
	f.install(renderTainting)
	for _, kubeconfig := range []string{f.viewer, f.token(taintingAccount)} {
		runTrigger(t, f.aws, []string{"KUBECONFIG=" + kubeconfig, without}, "plan", "--asg", group).ends(0, `2 of 2`)
	}
	f.startAgent(without)
	f.terminate(f.old[0])
	f.waitCompleted(f.old[0])
	for _, resource := range []string{"nodes", "daemonsets", "poddisruptionbudgets", "volumeattachments"} {
		if len(f.requests("list", resource)) == 0 {
			t.Errorf("the agent has not listed the %s", resource)
		}
	}
}
