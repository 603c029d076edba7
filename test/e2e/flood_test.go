//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/cluster"
	"github.com/node-drainer/node-drainer/test/harness"
)

// TestFlood: 10,000 forged messages while 20 nodes drain delay no heartbeat, and take neither the memory of the agent nor
// what Auto Scaling grants to the account.
func TestFlood(t *testing.T) {
	t.Parallel()
	const drains, heartbeatTimeout = 20, time.Minute
	f := newFixture(t)
	f.addHook(heartbeatTimeout)
	f.must(f.aws.CreateGroup(awsim.Group{Name: "others", Tags: owned}))
	var err error
	f.program, err = harness.Build(f.ctx, t.TempDir(), harness.Agent, harness.Options{}) // The race detector takes memory.
	f.must(err)
	agent := f.startAgent("LOG_LEVEL=info", "QUEUE_VISIBILITY_TIMEOUT=30s", "HOOK_CONFIRM_TIMEOUT=1m", "DRAIN_SETTLE=5s")
	var instances []string
	for i := range drains {
		node, instance := f.node()
		instances = append(instances, instance)
		f.deploy(fmt.Sprintf("api-%d", i), node, 1, cluster.Pods{GracePeriod: 2 * time.Minute, Stop: 80 * time.Second})
	}
	for _, id := range instances {
		f.terminate(id)
	}
	agent.waitCount(drains, "draining")
	before, calls, sent := agent.memory("VmRSS"), f.aws.Requests(), time.Now()
	for i := range 10_000 {
		f.aws.Send(f.queue, f.forged(i, instances[i%drains]))
	}
	for _, id := range instances {
		f.assertHeartbeats(f.waitCompleted(id), heartbeatTimeout/2)
	}
	took, most := time.Since(sent), agent.memory("VmHWM")
	t.Logf("resident memory: %d KiB before, %d KiB at most; %d messages were deleted in %v",
		before, most, f.aws.Queue(f.queue).Deleted, took.Round(time.Second))
	if most > 100<<10 {
		t.Errorf("the agent took %d KiB of memory, want 100 MiB at most", most)
	}
	for action, perSecond := range map[string]float64{
		"RecordLifecycleActionHeartbeat": 6, "DescribeAutoScalingInstances": 11, "DescribeLifecycleHooks": 1, "DescribeTags": 1,
	} {
		n := f.aws.Requests()["autoscaling."+action] - calls["autoscaling."+action]
		t.Logf("%s: %d calls, %.1f a second", action, n, float64(n)/took.Seconds())
		if float64(n) > 50+perSecond*took.Seconds() {
			t.Errorf("%s was called %d times in %v, want %v a second at most", action, n, took, perSecond)
		}
	}
	agent.assertHealthy()
}

// assertHeartbeats expects that no heartbeat of the action came later than it was due.
func (f *fixture) assertHeartbeats(a awsim.Action, interval time.Duration) {
	f.t.Helper()
	const patience = 5 * time.Second // the machine is busy
	last := a.StartedAt
	for _, at := range append(a.Heartbeats, a.ClosedAt) {
		if gap := at.Sub(last); gap > interval+patience {
			f.t.Errorf("%v passed without a heartbeat for %s", gap, a.InstanceID)
		}
		last = at
	}
}

// forged returns one of many messages that somebody has forged who knows the group and an instance that terminates.
func (f *fixture) forged(i int, terminating string) string {
	e := f.aws.Envelope()
	e.Seed = uint64(i)
	old := e
	old.At = time.Unix(1, 0)
	n := awsim.Notification{
		Token: fmt.Sprintf("0f9e4a9e-4f3c-4c4c-8b0e-%012x", i), Group: group, Hook: hook, InstanceID: cluster.NewInstanceID(),
		Transition: awsim.Terminating, Metadata: strings.Repeat("x", 1000),
	}
	switch i % 10 {
	case 0: // of a hook that does not exist, for an instance that terminates
		n.InstanceID, n.Hook = terminating, fmt.Sprintf("hook-%d", i)
	case 1: // of another group
		n.InstanceID, n.Group, n.Hook = terminating, "others", fmt.Sprintf("hook-%d", i)
	case 2: // that began long ago
		n.InstanceID, n.Token = terminating, ""
		return awsim.DirectMessage(old, n)
	case 3:
		n.Transition = awsim.Launching
	case 4:
		return awsim.SpotInterruption(e, n.InstanceID, "eu-central-1a", "terminate")
	case 5:
		return awsim.BlockExpiration(e, fmt.Sprintf("cr-%017x", i), e.At.Add(40*time.Minute))
	case 6:
		return health(e, i%500 == 6)
	}
	return awsim.DirectMessage(e, n)
}

// health returns a message of AWS Health about one instance, or about so many that the message has 250 KB.
func health(e awsim.Envelope, many bool) string {
	entities := []string{fmt.Sprintf(`{"entityValue":%q}`, cluster.NewInstanceID())}
	for many && len(entities) < 2900 {
		entities = append(entities, fmt.Sprintf(`{"entityValue":%q,"status":"PENDING","lastUpdatedTime":"%045d"}`,
			cluster.NewInstanceID(), 0))
	}
	return fmt.Sprintf(`{"id":"1","source":"aws.health","detail-type":"AWS Health Event","account":%q,"region":%q,"time":%q,`+
		`"detail":{"service":"EC2","eventTypeCategory":"scheduledChange","startTime":%q,"affectedEntities":[%s]}}`,
		e.Account, e.Region, e.At.UTC().Format(time.RFC3339), e.At.Add(time.Hour).UTC().Format("Mon, 2 Jan 2006 15:04:05 GMT"),
		strings.Join(entities, ","))
}
