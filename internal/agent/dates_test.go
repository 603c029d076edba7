package agent_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/internal/ec2"
	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/pkg/queue"
)

// datedAt returns the message with another time of the event, as whoever can write to the queue may send it.
func datedAt(m source, at string) source {
	return func(f *fixture) queue.Message {
		out := m(f)
		out.SentAt = time.Now()
		before, rest, _ := strings.Cut(string(out.Body), `"Time":"`)
		_, after, _ := strings.Cut(rest, `"`)
		out.Body = []byte(before + `"Time":"` + at + `"` + after)
		return out
	}
}

// TestForgedTimeOfATermination: no message makes the time of a drain shorter than Auto Scaling's own rules allow: the
// action began at most a heartbeat timeout before it was first seen.
func TestForgedTimeOfATermination(t *testing.T) {
	t.Parallel()
	const m = time.Minute
	sent := func(ago time.Duration, receives int) source {
		return func(f *fixture) queue.Message {
			out := message("drain", f.start.Add(-ago))
			out.Receives = receives
			return out
		}
	}
	for _, tt := range []struct {
		name    string
		given   given
		message source
		want    string
	}{
		{"1970", nil, datedAt(termination, "1970-01-01T00:00:01Z"), "55m0s"},
		{"sent long before the instance terminates", nil, sent(50*m, 1), "55m0s"},
		{"sent before the hook's whole time", nil, sent(48*time.Hour, 1), "55m0s"},
		{"a message that an earlier process has received", nil, sent(20*m, 2), "40m0s"},
		{
			"a message that an earlier process has received, longer ago than the hook can hold",
			nil, sent(48*time.Hour, 2), "1h0m0s",
		},
		{
			"an earlier process has cordoned the node", func(f *fixture) {
				cordoned("lifecycle-terminating", -10*m, 50*m, 0)(f)
				f.node.Mark.Hook, f.node.Mark.Token = "workers/drain", "token-drain"
			}, sent(20*m, 1), "50m0s",
		},
		{
			"the node is cordoned for another action", func(f *fixture) {
				cordoned("lifecycle-terminating", -10*m, 59*m, 0)(f)
				f.node.Mark.Hook, f.node.Mark.Token = "workers/drain", "another"
			}, sent(20*m, 1), "55m0s",
		},
		{
			"the node is cordoned for maintenance since long before the action", func(f *fixture) {
				cordoned("scheduled-change", -20*m, 59*m, time.Hour)(f)
				f.node.Mark.Hook, f.node.Mark.Token = "workers/drain", "token-drain"
			}, sent(20*m, 1), "55m0s",
		},
	} {
		each(t, tt.name, with(timeout("drain", time.Hour), tt.given), func(t *testing.T, f *fixture) {
			f.heartbeat = 5 * m
			mustHandle(t, f, f.agent(), tt.message)
			if got := f.did("drain"); len(got) != 1 || got[0] != "drain node-1 until "+tt.want {
				t.Errorf("drained as %q, want one until %s", got, tt.want)
			}
		})
	}
}

// TestForgedCopyDuringADrain: a copy that says that the action began long ago does not tighten the drain.
func TestForgedCopyDuringADrain(t *testing.T) {
	inBubble(t, timeout("drain", 100*time.Minute), func(t *testing.T, f *fixture) {
		a := f.agent()
		var genuine sync.WaitGroup
		genuine.Go(func() { mustHandle(t, f, a, termination) })
		time.Sleep(5 * time.Second)
		mustHandle(t, f, a, datedAt(termination, "1970-01-01T00:00:01Z"))
		genuine.Wait()
		f.wantSteps(t, drainedBy("1h0m0s")...)
	})
}

// handleInTurn has an agent receive a message every ten seconds, and returns when it has handled all of them.
func handleInTurn(t *testing.T, f *fixture, messages []source) {
	t.Helper()
	a := f.agent()
	var handled sync.WaitGroup
	for _, one := range messages {
		handled.Go(func() { mustHandle(t, f, a, one) })
		time.Sleep(10 * time.Second)
	}
	handled.Wait()
}

// TestForgedTimeOfALaunch: a launch has the time that counts from when EC2 launched the instance, whatever a message
// says that is sent before the genuine one, or after it.
func TestForgedTimeOfALaunch(t *testing.T) {
	t.Parallel()
	const m = time.Minute
	forged := datedAt(launchTo(""), "1970-01-01T00:00:01Z")
	old := func(f *fixture) queue.Message { return launchMessage("", f.start.Add(-24*time.Hour)) }
	for name, messages := range map[string][]source{
		"sent first": {forged, launchTo("")}, "sent later": {launchTo(""), forged}, "sent long before": {old, launchTo("")},
	} {
		launched := func(f *fixture) {
			f.ec2 = always(ec2.Instance{State: running, Launched: f.start.Add(-30 * time.Second)})
		}
		each(t, name, with(launching, launched, readyAt(14*m)), func(t *testing.T, f *fixture) {
			handleInTurn(t, f, messages)
			if at := f.when("complete launch with CONTINUE"); at != 14*m {
				t.Errorf("completed with CONTINUE after %v, want %v; steps %q", at, 14*m, f.did(""))
			}
		})
	}
}

// TestForgedCopyOfALaunchAfterARestart: a copy that says that the launch began later gives it no more time than its own
// message, in whatever order an agent that has just started receives them.
func TestForgedCopyOfALaunchAfterARestart(t *testing.T) {
	t.Parallel()
	const m = time.Minute
	genuine := func(f *fixture) queue.Message { return launchMessage("", f.start.Add(-8*m)) }
	later, future := at(launchTo(""), 0), datedAt(launchTo(""), "2100-01-01T00:00:01Z")
	for name, messages := range map[string][]source{
		"now":             {genuine, later},
		"now, first":      {later, genuine},
		"in the future":   {genuine, future},
		"long before":     {genuine, datedAt(launchTo(""), "1970-01-01T00:00:01Z")},
		"before and soon": {later, genuine, future},
	} {
		launched := func(f *fixture) {
			f.ec2 = always(ec2.Instance{State: running, Launched: f.start.Add(-9 * m)})
		}
		each(t, name, with(launching, launched, readyAt(never)), func(t *testing.T, f *fixture) {
			f.drainTakes = 0
			handleInTurn(t, f, messages)
			if took := f.when("complete launch with ABANDON"); took != 7*m {
				t.Errorf("abandoned after %v, want %v; steps %q", took, 7*m, f.did(""))
			}
		})
	}
}

func (f instances) Scheduled(context.Context, string) (s ec2.Schedule, err error) {
	s.NotBefore = f.notBefore
	s.Any, err = f.scheduled(f.after())
	return s, err
}

// at returns the message that a forger sends now with the times that a genuine one had so long ago.
func at(m source, ago time.Duration) source {
	return func(f *fixture) queue.Message {
		forged := m(&fixture{start: f.start.Add(-ago)})
		forged.SentAt = time.Now()
		return forged
	}
}

// TestForgedStartOfMaintenance: EC2 says when it starts, and a message only that something is scheduled.
func TestForgedStartOfMaintenance(t *testing.T) {
	t.Parallel()
	soon := at(maintenance, 48*time.Hour-20*time.Second) // in 20 s
	for _, tt := range []struct {
		name  string
		given given
		steps []string
	}{
		{"it is days ahead", nil, []string{"announce maintenance at 48h0m0s"}},
		{
			"EC2 does not answer at first: postponed",
			scheduled(silent(3*time.Second, true)),
			[]string{"cordon", "announce maintenance at 48h0m0s"},
		},
		{
			"EC2 does not answer for long, and the node is announced for later",
			with(scheduled(silent(time.Hour, true)), func(f *fixture) { f.node.Maintenance = f.start.Add(48 * time.Hour) }),
			[]string{"announce maintenance at 48h0m0s"},
		},
		{
			"EC2 does not answer for long, and the node is being drained for later",
			with(scheduled(silent(time.Hour, true)),
				cordoned(event.ScheduledChange, -time.Minute, 48*time.Hour-5*time.Second, 48*time.Hour)),
			append([]string{"cordon"}, drainedWithoutHook("47h59m55s")...),
		},
		{
			"EC2 does not say when", func(f *fixture) { f.notBefore = time.Time{} },
			drainedWithoutHook("15s"),
		},
		{
			"it has begun: no reason to delete pods", func(f *fixture) { f.notBefore = f.start.Add(-time.Hour) },
			drainedWithoutHook("1h0m0s"),
		},
	} {
		given := with(lead, func(f *fixture) { f.notBefore = f.start.Add(48 * time.Hour) }, tt.given)
		each(t, tt.name, given, func(t *testing.T, f *fixture) {
			mustHandle(t, f, f.agent(), soon)
			f.wantSteps(t, tt.steps...)
		})
	}
}

// TestForgedTimeOfANotice: an instance has half of the shortest notice that AWS gives, from when SQS has received the
// message.
func TestForgedTimeOfANotice(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		message source
		marked  time.Duration // how long ago EC2 has marked the Spot request; it does not say if zero
		want    string
	}{
		{"Spot interruption", at(spotWarning, 90*time.Second), 0, "55s"},
		{"Spot interruption, and EC2 says when it was announced", at(spotWarning, 90*time.Second), time.Second, "1m54s"},
		{"late Spot interruption, and EC2 says when it was announced", spotWarning, 90 * time.Second, "25s"},
		{"Spot interruption that EC2 shows late", spotWarning, -5 * time.Second, "1m55s"},
		{"interruption of a reservation", at(reservationInterruption, time.Hour), 0, "55s"},
		{"end of a Capacity Block", at(capacityBlock, 20*time.Minute), 0, "4m55s"},
	} {
		given := func(f *fixture) {
			if f.state, f.reserved = always(inService), []string{instance}; tt.marked != 0 {
				f.spotSince = f.start.Add(-tt.marked)
			}
		}
		each(t, tt.name, given, func(t *testing.T, f *fixture) {
			mustHandle(t, f, f.agent(), tt.message)
			if got := f.did("drain"); len(got) != 1 || got[0] != "drain node-1 until "+tt.want {
				t.Errorf("drained as %q, want one until %s", got, tt.want)
			}
		})
	}
}
