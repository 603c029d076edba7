package agent_test

import (
	"context"
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

// TestAlarms: the steps for an alarm on an instance.
func TestAlarms(t *testing.T) {
	t.Parallel()
	const marked = "mark " + instance + " unhealthy"
	alarmIs := func(a answer[bool]) given { return func(f *fixture) { f.alarm = a } }
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
		{
			"alarm, configured to replace, that ends before the instance is set to Standby", with(
				stateIs(changes(inService, 4*time.Minute, standby)), alarmIs(changes(true, 3*time.Minute, false)),
				func(f *fixture) { f.cfg.Events.Alarm = event.Replace },
			), alarmOn,
			[]string{marked},
			agent.Unconfirmed, "",
		},
		{
			"the same, and CloudWatch does not answer for a while", with(
				stateIs(changes(inService, 4*time.Minute, standby)), func(f *fixture) {
					f.cfg.Events.Alarm = event.Replace
					f.alarm = func(after time.Duration) (bool, error) {
						if after > 3*time.Minute && after < 6*time.Minute {
							return false, errOutage
						}
						return true, nil
					}
				},
			), alarmOn,
			append([]string{marked}, drainedWithoutHook("1h0m0s..1h4m16s")...),
			agent.Drained, "",
		},
		{
			"alarm, configured to be ignored", func(f *fixture) { f.cfg.Events.Alarm = event.Ignore },
			alarmOn, nil, "", "ignored alarm of " + instance + ": events of this kind are configured to be ignored",
		},
		{
			"alarm, and the group is not known for a while", fails("group", 3, errOutage),
			alarmOn, drainedWithoutHook("1h0m1s..1h0m3s"), agent.Drained, "",
		},
		{
			"alarm, configured to replace: done when the instance has left the group", with(
				stateIs(changes(terminating, 20*time.Minute, inNoGroup)),
				func(f *fixture) { f.cfg.Events.Alarm = event.Replace },
			), alarmOn,
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

// TestAwaitDeparture: while the terminating hook of a replaced instance is held for hours, the agent asks for its state
// less and less often.
func TestAwaitDeparture(t *testing.T) {
	replace := func(f *fixture) { f.cfg.Events.Alarm = event.Replace }
	inBubble(t, replace, func(t *testing.T, f *fixture) {
		const leaves = 12 * time.Hour
		asked, state := 0, changes(terminating, leaves, inNoGroup)
		f.state = func(after time.Duration) (autoscaling.State, error) {
			asked++
			return state(after)
		}
		mustHandle(t, f, f.agent(), alarmOn)
		if late := f.after() - leaves; asked > 200 || late < 0 || late > 10*time.Minute {
			t.Errorf("asked %d times, and noticed the departure after %v", asked, late)
		}
	})
}

// TestReplacedInstanceThatDoesNotLeave: the next alarm of the group does not wait for it for ever.
func TestReplacedInstanceThatDoesNotLeave(t *testing.T) {
	t.Parallel()
	replace := func(f *fixture) { f.cfg.Events.Alarm = event.Replace }
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
			if err := f.agent().Handle(ctx, alarmOn(f)); err != nil || f.after() > tt.most {
				t.Errorf("ended after %v with %v", f.after(), err)
			}
			f.wantOutcome(t, agent.Replaced)
		})
	}
}
