//go:build e2e

package e2e

import (
	"slices"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/cluster"
	"github.com/node-drainer/node-drainer/test/harness"
)

// limitToFeatures has awsim allow the agent some documents of deploy/iam alone, and the one with which it reads rules in
// the background. It returns the variables with which the agent is held to them, and ignores the events of the others,
// whose permissions it would try in the background.
func (f *fixture) limitToFeatures(documents ...string) (environ []string) {
	f.t.Helper()
	const key = "agent-of-some-features"
	granted, err := harness.FillPolicies(f.aws.QueueARN(f.queue), append(documents, "iam/agent-check")...)
	f.must(err)
	f.must(f.aws.Allow(key, granted...))
	f.recordCalls(harness.Agent, key)
	environ = []string{"AWS_ACCESS_KEY_ID=" + key}
	for document, variable := range map[string]string{
		"iam/agent-spot-interruption": "EVENT_SPOT_INTERRUPTION", "iam/agent-scheduled-change": "EVENT_SCHEDULED_CHANGE",
	} {
		if !slices.Contains(documents, document) {
			environ = append(environ, variable+"=ignore")
		}
	}
	return environ
}

// TestAgentsFeatures: what docs/iam.md gives the agent for a feature is enough for it, without the other features.
func TestAgentsFeatures(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		documents []string
		env       []string
		happens   func(f *fixture, instance string)
		outcome   string
	}{
		"the least: hooks, and what takes instances away": {
			nil, nil, func(f *fixture, instance string) {
				f.must(f.aws.SetMarket(instance, awsim.Interruptible, reservation))
				f.must(f.aws.ReclaimReservation(instance, 30*time.Second))
			}, "drained",
		},
		"Spot interruptions": {
			[]string{"iam/agent-spot-interruption"}, nil, func(f *fixture, instance string) {
				f.must(f.aws.SetMarket(instance, awsim.Spot, ""))
				f.must(f.aws.Interrupt(instance, 30*time.Second))
			}, "drained",
		},
		"scheduled changes": {
			[]string{"iam/agent-scheduled-change"}, nil, (*fixture).maintain, "drained",
		},
		"replace": {
			[]string{"iam/agent-scheduled-change", "iam/agent-replace"},
			[]string{"EVENT_SCHEDULED_CHANGE=replace", "EVENT_STATE_CHANGE=ignore"},
			(*fixture).maintain, "replaced",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixtureWithRule(t)
			f.addHook(hookTimeout)
			node, first := f.node()
			_, second := f.node()
			f.node()
			f.deploy("api", node, 2, cluster.Pods{})
			documents := append([]string{"iam/agent-queue", "iam/agent-terminations"}, tt.documents...)
			agent := f.startAgent(append(f.limitToFeatures(documents...), tt.env...)...)
			f.terminate(first)
			f.waitCompleted(first)
			tt.happens(f, second)
			agent.waitLog("termination ended", "instance", second, "outcome", tt.outcome)
		})
	}
}

// maintain has EC2 announce maintenance.
func (f *fixture) maintain(instance string) {
	f.t.Helper()
	_, err := f.aws.ScheduleChange("system-reboot", time.Now().Add(time.Hour), instance)
	f.must(err)
}

// TestAgentsLaunches: the same of launch hooks, also for a launch that only the resync finds, because its message was lost.
func TestAgentsLaunches(t *testing.T) {
	t.Parallel()
	f := newFixtureThatLaunches(t, shared(t), hookTimeout, cluster.Node{})
	f.aws.Delay(f.queue, time.Hour)
	_, a := f.launch()
	agent := f.startAgent(append(f.limitToFeatures(
		"iam/agent-queue", "iam/agent-terminations", "iam/agent-launches"), "RESYNC_INTERVAL=1s")...)
	f.waitCompleted(a.InstanceID)
	agent.waitLog("launch ended", "outcome", "ready")
	if n := agent.Count("event received", "instance", a.InstanceID); n > 0 {
		t.Errorf("%d messages reported the launch", n)
	}
}

// TestEvictionDelay: load balancers have time to remove a node before its first pod ends.
func TestEvictionDelay(t *testing.T) {
	t.Parallel()
	f := newFixtureWithHook(t)
	old, instance := f.node()
	f.node()
	f.deploy("api", old, 2, cluster.Pods{})
	agent := f.startAgent("DRAIN_EVICTION_DELAY=5s")
	f.terminate(instance)
	agent.waitLog("draining", "waiting=2 are evicted when DRAIN_EVICTION_DELAY has passed")
	f.waitHandled(instance)
	marked, evicted := f.requests("patch", "nodes"), f.requests("create", "pods/eviction")
	if delay := evicted[0].At.Sub(marked[0].At); delay < 4*time.Second {
		t.Errorf("the first eviction came %v after the taint, want 5 s", delay)
	}
}
