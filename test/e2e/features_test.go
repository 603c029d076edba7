//go:build e2e

package e2e

import (
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/cluster"
)

// narrow has an access key limited to some documents of deploy/iam, for a program that is run with it. The test fails
// if it asks for more.
func narrow(t testing.TB, aws *awsim.Server, key, queueARN string, documents ...string) (environ string) {
	t.Helper()
	narrowed := key + "-of-some-features"
	granted, err := fill(queueARN, documents...)
	if err != nil {
		t.Fatal(err)
	}
	if err := aws.Allow(narrowed, granted...); err != nil {
		t.Fatal(err)
	}
	return "AWS_ACCESS_KEY_ID=" + narrowed
}

// TestAgentsFeatures: what docs/iam.md gives the agent for a feature is enough for it, without the other features.
func TestAgentsFeatures(t *testing.T) {
	for name, tt := range map[string]struct {
		documents []string
		env       []string
		happens   func(w *world, instance string)
		outcome   string
	}{
		"the least: hooks, and what takes instances away": {
			nil, nil, func(w *world, instance string) {
				w.must(w.aws.SetMarket(instance, awsim.Spot, ""))
				w.must(w.aws.Interrupt(instance, 30*time.Second))
			}, "drained",
		},
		"scheduled changes": {
			[]string{"iam/agent-scheduled-change"}, nil, (*world).maintain, "drained",
		},
		"replace": {
			[]string{"iam/agent-scheduled-change", "iam/agent-replace"},
			[]string{"EVENT_SCHEDULED_CHANGE=replace", "EVENT_STATE_CHANGE=ignore"},
			(*world).maintain, "replaced",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := listening(t)
			w.hook(time.Minute)
			hooked, first := w.node()
			_, second := w.node()
			w.node()
			w.deploy("api", hooked, 2, cluster.Pods{})
			documents := append([]string{"iam/agent-queue", "iam/agent-terminations"}, tt.documents...)
			agent := w.startAgent(append(tt.env, narrow(t, w.aws, agentKey, w.aws.QueueARN(w.queue), documents...))...)
			w.terminate(first)
			w.waitCompleted(first)
			tt.happens(w, second)
			agent.waitLog("termination ended", "instance", second, "outcome", tt.outcome)
		})
	}
}

// maintain has EC2 announce maintenance.
func (w *world) maintain(instance string) {
	w.t.Helper()
	_, err := w.aws.ScheduleChange("system-reboot", time.Now().Add(time.Hour), instance)
	w.must(err)
}

// TestAgentsLaunches: the same of launch hooks.
func TestAgentsLaunches(t *testing.T) {
	t.Parallel()
	w := launching(t, cluster.Shared(t), time.Minute, cluster.Node{})
	_, a := w.launch()
	agent := w.startAgent(narrow(t, w.aws, agentKey, w.aws.QueueARN(w.queue),
		"iam/agent-queue", "iam/agent-terminations", "iam/agent-launches"))
	w.waitCompleted(a.InstanceID)
	agent.waitLog("launch ended", "outcome", "ready")
}

// TestTriggersFeatures: what docs/iam.md gives the trigger for a feature is enough for it, without the other features.
func TestTriggersFeatures(t *testing.T) {
	for name, tt := range map[string]struct {
		group     awsim.Group
		documents []string
		args      []string
		says      string
	}{
		"plan":              {latest(2), nil, []string{"plan"}, `outdated`},
		"refresh":           {latest(2), []string{"iam/trigger-refresh"}, nil, `2 instances replaced`},
		"refresh, suspend":  {latest(2), []string{"iam/trigger-refresh", "iam/trigger-suspend"}, []string{"--suspend", "AZRebalance"}, `resumed`},
		"unhealthy":         {launchingFirst(2), []string{"iam/trigger-unhealthy"}, []string{"--mode", "unhealthy"}, `2 instances replaced`},
		"unhealthy, surge":  {latest(2), []string{"iam/trigger-unhealthy", "iam/trigger-surge"}, []string{"--mode", "unhealthy", "--surge", "1"}, `2 instances replaced`},
		"suspend: to pause": {latest(2), []string{"iam/trigger-suspend"}, []string{"pause"}, `InstanceRefresh`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAmazon(t, tt.group, false)
			key := narrow(t, a.Server, triggerKey, "", append([]string{"iam/trigger-plan"}, tt.documents...)...)
			runTrigger(t, a.Server, []string{
				"TRIGGER_POLL_INTERVAL=200ms", "TRIGGER_NO_KUBERNETES=true", "TRIGGER_ALLOW=hook-timeout", "TRIGGER_ASG=" + group, key,
			}, tt.args...).ends(0, tt.says)
		})
	}
}
