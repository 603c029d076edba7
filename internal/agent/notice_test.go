package agent_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/internal/agent"
	"github.com/node-drainer/node-drainer/internal/autoscaling"
	"github.com/node-drainer/node-drainer/internal/ec2"
	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/pkg/drain"
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

func capacityBlock(f *fixture) queue.Message { return capacityBlockUntil(40 * time.Minute)(f) }

func capacityBlockUntil(end time.Duration) source {
	return func(f *fixture) queue.Message {
		return fromEC2(f, "Capacity Block Reservation Expiration Warning",
			`{"capacity-reservation-id":"cr-0a1b2c3d4e5f60718","end-date":"`+f.start.Add(end).UTC().Format(time.RFC3339)+`"}`)
	}
}

// sentEarlier returns the message as one that was sent before the start.
func sentEarlier(by time.Duration, m source) source {
	return func(f *fixture) queue.Message {
		out := m(f)
		out.SentAt = f.start.Add(-by)
		return out
	}
}

func reservationInterruption(f *fixture) queue.Message {
	return fromEC2(f, "EC2 Capacity Reservation Instance Interruption Warning", `{"instance-id":"`+instance+
		`","instance-action":"terminate","instance-termination-time":"`+f.start.Add(time.Minute).UTC().Format(time.RFC3339)+`"}`)
}

// drainedWithoutHook are the steps of a drain that no hook waits for; its deadline may be a range.
func drainedWithoutHook(deadline string) []string {
	least, most, isRange := strings.Cut(deadline, "..")
	marked := wholeSecond(least)
	if until := wholeSecond(most); isRange && until != marked {
		marked += ".." + until
	}
	return []string{"cordon until " + deadline, "drain node-1 until " + marked, "exclude"}
}

// wholeSecond is a deadline as marks have it.
func wholeSecond(deadline string) string {
	d, err := time.ParseDuration(deadline)
	if err != nil {
		return deadline
	}
	return d.Truncate(time.Second).String()
}

// TestNotices: the steps for events that no hook waits for.
func TestNotices(t *testing.T) {
	t.Parallel()
	const marked, window = "mark " + instance + " unhealthy", "47h59m55s"
	ignored := "ignored spot-interruption of " + instance + ": "
	onDemand, notScheduled, over := ec2State(running), scheduled(always(false)), scheduled(changes(true, 7*time.Minute, false))
	spot := func(a event.Action) given { return func(f *fixture) { f.cfg.Events.SpotInterruption = a } }
	blockIgnored := func(f *fixture) { f.cfg.Events.CapacityBlockExpiring = event.Ignore }
	replace := func(f *fixture) { f.cfg.Events.ScheduledChange = event.Replace }
	marksFailAfterTheFirst := func(f *fixture) {
		f.errs["mark"] = append([]error{nil}, slices.Repeat([]error{autoscaling.ErrGone}, 12)...)
	}
	reserved := func(ids ...string) given { return func(f *fixture) { f.reserved = ids } }
	for _, tt := range []struct {
		name    string
		given   given
		message source
		steps   []string
		outcome agent.Outcome // empty: no termination started
		fact    string
	}{
		{
			"Spot interruption: drained within two minutes less the margin", nil,
			spotWarning, drainedWithoutHook("1m55s"), agent.Drained, "",
		},
		{"Spot interruption: pods are left", podsLeft, spotWarning, drainedWithoutHook("1m55s"), agent.LeftBehind, ""},
		{
			"instance without a node: waited for, without a call", with(noNode, uncalled),
			spotWarning,
			[]string{"await"},
			"", ignored + "the instance is not a node that this agent manages",
		},
		{
			"configured to be ignored", spot(event.Ignore),
			spotWarning, nil, "", ignored + "events of this kind are configured to be ignored",
		},
		{"configured to cordon", spot(event.Cordon), spotWarning, []string{"cordon"}, agent.Cordoned, ""},
		{"configured to cordon, unconfirmed", with(spot(event.Cordon), onDemand), spotWarning, nil, agent.Unconfirmed, ""},
		{"configured to replace", replace, maintenance, []string{marked}, agent.Replaced, ""},
		{
			"configured to replace, and the mark is taken back: marked again",
			with(replace, stateIs(changes(inService, 7*time.Minute, terminating))),
			maintenance,
			[]string{marked, marked},
			agent.Replaced, "",
		},
		{
			"configured to replace, and the group does not: drained after an hour", with(replace, inState(inService)),
			maintenance, append(slices.Repeat([]string{marked}, 13), drainedWithoutHook(window)...), agent.Drained, "",
		},
		{
			"configured to replace, and Auto Scaling does not describe it for a while: marked until it does",
			with(replace, stateIs(silent(8*time.Minute, terminating))), maintenance,
			[]string{marked},
			agent.Replaced, "",
		},
		{
			"configured to replace, and the group does not, while the next marks fail: drained after an hour",
			with(replace, inState(inService), marksFailAfterTheFirst),
			maintenance, append(slices.Repeat([]string{marked}, 13), drainedWithoutHook(window)...), agent.Drained, "",
		},
		{
			"configured to replace, and detached: drained, as no group replaces it",
			with(replace, stateIs(changes(inService, 7*time.Minute, inNoGroup))),
			maintenance, append([]string{marked, marked}, drainedWithoutHook(window)...), agent.Drained, "",
		},
		{
			"configured to replace, and ended so fast that no look has seen it terminate",
			with(
				replace, stateIs(changes(inService, 7*time.Minute, inNoGroup)),
				ec2Says(changes(ec2.Instance{State: "running"}, 7*time.Minute, ec2.Instance{State: "terminated"})),
			),
			maintenance,
			[]string{marked, marked},
			agent.Replaced, "",
		},
		{
			"configured to replace, and set to Standby, where no health check replaces it: drained",
			with(replace, stateIs(changes[autoscaling.State](inService, 7*time.Minute, standby))),
			maintenance, append([]string{marked, marked}, drainedWithoutHook(window)...), agent.Drained, "",
		},
		{"configured to replace, and over first", with(replace, inState(inService), over), maintenance, []string{marked, marked}, agent.Unconfirmed, ""},
		{"configured to replace, unconfirmed", with(replace, notScheduled), maintenance, nil, agent.Unconfirmed, ""},
		{
			"configured to replace, and in no group: drained", with(replace, fails("mark", 1, autoscaling.ErrGone)),
			maintenance, append([]string{marked}, drainedWithoutHook(window)...), agent.Drained, "",
		},
		{
			"configured to replace, and the call fails: drained, as the permission may be missing",
			with(replace, fails("mark", 9, errOutage), func(f *fixture) { f.cfg.ConfirmTimeout = 500 * time.Millisecond }),
			maintenance, append([]string{marked, marked}, drainedWithoutHook(window)...), agent.Drained, "",
		},
		{"Spot interruption of an On-Demand Instance", onDemand, spotWarning, nil, agent.Unconfirmed, ""},
		{"Spot interruption of a terminated instance", ec2State("terminated"), spotWarning, nil, agent.Gone, ""},
		{
			"EC2 does not answer: cordoned after 2 s, drained after 10 % of the notice", ec2Says(silent(never, ec2.Instance{})),
			spotWarning, append([]string{"cordon"}, drainedWithoutHook("1m55s")...), agent.Drained, "",
		},
		{
			"terminated bypassing its group: drained within half a minute", ec2State("shutting-down"),
			stateChange("shutting-down"), drainedWithoutHook("25s"), agent.Drained, "",
		},
		{
			"stopped: no time for its pods", ec2State("stopped"),
			stateChange("stopped"), drainedWithoutHook("0s"), agent.Drained, "",
		},
		{"state change of a running instance", nil, stateChange("shutting-down"), nil, agent.Unconfirmed, ""},
		{
			"state change of a running instance, and then EC2 does not answer for a while",
			ec2Says(func(after time.Duration) (ec2.Instance, error) {
				if after > 10*time.Second && after < time.Hour {
					return ec2.Instance{}, errOutage
				}
				return ec2.Instance{State: running}, nil
			}),
			stateChange("shutting-down"), nil, agent.Unconfirmed, "",
		},
		{"state change of an instance that EC2 does not know", ec2State(""), stateChange("stopped"), nil, agent.Unconfirmed, ""},
		{
			"state change of an instance that EC2 does not know anymore: its node is not Ready either",
			with(ec2State(""), notReady), stateChange("stopped"), drainedWithoutHook("0s"), agent.Drained, "",
		},
		{"Spot interruption of an instance that EC2 does not know", ec2State(""), spotWarning, nil, agent.Unconfirmed, ""},
		{
			"Spot interruption of an instance that EC2 does not know anymore", with(ec2State(""), notReady),
			spotWarning, nil, agent.Gone, "",
		},
		{
			"state change to running", nil,
			stateChange("running"), nil, "", "ignored state-change of " + instance + ": the instance is running",
		},
		{
			"maintenance in two days, of one instance of this cluster: drained until then", nil,
			func(f *fixture) queue.Message { return health(f, "upcoming", instance, "i-0ffffffffffffffff") },
			drainedWithoutHook(window), agent.Drained,
			"ignored scheduled-change of i-0ffffffffffffffff: the instance is not a node that this agent manages",
		},
		{
			"maintenance that was to start an hour ago: drained within the configured time", nil,
			func(f *fixture) queue.Message {
				return health(&fixture{start: f.start.Add(-49 * time.Hour)}, "open", instance)
			},
			drainedWithoutHook("1h0m0s"), agent.Drained, "",
		},
		{"maintenance that EC2 has not scheduled", notScheduled, maintenance, nil, agent.Unconfirmed, ""},
		{
			"end of a Capacity Block: drained before EC2 starts to terminate its instances",
			reserved("i-0ffffffffffffffff", instance), capacityBlock, drainedWithoutHook("9m55s"), agent.Drained, "",
		},
		{
			"end of a Capacity Block that has ended, while EC2 does not answer", fails("list", 1000, errOutage),
			sentEarlier(8*time.Minute, capacityBlockUntil(28*time.Minute)), nil, "", "ignored capacity-block-expiration of : the reservation has ended",
		},
		{
			"end of a Capacity Block, configured to be ignored", blockIgnored, capacityBlock, nil, "",
			"ignored capacity-block-expiration of : events of this kind are configured to be ignored",
		},
		{
			"end of a Capacity Block, for an instance in no Capacity Reservation", with(onDemand, reserved(instance)),
			capacityBlock, nil, agent.Unconfirmed, "",
		},
		{
			"interruption of a Capacity Reservation", nil,
			reservationInterruption, drainedWithoutHook("55s"), agent.Drained, "",
		},
	} {
		each(t, tt.name, tt.given, func(t *testing.T, f *fixture) {
			mustHandle(t, f, f.agent(), tt.message)
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
	}
}

// uncalled records the calls of EC2 as steps.
func uncalled(f *fixture) {
	f.ec2 = func(time.Duration) (i ec2.Instance, err error) { f.step("describe"); return }
	f.spot = func(time.Duration) (s ec2.SpotStatus, err error) { f.step("describe the request"); return }
}

// TestNoticeSurvivesARestart: the message of a notice that waits for its Node is delivered again.
func TestNoticeSurvivesARestart(t *testing.T) {
	inBubble(t, registers(40*time.Second), func(t *testing.T, f *fixture) {
		ctx, cancel := contextFor(t, 20*time.Second)
		defer cancel()
		if err := f.agent().Handle(ctx, spotWarning(f)); !errors.Is(err, errStopping) {
			t.Errorf("the message ended with %v", err)
		}
		mustHandle(t, f, f.agent(), spotWarning)
		f.wantSteps(t, append([]string{"await", "await"}, drainedWithoutHook("1m55s")...)...)
	})
}

// TestNoticeWithoutAnswer: a notice that cannot be confirmed ends at some time.
func TestNoticeWithoutAnswer(t *testing.T) {
	t.Parallel()
	unanswered, leaves := ec2Says(silent(never, ec2.Instance{})), func(f *fixture) { f.leaves = time.Minute }
	for _, tt := range []struct {
		name    string
		given   given
		message source
		outcome agent.Outcome // empty: no termination started, and the message is delivered again
		took    time.Duration
	}{
		{
			"no deadline: ends when the node is deleted", with(unanswered, leaves, deleted),
			rebalance, agent.Gone, time.Minute,
		},
		{
			"the API server is asked until it answers that the node is deleted",
			with(unanswered, leaves, deleted, fails("look up", 4, errOutage)), rebalance, agent.Gone, 2 * time.Minute,
		},
		{
			"the watch does not show the node, but the API server has it",
			with(leaves, ec2Says(silent(10*time.Minute, ec2.Instance{State: running, Spot: true}))),
			rebalance, agent.Drained, 10 * time.Minute,
		},
		{
			"Spot interruption whose time has passed, of a node that is Ready: EC2 is asked until it answers",
			ec2Says(silent(10*time.Minute, ec2.Instance{State: running})),
			func(f *fixture) queue.Message { return spotWarning(&fixture{start: f.start.Add(-10 * time.Minute)}) },
			agent.Unconfirmed, 11 * time.Minute,
		},
		{
			"state change that EC2 contradicts once, and then does not answer", ec2Says(func(after time.Duration) (ec2.Instance, error) {
				if after < time.Second {
					return ec2.Instance{State: running}, nil
				}
				return ec2.Instance{}, errOutage
			}),
			stateChange("terminated"), agent.Unconfirmed, time.Minute,
		},
		{
			"canceled maintenance: fails after HOOK_CONFIRM_TIMEOUT", scheduled(silent(never, false)),
			canceledMaintenance, "", time.Minute,
		},
		{
			"end of a Capacity Block: fails after HOOK_CONFIRM_TIMEOUT", fails("list", 1000, errOutage),
			capacityBlock, "", time.Minute,
		},
	} {
		each(t, tt.name, tt.given, func(t *testing.T, f *fixture) {
			ctx, cancel := contextFor(t, time.Hour)
			defer cancel()
			err := f.agent().Handle(ctx, tt.message(f))
			f.awaitEnds()
			if failed := err != nil; failed != (tt.outcome == "") || errors.Is(err, errStopping) {
				t.Errorf("the message ended with %v", err)
			}
			if tt.outcome != "" {
				f.wantOutcome(t, tt.outcome)
			}
			if took := f.after(); took < tt.took || took > tt.took+30*time.Second {
				t.Errorf("took %v, want %v", took, tt.took)
			}
		})
	}
}

// TestDrainedNode: after a drain, a further event of the instance is ignored or shares its result, while a hook is
// completed only after a drain of its own: a pod may have been scheduled onto the node before the taint was seen.
func TestDrainedNode(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		given    given
		messages []source
		drains   int
		fact     string
	}{
		{
			"Spot interruption, its copy, and a hook", func(f *fixture) { f.report = drain.Report{Took: time.Second} },
			[]source{spotWarning, spotWarning, termination},
			2, "ended drained",
		},
		{
			"EC2 reports the shutdown after the hook", ec2State("shutting-down"),
			[]source{termination, stateChange("shutting-down")},
			1,
			"ignored state-change of " + instance + ": the node is already drained",
		},
	} {
		each(t, tt.name, tt.given, func(t *testing.T, f *fixture) {
			mustHandle(t, f, f.agent(), tt.messages...)
			if len(f.did("drain")) != tt.drains || f.when("complete") < f.when("drain") {
				t.Errorf("steps %q", f.did(""))
			}
			if f.observed("drained") != 1 || f.observed(tt.fact) == 0 {
				t.Errorf("facts %q", f.facts)
			}
		})
	}
}

// TestPodsLeftBehindHaveEnded: the next event of the instance, which finds no pods, reports that the node is drained.
func TestPodsLeftBehindHaveEnded(t *testing.T) {
	inBubble(t, podsLeft, func(t *testing.T, f *fixture) {
		a := f.agent()
		mustHandle(t, f, a, spotWarning)
		f.report = drain.Report{}
		for range 2 {
			mustHandle(t, f, a, termination)
		}
		if got := f.observed("drained"); got != 2 {
			t.Errorf("reported %d times that the node is drained, want 2: %q", got, f.facts)
		}
	})
}

// TestDrainedForAnotherEvent: the end of an instance whose node is drained for an event that may be over before is
// recorded in the mark, which keeps the node cordoned. The node is drained again: it may have got a pod since.
func TestDrainedForAnotherEvent(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]source{"Spot interruption": spotWarning, "maintenance": maintenance} {
		each(t, name, inState(inService), func(t *testing.T, f *fixture) {
			mustHandle(t, f, f.agent(), rebalance, end)
			if f.node.Mark.TerminatesAt.IsZero() || len(f.did("drain")) != 2 {
				t.Errorf("the mark is %+v after the steps %q", f.node.Mark, f.did(""))
			}
		})
	}
}
