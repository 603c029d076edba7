package agent_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/node-drainer/node-drainer/internal/agent"
	"github.com/node-drainer/node-drainer/pkg/autoscaling"
	"github.com/node-drainer/node-drainer/pkg/drain"
	ec2 "github.com/node-drainer/node-drainer/pkg/ec2"
	"github.com/node-drainer/node-drainer/pkg/event"
	"github.com/node-drainer/node-drainer/pkg/node"
	"github.com/node-drainer/node-drainer/pkg/queue"
)

// ofEC2 is the message of an event that EC2 sent when the world began.
func (w *world) ofEC2(detailType, detail string) queue.Message {
	return w.bridged("aws.ec2", detailType, detail)
}

func (w *world) bridged(source, detailType, detail string) queue.Message {
	return queue.Message{ID: "m", Receives: 1, SentAt: w.start, Body: fmt.Appendf(nil,
		`{"id":"e-1","source":%q,"detail-type":%q,"account":"123456789012","region":"eu-west-1","time":%q,"detail":%s}`,
		source, detailType, w.start.Format(time.RFC3339), detail)}
}

func (w *world) spotWarning() queue.Message {
	return w.ofEC2("EC2 Spot Instance Interruption Warning", `{"instance-id":"`+instance+`","instance-action":"terminate"}`)
}

func (w *world) stateChange(state string) queue.Message {
	return w.ofEC2("EC2 Instance State-change Notification", `{"instance-id":"`+instance+`","state":"`+state+`"}`)
}

func (w *world) health(status string, instances ...string) queue.Message {
	var entities []string
	for _, id := range instances {
		entities = append(entities, `{"entityValue":"`+id+`"}`)
	}
	return w.bridged("aws.health", "AWS Health Event", `{"service":"EC2","eventTypeCategory":"scheduledChange",`+
		`"eventTypeCode":"AWS_EC2_INSTANCE_REBOOT_MAINTENANCE_SCHEDULED","statusCode":"`+status+`",`+
		`"startTime":"`+w.start.Add(48*time.Hour).UTC().Format("Mon, 2 Jan 2006 15:04:05 GMT")+`",`+
		`"affectedEntities":[`+strings.Join(entities, ",")+`]}`)
}

func (w *world) block() queue.Message {
	return w.ofEC2("Capacity Block Reservation Expiration Warning",
		`{"capacity-reservation-id":"cr-0a1b2c3d4e5f60718","end-date":"`+w.start.Add(40*time.Minute).UTC().Format(time.RFC3339)+`"}`)
}

// is is EC2's description of the instance.
func is(i ec2.Instance) func(time.Duration) (ec2.Instance, error) {
	return func(time.Duration) (ec2.Instance, error) { return i, nil }
}

// TestNotices: what the agent does about events that no hook waits for, step by step.
func TestNotices(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		given   func(w *world)
		message func(w *world) queue.Message
		steps   []string
		outcome agent.Outcome // empty: nothing was taken up
		told    string
	}{
		{
			name:    "a Spot interruption: drained, with the notice less the margin",
			message: (*world).spotWarning,
			steps:   []string{"mark until 1m55s", "drain node-1 until 1m55s", "exclude"},
			outcome: agent.Drained,
		},
		{
			name:    "pods are left when EC2 takes the instance: told",
			given:   func(w *world) { w.report.Left = []string{"web/a"} },
			message: (*world).spotWarning,
			steps:   []string{"mark until 1m55s", "drain node-1 until 1m55s", "exclude"},
			outcome: agent.LeftBehind,
		},
		{
			name:    "of an instance that is no Node here: no call, nothing done",
			given:   func(w *world) { w.registers = never },
			message: (*world).spotWarning,
			told:    "ignored spot-interruption of " + instance + ": no node is of the instance",
		},
		{
			name:    "of a kind that is to be ignored",
			given:   func(w *world) { w.cfg.Events.SpotInterruption = event.Ignore },
			message: (*world).spotWarning,
			told:    "ignored spot-interruption of " + instance + ": events of this kind are ignored",
		},
		{
			name:    "of a kind for which nodes are cordoned: marked without a deadline, and no more",
			given:   func(w *world) { w.cfg.Events.SpotInterruption = event.Cordon },
			message: (*world).spotWarning,
			steps:   []string{"mark"},
			outcome: agent.Cordoned,
		},
		{
			name:    "of a kind for which instances are replaced: left to the group, whose hook drains",
			given:   func(w *world) { w.cfg.Events.ScheduledChange = event.Replace },
			message: func(w *world) queue.Message { return w.health("upcoming", instance) },
			steps:   []string{"mark " + instance + " unhealthy"},
			outcome: agent.Replaced,
		},
		{
			name: "an instance that nobody would replace is drained",
			given: func(w *world) {
				w.cfg.Events.ScheduledChange, w.unhealthy = event.Replace, autoscaling.ErrGone
			},
			message: func(w *world) queue.Message { return w.health("upcoming", instance) },
			steps:   []string{"mark " + instance + " unhealthy", "mark until 1h0m0s", "drain node-1 until 1h0m0s", "exclude"},
			outcome: agent.Drained,
		},
		{
			name: "and so is one whose group cannot be told: the permission may be missing",
			given: func(w *world) {
				w.cfg.Events.ScheduledChange, w.unhealthy, w.cfg.ConfirmTimeout = event.Replace, errOutage, 500*time.Millisecond
			},
			message: func(w *world) queue.Message { return w.health("upcoming", instance) },
			steps: []string{
				"mark " + instance + " unhealthy", "mark " + instance + " unhealthy",
				"mark until 1h0m0.5s", "drain node-1 until 1h0m0.5s", "exclude",
			},
			outcome: agent.Drained,
		},
		{
			name:    "a Spot interruption of what is no Spot Instance: forged",
			given:   func(w *world) { w.ec2 = is(ec2.Instance{State: runsOn}) },
			message: (*world).spotWarning,
			outcome: agent.Unconfirmed,
		},
		{
			name:    "the instance has gone before the message came: nothing to drain",
			given:   func(w *world) { w.ec2 = is(ec2.Instance{State: "terminated", Spot: true}) },
			message: (*world).spotWarning,
			outcome: agent.Gone,
		},
		{
			name: "EC2 is silent: marked after 2 s, and drained after a tenth of the notice",
			given: func(w *world) {
				w.ec2 = func(time.Duration) (ec2.Instance, error) { return ec2.Instance{}, errOutage }
			},
			message: (*world).spotWarning,
			steps:   []string{"mark", "mark until 1m55s", "drain node-1 until 1m55s", "exclude"},
			outcome: agent.Drained,
		},
		{
			name:    "an instance that is being terminated past its group: drained in half a minute",
			given:   func(w *world) { w.ec2 = is(ec2.Instance{State: "shutting-down"}) },
			message: func(w *world) queue.Message { return w.stateChange("shutting-down") },
			steps:   []string{"mark until 25s", "drain node-1 until 25s", "exclude"},
			outcome: agent.Drained,
		},
		{
			name:    "an instance on which nothing runs any more: its pods are moved at once",
			given:   func(w *world) { w.ec2 = is(ec2.Instance{State: "stopped"}) },
			message: func(w *world) queue.Message { return w.stateChange("stopped") },
			steps:   []string{"mark until -5s", "drain node-1 until -5s", "exclude"},
			outcome: agent.Drained,
		},
		{
			name:    "EC2 says that it runs: forged",
			message: func(w *world) queue.Message { return w.stateChange("stopping") },
			outcome: agent.Unconfirmed,
		},
		{
			name:    "an instance that begins to run: nothing to do",
			message: func(w *world) queue.Message { return w.stateChange("running") },
			told:    "ignored state-change of " + instance + ": the instance is running",
		},
		{
			name:    "maintenance in two days: drained within our own time",
			message: func(w *world) queue.Message { return w.health("upcoming", instance, "i-0ffffffffffffffff") },
			steps:   []string{"mark until 1h0m0s", "drain node-1 until 1h0m0s", "exclude"},
			outcome: agent.Drained,
			told:    "ignored scheduled-change of i-0ffffffffffffffff: no node is of the instance",
		},
		{
			name: "maintenance that was to begin an hour ago: drained within our own time, not killed",
			message: func(w *world) queue.Message {
				w.start = w.start.Add(-49 * time.Hour)
				m := w.health("open", instance)
				w.start = w.start.Add(49 * time.Hour)
				return m
			},
			steps:   []string{"mark until 1h0m0s", "drain node-1 until 1h0m0s", "exclude"},
			outcome: agent.Drained,
		},
		{
			name:    "maintenance that EC2 knows nothing of: forged",
			given:   func(w *world) { w.scheduled = func(time.Duration) (bool, error) { return false, nil } },
			message: func(w *world) queue.Message { return w.health("upcoming", instance) },
			outcome: agent.Unconfirmed,
		},
		{
			name:    "the end of a Capacity Block: its instances are drained before EC2 begins to terminate them",
			given:   func(w *world) { w.reserved = []string{"i-0ffffffffffffffff", instance} },
			message: (*world).block,
			steps:   []string{"mark until 9m55s", "drain node-1 until 9m55s", "exclude"},
			outcome: agent.Drained,
		},
		{
			name: "a reserved instance is taken back",
			message: func(w *world) queue.Message {
				return w.ofEC2("EC2 Capacity Reservation Instance Interruption Warning", `{"instance-id":"`+instance+
					`","instance-action":"terminate","instance-termination-time":"`+w.start.Add(time.Minute).UTC().Format(time.RFC3339)+`"}`)
			},
			steps:   []string{"mark until 55s", "drain node-1 until 55s", "exclude"},
			outcome: agent.Drained,
		},
		{
			name: "of what runs in no Capacity Reservation: forged",
			given: func(w *world) {
				w.ec2, w.reserved = is(ec2.Instance{State: runsOn}), []string{instance}
			},
			message: (*world).block,
			outcome: agent.Unconfirmed,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				if tt.given != nil {
					tt.given(w)
				}
				if err := w.agent().Handle(t.Context(), tt.message(w)); err != nil {
					t.Errorf("the message stays: %v", err)
				}
				w.wantSteps(t, tt.steps...)
				if tt.outcome != "" {
					w.wantOutcome(t, tt.outcome)
				} else if n := w.told("began"); n != 0 {
					t.Errorf("%d terminations were taken up", n)
				}
				if tt.told != "" && w.told(tt.told) != 1 {
					t.Errorf("not told %q: %q", tt.told, w.facts)
				}
			})
		})
	}
}

// TestNoticeWithoutAnAnswer: what cannot be confirmed holds no message for ever.
func TestNoticeWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	never := func(time.Duration) (ec2.Instance, error) { return ec2.Instance{}, errOutage }
	rebalance := func(w *world) queue.Message {
		return w.ofEC2("EC2 Instance Rebalance Recommendation", `{"instance-id":"`+instance+`"}`)
	}
	for _, tt := range []struct {
		name    string
		given   func(w *world)
		message func(w *world) queue.Message
		outcome agent.Outcome // of a termination that was taken up
		stays   bool          // the message, to come again
		took    time.Duration
	}{
		{
			name:    "without a deadline: over when the node has gone",
			given:   func(w *world) { w.ec2, w.leaves, w.deleted = never, time.Minute, true },
			message: rebalance, outcome: agent.Gone, took: time.Minute,
		},
		{
			name: "the API server is asked for a node that the watch does not show, until it answers",
			given: func(w *world) {
				w.ec2, w.leaves, w.deleted, w.lookupErrs = never, time.Minute, true, repeat(errOutage, 4)
			},
			message: rebalance, outcome: agent.Gone, took: 2 * time.Minute,
		},
		{
			name: "a node that only the watch does not show is there: confirmed, and drained",
			given: func(w *world) {
				w.leaves = time.Minute
				w.ec2 = func(after time.Duration) (ec2.Instance, error) {
					if after < 10*time.Minute {
						return ec2.Instance{}, errOutage
					}
					return ec2.Instance{State: runsOn, Spot: true}, nil
				}
			},
			message: rebalance, outcome: agent.Drained, took: 10 * time.Minute,
		},
		{
			name:    "a change that is called off: given back after HOOK_CONFIRM_TIMEOUT",
			given:   func(w *world) { w.scheduled = func(time.Duration) (bool, error) { return false, errOutage } },
			message: func(w *world) queue.Message { return w.health("closed", instance) },
			stays:   true, took: time.Minute,
		},
		{
			name:    "the end of a Capacity Block: the same",
			given:   func(w *world) { w.reservedErr = errOutage },
			message: (*world).block,
			stays:   true, took: time.Minute,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				w.cfg.Events.Rebalance = event.Drain
				tt.given(w)
				ctx, cancel := contextFor(t, time.Hour)
				defer cancel()
				err := w.agent().Handle(ctx, tt.message(w))
				if stays := err != nil; stays != tt.stays || errors.Is(err, errStopping) {
					t.Errorf("the message ended with %v", err)
				}
				if tt.outcome != "" {
					w.wantOutcome(t, tt.outcome)
				}
				if took := w.after(); took < tt.took || took > tt.took+30*time.Second {
					t.Errorf("took %v, want %v", took, tt.took)
				}
			})
		})
	}
}

// TestMerged: a Spot interruption amid the drain of a hook tightens that drain, and both end with it.
func TestMerged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.drainTakes = 10 * time.Minute
		a := w.agent()
		slow := make(chan error, 1)
		go func() { slow <- a.Handle(t.Context(), message("drain", w.start)) }()
		time.Sleep(10 * time.Second)
		if err := a.Handle(t.Context(), w.spotWarning()); err != nil {
			t.Error(err)
		}
		if err := <-slow; err != nil {
			t.Error(err)
		}
		wantSame(t, []string{"drain node-1 until 1h0m0s", "tighten node-1 until 1m55s"}, append(w.did("drain"), w.did("tighten")...))
		if took := w.after(); took < 115*time.Second || took > 2*time.Minute {
			t.Errorf("ended after %v", took)
		}
		if w.when("complete drain") < 0 || w.told("drained") == 0 {
			t.Errorf("steps %q, facts %q", w.did(""), w.facts)
		}
	})
}

// TestCanceled: a change that is called off stops its drain, and the node is put back into service. What
// another event has put on the node stays.
func TestCanceled(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		given  func(w *world)
		before func(w *world) queue.Message
		steps  []string
	}{
		{
			name:   "amid the drain",
			before: func(w *world) queue.Message { return w.health("upcoming", instance) },
			steps:  []string{"mark until 1h0m0s", "drain node-1 until 1h0m0s", "restore"},
		},
		{
			name:   "after the drain",
			given:  func(w *world) { w.drainTakes = time.Second },
			before: func(w *world) queue.Message { return w.health("upcoming", instance) },
			steps:  []string{"mark until 1h0m0s", "drain node-1 until 1h0m0s", "exclude", "restore"},
		},
		{
			name:  "of a node that was never marked",
			steps: []string{},
		},
		{
			name:   "amid the drain of a hook, which goes on",
			before: func(w *world) queue.Message { return message("drain", w.start) },
			steps:  []string{"hold drain", "mark until 1h0m0s", "drain node-1 until 1h0m0s"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				w.drainTakes = 10 * time.Minute
				w.scheduled = func(after time.Duration) (bool, error) { return after < time.Minute, nil }
				if tt.given != nil {
					tt.given(w)
				}
				a := w.agent()
				if tt.before != nil {
					go func() { _ = a.Handle(t.Context(), tt.before(w)) }()
				}
				time.Sleep(30 * time.Second)
				if err := a.Handle(t.Context(), w.health("closed", instance)); err != nil {
					t.Error(err)
				}
				if diff := cmp.Diff(tt.steps, w.did("")); diff != "" {
					t.Error(diff)
				}
				time.Sleep(time.Hour)
			})
		})
	}
}

// TestForgeryAmidADrain: a forged event must not put a node back into service that another one drains.
func TestForgeryAmidADrain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.drainTakes = 10 * time.Minute
		w.ec2 = is(ec2.Instance{State: runsOn})
		a := w.agent()
		go func() { _ = a.Handle(t.Context(), message("drain", w.start)) }()
		time.Sleep(10 * time.Second)
		if err := a.Handle(t.Context(), w.spotWarning()); err != nil {
			t.Error(err)
		}
		w.wantSteps(t, "hold drain", "mark until 1h0m0s", "drain node-1 until 1h0m0s")
		time.Sleep(time.Hour)
	})
}

// TestDeadInstance: nobody will say that the pods of an instance that is gone have stopped.
func TestDeadInstance(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		ready bool
		ec2   ec2.Instance
		until string
	}{
		{"a node that is not Ready, on an instance that is terminated", false, ec2.Instance{State: "terminated"}, "0s"},
		{"a node that is not Ready, on an instance that runs", false, ec2.Instance{State: runsOn}, "1h0m0s"},
		{"a node that is Ready is not asked about", true, ec2.Instance{State: "terminated"}, "1h0m0s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				w.node.Ready, w.ec2 = tt.ready, is(tt.ec2)
				if err := w.handle(t.Context(), "drain"); err != nil {
					t.Error(err)
				}
				if got := w.did("drain"); len(got) != 1 || got[0] != "drain node-1 until "+tt.until {
					t.Errorf("got %q", got)
				}
			})
		})
	}
}

// TestHookOfADrainedNode: a pod may have come to a node after it was drained for another event, by a scheduler that
// had yet to see the taint. A hook is completed on a proof of its own.
func TestHookOfADrainedNode(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.report = drain.Report{Took: time.Second}
		a := w.agent()
		for _, m := range []queue.Message{w.spotWarning(), w.spotWarning(), message("drain", w.start)} {
			if err := a.Handle(t.Context(), m); err != nil {
				t.Error(err)
			}
		}
		if got := w.did("drain"); len(got) != 2 || w.when("complete") < w.when("drain") {
			t.Errorf("steps %q", w.did(""))
		}
		if n := w.told("drained"); n != 1 {
			t.Errorf("an end without a pod was told %d times", n)
		}
	})
}

// TestNoticeOfADrainedNode: an instance that its hook has let go is shut down, and EC2 tells of that too.
func TestNoticeOfADrainedNode(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.ec2 = is(ec2.Instance{State: "shutting-down"})
		a := w.agent()
		for _, m := range []queue.Message{message("drain", w.start), w.stateChange("shutting-down")} {
			if err := a.Handle(t.Context(), m); err != nil {
				t.Error(err)
			}
		}
		if len(w.did("drain")) != 1 || w.told("ignored state-change of "+instance+": the node has been drained") != 1 {
			t.Errorf("steps %q, facts %q", w.did(""), w.facts)
		}
	})
}

// TestDeadInstanceWithoutANode: the hook of an instance that was terminated at the console comes when its Node
// may have gone; none will come any more.
func TestDeadInstanceWithoutANode(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.registers, w.ec2 = never, is(ec2.Instance{State: "terminated"})
		if err := w.handle(t.Context(), "drain"); err != nil {
			t.Error(err)
		}
		w.wantSteps(t, "hold drain", "look up", "let go of drain", "complete drain with CONTINUE")
		w.wantOutcome(t, agent.Unregistered)
		if took := w.after(); took > time.Second {
			t.Errorf("took %v", took)
		}
	})
}

// TestHookOfOthers: hooks that HOOK_NAMES does not list are not touched.
func TestHookOfOthers(t *testing.T) {
	t.Parallel()
	w := newWorld()
	if err := w.handle(t.Context(), "not-ours"); err != nil {
		t.Error(err)
	}
	w.wantSteps(t)
}

// TestDryRun: everything is decided, nothing is changed, and the message goes back when the agent stops.
func TestDryRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.cfg.DryRun = true
		for _, m := range []queue.Message{message("drain", w.start), w.spotWarning(), w.health("closed", instance)} {
			ctx, cancel := contextFor(t, time.Hour)
			if err := w.agent().Handle(ctx, m); !errors.Is(err, errStopping) {
				t.Errorf("the message ended with %v", err)
			}
			cancel()
		}
		wantSame(t, []string{"drain node-1 until 1h0m0s"}, w.did("")[:1])
		for _, step := range w.did("") {
			if !strings.HasPrefix(step, "drain node-1") {
				t.Errorf("the dry run did this: %s", step)
			}
		}
		if w.told("ended drained") == 0 || w.node.Mark.Since != (node.Mark{}).Since {
			t.Errorf("facts: %q", w.facts)
		}
	})
}
