package drain

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// TestDecideHeld: while a person has paused the drain, no pod is evicted or asked, but the deadline holds.
func TestDecideHeld(t *testing.T) {
	until := func(end time.Duration) given {
		return given{
			policy: func(p *Policy) { p.HandOverTimeout = m },
			state:  func(s *State) { s.HoldUntil, s.TierSince = at(end), map[int]time.Time{0: t0} },
		}
	}
	until(2*m).expect(t, "no pod is evicted, asked or restarted", m,
		"wait a held, b held, c held; again 2m0s", pod("a"), pod("b", annotated()), pod("c", restarts()))
	until(2*m).expect(t, "after the pause", 2*m, "evict a", pod("a"))
	until(2*m).expect(t, "a terminating pod is waited for", m, "wait a terminating; again 10m0s", pod("a", terminating(90*s)))
	until(2*m).expect(t, "a pod that would return waits, too", 119*s, "wait a held; again 2m0s", pod("a", func(p *Pod) { p.Brief = true }))
	until(time.Hour).expect(t, "a pod that must be removed is removed", 9*m, "evict a in 1m0s", pod("a", grace(m)))
	ends := given{state: func(s *State) { s.EndNow = true }}
	ends.expect(t, "a drain that a person ends leaves all pods", m, "wait a blocked-by-budget x/none, b terminating; done",
		pod("a", budgeted("x/none")), pod("b", terminating(90*s)))
	ends.expect(t, "also an empty one, which would wait for others", s, "done")
}

// TestControls: a drain follows what a person asks for while it runs, within what AWS allows.
func TestControls(t *testing.T) {
	const timeout = 10 * time.Minute
	type change struct {
		after time.Duration
		to    func(*cluster) Controls
	}
	deadline := func(d time.Duration) func(*cluster) Controls {
		return func(c *cluster) Controls { return Controls{Deadline: c.since.Add(d)} }
	}
	end := func(*cluster) Controls { return Controls{EndNow: true} }
	none := func(*cluster) Controls { return Controls{} }
	hold := func(d time.Duration) func(*cluster) Controls {
		return func(c *cluster) Controls { return Controls{HoldUntil: c.since.Add(d)} }
	}
	for _, tt := range []struct {
		name    string
		blocked bool
		changes []change
		latest  time.Duration
		tighter time.Duration // what a Spot warning allows, a minute after the start
		want    time.Duration // the end of the drain
		left    int
	}{
		{name: "a pause", changes: []change{{0, hold(3 * time.Minute)}}, want: 3*time.Minute + 30*time.Second},
		{
			name: "a pause that is ended", changes: []change{{0, hold(8 * time.Minute)}, {time.Minute, none}},
			want: time.Minute + 30*time.Second,
		},
		{name: "a pause beyond the deadline", changes: []change{{0, hold(time.Hour)}}, want: timeout},
		{name: "an earlier deadline", blocked: true, changes: []change{{time.Minute, deadline(4 * time.Minute)}}, want: 4 * time.Minute},
		{
			name: "a later deadline", blocked: true, changes: []change{{time.Minute, deadline(20 * time.Minute)}},
			latest: time.Hour, want: 20 * time.Minute,
		},
		{
			name: "a later deadline than AWS allows", blocked: true, changes: []change{{time.Minute, deadline(20 * time.Hour)}},
			latest: 15 * time.Minute, want: 15 * time.Minute,
		},
		{
			name: "a later deadline, and a Spot warning", blocked: true, changes: []change{{0, deadline(20 * time.Minute)}},
			latest: time.Hour, tighter: 3 * time.Minute, want: 3 * time.Minute,
		},
		{
			name: "a later deadline that is withdrawn", blocked: true,
			changes: []change{{0, deadline(20 * time.Minute)}, {time.Minute, none}}, latest: time.Hour, want: timeout,
		},
		{name: "a deadline before the drain", blocked: true, changes: []change{{time.Minute, deadline(-time.Hour)}}, want: timeout},
		{name: "the end", blocked: true, changes: []change{{2 * time.Minute, end}}, want: 2 * time.Minute, left: 1},
	} {
		virtual(t, tt.name, func(t *testing.T) {
			c := newCluster(t)
			app := ""
			if tt.blocked {
				app = "app"
				c.addBudget(app, 1, 0)
			}
			c.addPod("n", "pod", app, gracePeriod(30))
			c.start(withConfig(usual))
			target, tighter := c.target("n", timeout), make(chan time.Time, 1)
			target.Tighter = tighter
			if tt.latest > 0 {
				target.Latest = c.since.Add(tt.latest)
			}
			for _, one := range tt.changes {
				time.AfterFunc(one.after, func() {
					c.control.Store(new(one.to(c)))
					c.drainer.NodeChanged("n")
				})
			}
			if tt.tighter > 0 {
				time.AfterFunc(time.Minute, func() { tighter <- c.since.Add(tt.tighter) })
			}
			time.Sleep(time.Millisecond) // the first control is there
			report, err := c.drainTarget(c.ctx, target)()
			took := time.Since(c.since)
			if err != nil || len(report.Left) != tt.left || took < tt.want-time.Second || took > tt.want+3*time.Second {
				t.Errorf("it took %v, want %v; %d pods left; %v", took, tt.want, len(report.Left), err)
			}
			said := 0
			for _, line := range c.log {
				if strings.HasPrefix(line, "controlled") {
					said++
				}
			}
			if said != len(tt.changes) {
				t.Errorf("%d changes of %d were reported: %v", said, len(tt.changes), slices.Compact(c.log))
			}
		})
	}
}
