package agent_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/node-drainer/node-drainer/internal/agent"
	"github.com/node-drainer/node-drainer/pkg/autoscaling"
	"github.com/node-drainer/node-drainer/pkg/drain"
	"github.com/node-drainer/node-drainer/pkg/ec2"
	"github.com/node-drainer/node-drainer/pkg/event"
	"github.com/node-drainer/node-drainer/pkg/queue"
)

// fromBridge returns the message of an EventBridge event at the start.
func fromBridge(f *fixture, source, detailType, detail string) queue.Message {
	return queue.Message{ID: "m", Receives: 1, SentAt: f.start, Body: fmt.Appendf(nil,
		`{"id":"e-1","source":%q,"detail-type":%q,"account":"123456789012","region":"eu-west-1","time":%q,"detail":%s}`,
		source, detailType, f.start.Format(time.RFC3339), detail)}
}

func fromEC2(f *fixture, detailType, detail string) queue.Message {
	return fromBridge(f, "aws.ec2", detailType, detail)
}

func spotWarning(f *fixture) queue.Message {
	return fromEC2(f, "EC2 Spot Instance Interruption Warning", `{"instance-id":"`+instance+`","instance-action":"terminate"}`)
}

func rebalance(f *fixture) queue.Message {
	return fromEC2(f, "EC2 Instance Rebalance Recommendation", `{"instance-id":"`+instance+`"}`)
}

func stateChange(state string) func(f *fixture) queue.Message {
	return func(f *fixture) queue.Message {
		return fromEC2(f, "EC2 Instance State-change Notification", `{"instance-id":"`+instance+`","state":"`+state+`"}`)
	}
}

func health(f *fixture, status string, instances ...string) queue.Message {
	var entities []string
	for _, id := range instances {
		entities = append(entities, `{"entityValue":"`+id+`"}`)
	}
	return fromBridge(f, "aws.health", "AWS Health Event", `{"service":"EC2","eventTypeCategory":"scheduledChange",`+
		`"eventTypeCode":"AWS_EC2_INSTANCE_REBOOT_MAINTENANCE_SCHEDULED","statusCode":"`+status+`",`+
		`"startTime":"`+f.start.Add(48*time.Hour).UTC().Format("Mon, 2 Jan 2006 15:04:05 GMT")+`",`+
		`"affectedEntities":[`+strings.Join(entities, ",")+`]}`)
}

func maintenance(f *fixture) queue.Message { return health(f, "upcoming", instance) }

func canceledMaintenance(f *fixture) queue.Message { return health(f, "closed", instance) }

func capacityBlock(f *fixture) queue.Message {
	return fromEC2(f, "Capacity Block Reservation Expiration Warning",
		`{"capacity-reservation-id":"cr-0a1b2c3d4e5f60718","end-date":"`+f.start.Add(40*time.Minute).UTC().Format(time.RFC3339)+`"}`)
}

func reservationInterruption(f *fixture) queue.Message {
	return fromEC2(f, "EC2 Capacity Reservation Instance Interruption Warning", `{"instance-id":"`+instance+
		`","instance-action":"terminate","instance-termination-time":"`+f.start.Add(time.Minute).UTC().Format(time.RFC3339)+`"}`)
}

// drainedWithoutHook are the steps of a drain that no hook waits for; its deadline may be a range.
func drainedWithoutHook(deadline string) []string {
	return []string{"cordon until " + deadline, "drain node-1 until " + deadline, "exclude"}
}

// TestNotices: the steps for events that no hook waits for.
func TestNotices(t *testing.T) {
	t.Parallel()
	const marked = "mark " + instance + " unhealthy"
	ignored := "ignored spot-interruption of " + instance + ": "
	for _, tt := range []struct {
		name    string
		given   func(f *fixture)
		message func(f *fixture) queue.Message
		steps   []string
		outcome agent.Outcome // empty: no termination started
		fact    string
	}{
		{
			name:    "Spot interruption: drained within two minutes less the margin",
			message: spotWarning, steps: drainedWithoutHook("1m55s"), outcome: agent.Drained,
		},
		{
			name: "Spot interruption: pods are left", given: func(f *fixture) { f.report.Left = []string{"web/a"} },
			message: spotWarning, steps: drainedWithoutHook("1m55s"), outcome: agent.LeftBehind,
		},
		{
			name: "instance without a node", given: func(f *fixture) { f.registers = never },
			message: spotWarning, fact: ignored + "the instance is not a node of this cluster",
		},
		{
			name: "configured to be ignored", given: func(f *fixture) { f.cfg.Events.SpotInterruption = event.Ignore },
			message: spotWarning, fact: ignored + "events of this kind are configured to be ignored",
		},
		{
			name: "configured to cordon", given: func(f *fixture) { f.cfg.Events.SpotInterruption = event.Cordon },
			message: spotWarning, steps: []string{"cordon"}, outcome: agent.Cordoned,
		},
		{
			name: "configured to cordon, and unconfirmed",
			given: func(f *fixture) {
				f.cfg.Events.SpotInterruption, f.ec2 = event.Cordon, describes(ec2.Instance{State: running})
			},
			message: spotWarning, outcome: agent.Unconfirmed,
		},
		{
			name: "configured to replace", given: func(f *fixture) { f.cfg.Events.ScheduledChange = event.Replace },
			message: maintenance, steps: []string{marked}, outcome: agent.Replaced,
		},
		{
			name: "configured to replace, and unconfirmed",
			given: func(f *fixture) {
				f.cfg.Events.ScheduledChange = event.Replace
				f.scheduled = func(time.Duration) (bool, error) { return false, nil }
			},
			message: maintenance, outcome: agent.Unconfirmed,
		},
		{
			name: "configured to replace, and in no group: drained",
			given: func(f *fixture) {
				f.cfg.Events.ScheduledChange, f.unhealthyErr = event.Replace, autoscaling.ErrGone
			},
			message: maintenance, steps: append([]string{marked}, drainedWithoutHook("1h0m0s")...), outcome: agent.Drained,
		},
		{
			name: "configured to replace, and the call fails: drained, as the permission may be missing",
			given: func(f *fixture) {
				f.cfg.Events.ScheduledChange, f.unhealthyErr, f.cfg.ConfirmTimeout = event.Replace, errOutage, 500*time.Millisecond
			},
			message: maintenance, steps: append([]string{marked, marked}, drainedWithoutHook("1h0m0.5s")...), outcome: agent.Drained,
		},
		{
			name:    "Spot interruption of an On-Demand Instance",
			given:   func(f *fixture) { f.ec2 = describes(ec2.Instance{State: running}) },
			message: spotWarning, outcome: agent.Unconfirmed,
		},
		{
			name:    "Spot interruption of a terminated instance",
			given:   func(f *fixture) { f.ec2 = describes(ec2.Instance{State: "terminated", Spot: true}) },
			message: spotWarning, outcome: agent.Gone,
		},
		{
			name: "EC2 does not answer: cordoned after 2 s, drained after 10 % of the notice",
			given: func(f *fixture) {
				f.ec2 = func(time.Duration) (ec2.Instance, error) { return ec2.Instance{}, errOutage }
			},
			message: spotWarning, steps: append([]string{"cordon"}, drainedWithoutHook("1m55s")...), outcome: agent.Drained,
		},
		{
			name:    "terminated bypassing its group: drained within half a minute",
			given:   func(f *fixture) { f.ec2 = describes(ec2.Instance{State: "shutting-down"}) },
			message: stateChange("shutting-down"), steps: drainedWithoutHook("25s"), outcome: agent.Drained,
		},
		{
			name: "stopped: no time for its pods", given: func(f *fixture) { f.ec2 = describes(ec2.Instance{State: "stopped"}) },
			message: stateChange("stopped"), steps: drainedWithoutHook("-5s"), outcome: agent.Drained,
		},
		{
			name:    "state change of a running instance",
			message: stateChange("stopping"), outcome: agent.Unconfirmed,
		},
		{
			name:    "state change to running",
			message: stateChange("running"), fact: "ignored state-change of " + instance + ": the instance is running",
		},
		{
			name:    "maintenance in two days, of one instance of this cluster: drained within the configured time",
			message: func(f *fixture) queue.Message { return health(f, "upcoming", instance, "i-0ffffffffffffffff") },
			steps:   drainedWithoutHook("1h0m0s"), outcome: agent.Drained,
			fact: "ignored scheduled-change of i-0ffffffffffffffff: the instance is not a node of this cluster",
		},
		{
			name: "maintenance that was to start an hour ago: drained within the configured time",
			message: func(f *fixture) queue.Message {
				f.start = f.start.Add(-49 * time.Hour)
				m := health(f, "open", instance)
				f.start = f.start.Add(49 * time.Hour)
				return m
			},
			steps: drainedWithoutHook("1h0m0s"), outcome: agent.Drained,
		},
		{
			name:    "maintenance that EC2 has not scheduled",
			given:   func(f *fixture) { f.scheduled = func(time.Duration) (bool, error) { return false, nil } },
			message: maintenance, outcome: agent.Unconfirmed,
		},
		{
			name:    "end of a Capacity Block: drained before EC2 starts to terminate its instances",
			given:   func(f *fixture) { f.reserved = []string{"i-0ffffffffffffffff", instance} },
			message: capacityBlock, steps: drainedWithoutHook("9m55s"), outcome: agent.Drained,
		},
		{
			name: "end of a Capacity Block, configured to be ignored", given: func(f *fixture) { f.cfg.Events.CapacityBlockExpiring = event.Ignore },
			message: capacityBlock, fact: "ignored capacity-block-expiration of : events of this kind are configured to be ignored",
		},
		{
			name:    "end of a Capacity Block, for an instance in no Capacity Reservation",
			given:   func(f *fixture) { f.ec2, f.reserved = describes(ec2.Instance{State: running}), []string{instance} },
			message: capacityBlock, outcome: agent.Unconfirmed,
		},
		{
			name:    "interruption of a Capacity Reservation",
			message: reservationInterruption, steps: drainedWithoutHook("55s"), outcome: agent.Drained,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFixture()
				if tt.given != nil {
					tt.given(f)
				}
				if err := f.agent().Handle(t.Context(), tt.message(f)); err != nil {
					t.Errorf("the message ended with %v", err)
				}
				f.wantSteps(t, tt.steps...)
				if tt.outcome != "" {
					f.wantOutcome(t, tt.outcome)
				} else if n := f.observed("started"); n != 0 {
					t.Errorf("%d terminations started", n)
				}
				if tt.fact != "" && f.observed(tt.fact) != 1 {
					t.Errorf("%q was not observed: %q", tt.fact, f.facts)
				}
			})
		})
	}
}

// TestNoticeWithoutAnswer: a notice that cannot be confirmed ends at some time.
func TestNoticeWithoutAnswer(t *testing.T) {
	t.Parallel()
	unanswered := func(time.Duration) (ec2.Instance, error) { return ec2.Instance{}, errOutage }
	for _, tt := range []struct {
		name    string
		given   func(f *fixture)
		message func(f *fixture) queue.Message
		outcome agent.Outcome // of a termination
		fails   bool          // the message is delivered again
		took    time.Duration
	}{
		{
			name:    "no deadline: ends when the node is deleted",
			given:   func(f *fixture) { f.ec2, f.leaves, f.deleted = unanswered, time.Minute, true },
			message: rebalance, outcome: agent.Gone, took: time.Minute,
		},
		{
			name: "the API server is asked until it answers that the node is deleted",
			given: func(f *fixture) {
				f.ec2, f.leaves, f.deleted, f.lookupErrs = unanswered, time.Minute, true, repeat(errOutage, 4)
			},
			message: rebalance, outcome: agent.Gone, took: 2 * time.Minute,
		},
		{
			name: "the watch does not show the node, but the API server has it",
			given: func(f *fixture) {
				f.leaves = time.Minute
				f.ec2 = func(after time.Duration) (ec2.Instance, error) {
					if after < 10*time.Minute {
						return ec2.Instance{}, errOutage
					}
					return ec2.Instance{State: running, Spot: true}, nil
				}
			},
			message: rebalance, outcome: agent.Drained, took: 10 * time.Minute,
		},
		{
			name:    "canceled maintenance: fails after HOOK_CONFIRM_TIMEOUT",
			given:   func(f *fixture) { f.scheduled = func(time.Duration) (bool, error) { return false, errOutage } },
			message: canceledMaintenance, fails: true, took: time.Minute,
		},
		{
			name:    "end of a Capacity Block: fails after HOOK_CONFIRM_TIMEOUT",
			given:   func(f *fixture) { f.reservedErr = errOutage },
			message: capacityBlock, fails: true, took: time.Minute,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFixture()
				tt.given(f)
				ctx, cancel := contextFor(t, time.Hour)
				defer cancel()
				err := f.agent().Handle(ctx, tt.message(f))
				if failed := err != nil; failed != tt.fails || errors.Is(err, errStopping) {
					t.Errorf("the message ended with %v", err)
				}
				if tt.outcome != "" {
					f.wantOutcome(t, tt.outcome)
				}
				if took := f.after(); took < tt.took || took > tt.took+30*time.Second {
					t.Errorf("took %v, want %v", took, tt.took)
				}
			})
		})
	}
}

// TestDrainedNode: after a drain, a further event of the instance is ignored or shares its result, while a hook is
// completed only after a drain of its own: a pod may have been scheduled onto the node before the taint was seen.
func TestDrainedNode(t *testing.T) {
	t.Parallel()
	hook := func(f *fixture) queue.Message { return message("drain", f.start) }
	for _, tt := range []struct {
		name             string
		given            func(f *fixture)
		messages         []func(f *fixture) queue.Message
		drains, observed int
		fact             string
	}{
		{
			name: "Spot interruption, its copy, and a hook", given: func(f *fixture) { f.report = drain.Report{Took: time.Second} },
			messages: []func(f *fixture) queue.Message{spotWarning, spotWarning, hook},
			drains:   2, observed: 1, fact: "ended drained",
		},
		{
			name: "EC2 reports the shutdown after the hook", given: func(f *fixture) { f.ec2 = describes(ec2.Instance{State: "shutting-down"}) },
			messages: []func(f *fixture) queue.Message{hook, stateChange("shutting-down")},
			drains:   1, observed: 1, fact: "ignored state-change of " + instance + ": the node is already drained",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFixture()
				tt.given(f)
				a := f.agent()
				for _, m := range tt.messages {
					if err := a.Handle(t.Context(), m(f)); err != nil {
						t.Error(err)
					}
				}
				if len(f.did("drain")) != tt.drains || f.when("complete") < f.when("drain") {
					t.Errorf("steps %q", f.did(""))
				}
				if f.observed("drained") != tt.observed || f.observed(tt.fact) == 0 {
					t.Errorf("facts %q", f.facts)
				}
			})
		})
	}
}
