package agent_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/node-drainer/node-drainer/internal/agent"
	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/internal/node"
	"github.com/node-drainer/node-drainer/pkg/queue"
)

// lead has nodes drained a day before their maintenance. The instance of the fixture has its in two days.
func lead(f *fixture) {
	f.cfg.Events.ScheduledChangeLead = 24 * time.Hour
	inGroup(inService)(f)
}

// TestMaintenance: what happens within three days of the announcement, which arrives a minute after the start.
func TestMaintenance(t *testing.T) {
	t.Parallel()
	const announced = "announce maintenance at 48h0m0s"
	drained := drainedWithoutHook("47h59m55s")
	cordonOnly := func(f *fixture) { f.cfg.Events.ScheduledChange = event.Cordon }
	for _, tt := range []struct {
		name   string
		given  given
		second source        // in the second hour
		stops  time.Duration // the process, and another one continues; 0: none does
		steps  []string
		starts time.Duration // of the drain; 0: there is none
		fact   string
	}{
		{
			name: "drained a day before", steps: append([]string{announced}, drained...), starts: 24*time.Hour - 5*time.Second,
			fact: "postponed until 23h59m55s, busy false",
		},
		{
			name: "a restart forgets nothing", stops: 12 * time.Hour, steps: append([]string{announced}, drained...),
			starts: 24*time.Hour - 5*time.Second, fact: "ended postponed",
		},
		{
			name: "nothing runs when the drain is due", stops: 12 * time.Hour,
			given:  with(func(f *fixture) { f.restartsAfter = 30 * time.Hour }),
			steps:  append([]string{announced}, drained...),
			starts: 42 * time.Hour,
		},
		{
			name: "nothing runs until the maintenance has begun: drained within DRAIN_TIMEOUT", stops: 12 * time.Hour,
			given:  with(func(f *fixture) { f.restartsAfter = 40 * time.Hour }),
			steps:  append([]string{announced}, drainedWithoutHook("53h0m0s")...),
			starts: 52 * time.Hour,
		},
		{name: "cordoned a day before", given: cordonOnly, steps: []string{announced, "cordon"}},
		{
			name: "canceled", second: canceledMaintenance, given: scheduled(changes(true, 90*time.Minute, false)),
			steps: []string{announced, "end maintenance"},
			fact:  "drain canceled: the maintenance of instance " + instance + " was canceled, or is complete",
		},
		{
			name: "canceled while the cache does not show the announcement", second: canceledMaintenance,
			given: with(func(f *fixture) { f.lags = true }, scheduled(changes(true, 90*time.Minute, false))),
			steps: []string{announced, "end maintenance"}, fact: "ended canceled",
		},
		{
			name:  "canceled without a message: found before the drain",
			given: scheduled(changes(true, 10*time.Hour, false)), steps: []string{announced, "end maintenance"},
			fact: "ended canceled",
		},
		{
			name: "its hook has the node drained at once", second: termination,
			given: with(inState(terminating), func(f *fixture) {
				f.members = changes(member(inService), 2*time.Hour, member(terminating))
				f.leaves = 3 * time.Hour
			}),
			steps: append([]string{announced}, drainedBy("3h0m0s")...), starts: 2 * time.Hour,
		},
		{
			name: "a Spot interruption has the node drained at once", given: func(f *fixture) { f.leaves = 2*time.Hour + time.Minute },
			second: func(f *fixture) queue.Message {
				return spotWarning(&fixture{start: f.start.Add(2 * time.Hour)})
			},
			steps:  append([]string{announced}, drainedWithoutHook("2h1m55s")...),
			starts: 2 * time.Hour,
		},
		{
			name: "the announcement cannot be written at first", given: fails("announce", 3, errOutage),
			steps: append([]string{announced}, drained...), starts: 24*time.Hour - 5*time.Second,
		},
		{name: "EC2 contradicts the announcement", given: scheduled(always(false)), fact: "ended unconfirmed"},
		{
			name: "drained at once if less than DRAIN_TIMEOUT is left", given: func(f *fixture) { f.start = f.start.Add(-47 * time.Hour) },
			steps: drained, starts: 47*time.Hour + time.Minute,
		},
	} {
		each(t, tt.name, with(lead, tt.given), func(t *testing.T, f *fixture) {
			a, begun := f.agent(), time.Now()
			go func() {
				time.Sleep(time.Minute)
				mustHandle(t, f, a, maintenance)
			}()
			if tt.second != nil {
				go func() {
					time.Sleep(2*time.Hour - f.after())
					mustHandle(t, f, a, tt.second)
				}()
			}
			if tt.stops > 0 {
				resync(t, a, tt.stops)
				time.Sleep(f.restartsAfter)
				a = f.agent()
			}
			resync(t, a, 72*time.Hour-time.Since(begun))
			synctest.Wait()
			f.wantSteps(t, tt.steps...)
			if at := f.when("drain"); tt.starts > 0 && (at < tt.starts || at > tt.starts+time.Minute) {
				t.Errorf("the drain started after %v, want %v", at, tt.starts)
			}
			if tt.fact != "" && f.observed(tt.fact) != 1 {
				t.Errorf("%q was not observed once: %q", tt.fact, f.facts)
			}
		})
	}
}

// TestMessageOfPostponedMaintenance: the message does not stay in flight for days.
func TestMessageOfPostponedMaintenance(t *testing.T) {
	inBubble(t, lead, func(t *testing.T, f *fixture) {
		mustHandle(t, f, f.agent(), maintenance)
		if f.after() > time.Second {
			t.Errorf("the message was done after %v", f.after())
		}
		f.wantOutcome(t, agent.Postponed)
	})
}

// TestAnnouncementOnADeletedNode: the message is done with if the node is gone, and if the instance has registered again
// the announcement is on its new Node.
func TestAnnouncementOnADeletedNode(t *testing.T) {
	t.Parallel()
	gone := fails("announce", 1, node.ErrGone)
	for _, tt := range []struct {
		name    string
		given   given
		outcome agent.Outcome
	}{
		{"deleted", with(gone, deleted), agent.Unregistered},
		{"registered again", gone, agent.Postponed},
	} {
		each(t, tt.name, with(lead, tt.given), func(t *testing.T, f *fixture) {
			mustHandle(t, f, f.agent(), maintenance)
			f.wantOutcome(t, tt.outcome)
			if f.after() > time.Minute {
				t.Errorf("took %v", f.after())
			}
		})
	}
}

func (f nodes) Announce(ctx context.Context, _ node.Node, startsAt time.Time) error {
	_, err := f.try("announce", "announce maintenance at %v", startsAt.Sub(f.start).Round(time.Second))
	if err == nil && f.lags {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	if err == nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.node.Maintenance = startsAt
	}
	return err
}

func (f nodes) EndMaintenance(context.Context, node.Node) error {
	if !slices.ContainsFunc(f.did(""), isAnnouncement) && f.node.Maintenance.IsZero() {
		return nil
	}
	_, err := f.try("end maintenance", "end maintenance")
	if err == nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.node.Maintenance = time.Time{}
	}
	return err
}

func isAnnouncement(step string) bool { return strings.HasPrefix(step, "announce") }

func (f observer) DrainPostponed(_ node.Node, p node.Postponement) {
	if p.Maintenance.IsZero() {
		f.fact("postponed, busy %v, no room %v", p.Busy, p.NoRoom)
		return
	}
	f.fact("postponed until %v, busy %v", p.Until.Sub(f.start), p.Busy)
}
