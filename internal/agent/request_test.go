package agent_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/internal/agent"
	"github.com/node-drainer/node-drainer/internal/autoscaling"
	"github.com/node-drainer/node-drainer/internal/ec2"
	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/pkg/queue"
)

func (f autoScaling) GroupOf(context.Context, string) (string, error) { return group, f.next("group") }

// alarms plays CloudWatch.
type alarms struct{ *fixture }

func (f alarms) IsInAlarm(_ context.Context, alarm, instanceID string) (bool, error) {
	on, err := f.alarm(f.after())
	return on && alarm == "status-check" && instanceID == instance, err
}

func alarmOn(f *fixture) queue.Message {
	return fromBridge(f, "aws.cloudwatch", "CloudWatch Alarm State Change", `{"alarmName":"status-check","state":{"value":`+
		`"ALARM"},"configuration":{"metrics":[{"metricStat":{"metric":{"dimensions":{"InstanceId":"`+instance+`"}}}}]}}`)
}

func drainRequest(f *fixture) queue.Message {
	return fromBridge(f, "node-drainer.io", "Drain Request", `{"instance-id":"`+instance+`"}`)
}

// TestAlarmsAndRequests: the steps for events that a user has sent, or an alarm of theirs.
func TestAlarmsAndRequests(t *testing.T) {
	t.Parallel()
	const marked = "mark " + instance + " unhealthy"
	alarmIs := func(a answer[bool]) given { return func(f *fixture) { f.alarm = a } }
	onDemand := ec2State(running)
	for _, tt := range []struct {
		name    string
		given   given
		message source
		steps   []string
		outcome agent.Outcome // empty: no termination started
		fact    string
	}{
		{"alarm", nil, alarmOn, drainedWithoutHook("1h0m0s"), agent.Drained, ""},
		{"alarm that has ended", alarmIs(always(false)), alarmOn, nil, agent.Unconfirmed, ""},
		{
			"alarm that ends while EC2 does not answer", with(inState(inService), alarmIs(changes(true, time.Minute, false)),
				ec2Says(silent(2*time.Minute, ec2.Instance{State: running}))),
			alarmOn,
			[]string{"cordon", "uncordon"},
			agent.Unconfirmed, "",
		},
		{"alarm on an instance that has terminated", ec2State("terminated"), alarmOn, nil, agent.Gone, ""},
		{
			"alarm, configured to replace", with(stateIs(changes(inService, time.Minute, proceeding)), func(f *fixture) {
				f.cfg.Events.Alarm = event.Replace
			}),
			alarmOn,
			[]string{marked},
			agent.Replaced, "",
		},
		{"request", onDemand, drainRequest, drainedWithoutHook("1h0m0s"), agent.Drained, ""},
		{
			"request, configured to be ignored", func(f *fixture) { f.cfg.Events.Request = event.Ignore },
			drainRequest, nil, "", "ignored request of " + instance + ": events of this kind are configured to be ignored",
		},
		{
			"request, and the group is not known for a while", fails("group", 3, errOutage),
			drainRequest, drainedWithoutHook("1h0m1s..1h0m3s"), agent.Drained, "",
		},
		{
			"request, configured to replace: done when the instance has left the group", with(
				stateIs(changes(terminating, 20*time.Minute, inNoGroup)),
				func(f *fixture) { f.cfg.Events.Request = event.Replace },
			), drainRequest,
			[]string{marked},
			agent.Replaced, "",
		},
	} {
		each(t, tt.name, tt.given, func(t *testing.T, f *fixture) {
			mustHandle(t, f, f.agent(), tt.message)
			f.wantSteps(t, tt.steps...)
			if tt.outcome != "" {
				f.wantOutcome(t, tt.outcome)
			}
			if tt.fact != "" && f.observed(tt.fact) != 1 {
				t.Errorf("%q was not observed once: %q", tt.fact, f.facts)
			}
		})
	}
}

// TestAlarmsTakeTurns: an alarm waits until the request before it is acted on, and both are in one group.
func TestAlarmsTakeTurns(t *testing.T) {
	inBubble(t, ec2State(running), func(t *testing.T, f *fixture) {
		f.drainTakes = 10 * time.Minute
		a := f.agent()
		var handled sync.WaitGroup
		handled.Go(func() { mustHandle(t, f, a, drainRequest) })
		time.Sleep(time.Second)
		handled.Go(func() { mustHandle(t, f, a, alarmOn) })
		time.Sleep(5 * time.Minute)
		if n := len(f.did("cordon")); n != 1 {
			t.Errorf("%d events are acted on at the same time; steps %q", n, f.did(""))
		}
		handled.Wait()
		if n := len(f.did("cordon")); n != 2 {
			t.Errorf("%d events were acted on, want 2; steps %q", n, f.did(""))
		}
	})
}

// TestAwaitDeparture: while the terminating hook of a replaced instance is held for hours, the agent asks for its state
// less and less often.
func TestAwaitDeparture(t *testing.T) {
	replace := func(f *fixture) { f.cfg.Events.Request = event.Replace }
	inBubble(t, replace, func(t *testing.T, f *fixture) {
		const leaves = 12 * time.Hour
		asked, state := 0, changes(terminating, leaves, inNoGroup)
		f.state = func(after time.Duration) (autoscaling.State, error) {
			asked++
			return state(after)
		}
		mustHandle(t, f, f.agent(), drainRequest)
		if late := f.after() - leaves; asked > 200 || late < 0 || late > 10*time.Minute {
			t.Errorf("asked %d times, and noticed the departure after %v", asked, late)
		}
	})
}

// TestReplacedInstanceThatDoesNotLeave: the next request of the group does not wait for it for ever.
func TestReplacedInstanceThatDoesNotLeave(t *testing.T) {
	t.Parallel()
	replace := func(f *fixture) { f.cfg.Events.Request = event.Replace }
	for _, tt := range []struct {
		name  string
		state answer[autoscaling.State]
		most  time.Duration
	}{
		{"its hooks are held for as long as Auto Scaling lets them", always(terminating), 50 * time.Hour},
		{"it is in service again, with another root volume", func(after time.Duration) (autoscaling.State, error) {
			if after < 20*time.Minute {
				return "ReplacingRootVolume:Wait", nil
			}
			return inService, nil
		}, time.Hour},
		{"its state is not known any more", func(after time.Duration) (autoscaling.State, error) {
			if after < 20*time.Minute {
				return terminating, nil
			}
			return "", errOutage
		}, 50 * time.Hour},
	} {
		each(t, tt.name, with(replace, stateIs(tt.state)), func(t *testing.T, f *fixture) {
			ctx, cancel := contextFor(t, 100*time.Hour)
			defer cancel()
			if err := f.agent().Handle(ctx, drainRequest(f)); err != nil || f.after() > tt.most {
				t.Errorf("ended after %v with %v", f.after(), err)
			}
			f.wantOutcome(t, agent.Replaced)
		})
	}
}
