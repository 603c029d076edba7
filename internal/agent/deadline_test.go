package agent_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/node-drainer/node-drainer/internal/agent"
	"github.com/node-drainer/node-drainer/internal/autoscaling"
	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/pkg/queue"
)

func TestDeadline(t *testing.T) {
	t.Parallel()
	const m = time.Minute
	happened := func(after time.Duration) source {
		return func(f *fixture) queue.Message { return message("drain", f.start.Add(after)) }
	}
	undated := func(sent func(*fixture) time.Time) source {
		return func(f *fixture) queue.Message {
			return queue.Message{ID: "m", Body: body("drain", ""), SentAt: sent(f)}
		}
	}
	for _, tt := range []struct {
		name    string
		given   given
		message source
		want    string
	}{
		{"the hook's, counted from the event, is the earliest", timeout("drain", 50*m), happened(-10 * m), "40m0s"},
		{"the configured one, counted from now, is the earliest", timeout("drain", 120*m), happened(-10 * m), "1h0m0s"},
		{
			"an event without a time counts from when it was sent", timeout("drain", 10*m),
			undated(func(f *fixture) time.Time { return f.start.Add(-5 * m) }), "5m0s",
		},
		{
			"an event without any time counts from now", timeout("drain", 10*m),
			undated(func(*fixture) time.Time { return time.Time{} }), "10m0s",
		},
		{
			"a node that an earlier process has cordoned keeps its deadline",
			cordoned("", -m, 20*m, 0), happened(0), "20m0s",
		},
		{
			"a node that is not Ready, on a terminated instance, has no time",
			with(notReady, ec2State("terminated")), happened(0), "0s",
		},
		{"a node that is not Ready, on a running instance, has all the time", notReady, happened(0), "1h0m0s"},
		{"the hook's cannot be read for a minute: the shortest possible", fails("deadline", 1000, errOutage), happened(0), "50m0s"},
		{"EC2 is not asked about a node that is Ready", ec2State("terminated"), happened(0), "1h0m0s"},
	} {
		each(t, tt.name, tt.given, func(t *testing.T, f *fixture) {
			mustHandle(t, f, f.agent(), tt.message)
			if got := f.did("drain"); len(got) != 1 || got[0] != "drain node-1 until "+tt.want {
				t.Errorf("drained as %q, want one until %s", got, tt.want)
			}
		})
	}
}

func (f autoScaling) ShortestDeadline(_ autoscaling.Action, began time.Time) time.Time {
	return began.Add(50 * time.Minute)
}

func TestRegistrationTimeoutCountsFromTheEvent(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ event, want time.Duration }{
		"an event of now":                                 {0, 5 * time.Minute},
		"an event of two minutes ago":                     {-2 * time.Minute, 3 * time.Minute},
		"an event of an hour ago":                         {-time.Hour, 0},
		"an event of the year after next counts from now": {2 * 365 * 24 * time.Hour, 5 * time.Minute},
	} {
		each(t, name, registers(100*365*24*time.Hour), func(t *testing.T, f *fixture) {
			if err := f.agent().Handle(t.Context(), message("drain", f.start.Add(tt.event))); err != nil {
				t.Error(err)
			}
			f.wantOutcome(t, agent.Unregistered)
			if f.after() != tt.want || f.observed("awaited") != 1 {
				t.Errorf("awaited for %v, want %v", f.after(), tt.want)
			}
		})
	}
}

// TestDrainOfACordonedNode: the drain of a node that was cordoned hours before counts from its first deadline.
func TestDrainOfACordonedNode(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, f *fixture) {
		f.cfg.Events.ScheduledChange = event.Cordon
		a := f.agent()
		mustHandle(t, f, a, maintenance)
		f.wantOutcome(t, agent.Cordoned)
		time.Sleep(5 * time.Hour)
		mustHandle(t, f, a, termination)
		if since := f.since.Sub(f.start); since != 5*time.Hour {
			t.Errorf("the time of the drain counts from %v", since)
		}
	})
}

// TestLateMessage: a resync does not know when an action began, except that no heartbeat was due yet. A message that an
// earlier process has received knows: that process may have sent heartbeats. The drain ends in time for its hook, and
// one heartbeat and one completion are enough.
func TestLateMessage(t *testing.T) {
	hour := timeout("drain", time.Hour)
	inBubble(t, with(inGroup(terminating, "drain"), hour), func(t *testing.T, f *fixture) {
		f.heartbeat, f.drainTakes = 5*time.Minute, 8*time.Minute
		a := f.agent()
		go func() {
			time.Sleep(time.Minute)
			m := message("drain", f.start.Add(-20*time.Minute))
			m.Receives = 2
			_ = a.Handle(t.Context(), m)
		}()
		resync(t, a, 10*time.Minute)
		want := []string{
			"cordon until 55m0s", "cordon until 40m0s", "tighten node-1 until 40m0s", "hold drain",
			"complete drain with CONTINUE",
		}
		got := slices.Concat(f.did("cordon"), f.did("tighten"), f.did("hold"), f.did("complete"))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		f.wantOutcome(t, agent.Drained)
	})
}

// TestLateMessageWithoutNode: the time to register counts from the message, also if that arrives when a resync has found
// the instance before.
func TestLateMessageWithoutNode(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ event, want time.Duration }{
		"an event of two minutes before": {-2 * time.Minute, 3 * time.Minute},
		"an event of an hour before":     {-time.Hour, time.Minute},
		"an event of a minute after":     {time.Minute, 5 * time.Minute},
	} {
		each(t, name, with(noNode, inGroup(terminating, "drain")), func(t *testing.T, f *fixture) {
			a := f.agent()
			go func() {
				time.Sleep(time.Minute)
				_ = a.Handle(t.Context(), message("drain", f.start.Add(tt.event)))
			}()
			resync(t, a, 6*time.Minute)
			f.wantOutcome(t, agent.Unregistered)
			if got := f.when("complete drain with CONTINUE"); got != tt.want || len(f.did("hold")) != 1 {
				t.Errorf("completed after %v, want %v: %q", got, tt.want, f.did(""))
			}
		})
	}
}

// TestLaunchWithoutTheTimeoutsOfItsHook: the launch does not wait for them for ever.
func TestLaunchWithoutTheTimeoutsOfItsHook(t *testing.T) {
	inBubble(t, with(launching, fails("deadline", 1000, errOutage)), func(t *testing.T, f *fixture) {
		mustHandle(t, f, f.agent(), launchTo("AutoScalingGroup"))
		if f.observed("launch ended ready") != 1 || f.after() > 3*time.Minute {
			t.Errorf("after %v: %q", f.after(), f.did(""))
		}
	})
}
