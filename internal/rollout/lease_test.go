package rollout_test

import (
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/rollout/hold"
	"github.com/node-drainer/node-drainer/pkg/refresh"
	"github.com/node-drainer/node-drainer/test/awsim"
)

const other = "ci-2/7" // another trigger

// leased has a trigger write its lease.
func (w *world) leased(holder string, expires time.Duration) {
	w.tag(refresh.LeaseTag, refresh.Lease{Holder: holder, Expires: time.Now().Add(expires)}.String())
}

// works has another trigger renew its lease.
func (w *world) works() {
	w.leased(other, time.Minute)
	w.after(20*time.Second, w.works)
}

// TestLease: two triggers never replace instances of a group at the same time. A lease that its holder renews is a
// conflict; one of a trigger that was killed is waited for.
func TestLease(t *testing.T) {
	killed := func(expires time.Duration, more func(w *world)) func(w *world) {
		return func(w *world) {
			if w.leased(other, expires); more != nil {
				more(w)
			}
		}
	}
	current := func(w *world) { w.cfg.Version = "1" }
	for name, tt := range map[string]struct {
		scenario
		least time.Duration
		left  string // the holder of the lease at the end
	}{
		"no other trigger": {scenario{want: report.Done, calls: markAll}, 0, ""},
		"another trigger renews its lease": {
			scenario{before: (*world).works, want: report.Conflict, words: other}, 0, other,
		},
		"another trigger was killed": {
			scenario{before: killed(30*time.Second, nil), want: report.Done, calls: markAll}, time.Minute, "",
		},
		"another trigger renews its lease more seldom than this one would": {
			scenario{
				before: func(w *world) { w.cfg.PollInterval = time.Second; w.works() },
				want:   report.Conflict, words: other,
			}, 0, other,
		},
		"another trigger was killed, and what it had started has replaced all": {
			scenario{
				mode: refresh.ModeRefresh, before: killed(time.Minute, func(w *world) {
					w.cfg.RaiseMax = true
					for _, name := range []string{"i-1", "i-2", "i-3"} {
						w.health(name, "Unhealthy")
					}
				}),
				want: report.Done, words: "3 instances replaced",
			}, time.Minute, "",
		},
		"another trigger was killed yesterday": {
			scenario{before: killed(-24*time.Hour, nil), want: report.Done, calls: markAll}, 0, "",
		},
		"another trigger ends": {
			scenario{before: killed(time.Minute, func(w *world) {
				w.after(8*time.Second, func() { w.tag(refresh.LeaseTag, "") })
			}), want: report.Done, calls: markAll}, 0, "",
		},
		"another trigger has written its lease at the same time": {
			scenario{before: func(w *world) {
				w.after(time.Second, func() { w.leased(other, time.Minute) })
			}, want: report.Conflict, words: other}, 0, other,
		},
		"another trigger begins while pods are listed": {
			scenario{before: func(w *world) {
				w.nodes.loadsTake = 10 * time.Second
				w.after(5*time.Second, func() { w.leased(other, time.Minute) })
				w.after(20*time.Second, func() { w.leased(other, time.Minute) })
			}, want: report.Conflict, words: other}, 0, other,
		},
		"another trigger takes the lease during a batch": {
			scenario{before: func(w *world) {
				w.cfg.Pace.Between = time.Hour
				w.after(time.Minute, func() { w.leased(other, time.Hour) })
			}, want: report.Conflict, words: other, calls: "Mark i-1"}, 0, other,
		},
		"nothing is outdated, and another trigger renews its lease": {
			scenario{before: func(w *world) { current(w); w.works() }, want: report.Nothing}, 0, other,
		},
		"nothing is outdated, and another trigger was killed": {
			scenario{before: killed(time.Minute, current), want: report.Nothing}, time.Minute, "",
		},
	} {
		inWorld(t, name, awsim.Group{}, func(w *world) {
			w.setMode(refresh.ModeUnhealthy)
			w.setMode(tt.mode)
			start := time.Now()
			w.play(tt.scenario)
			if left, _ := refresh.LeaseOf(refresh.Group{Tags: w.Tags(w.group)}); left.Holder != tt.left {
				w.Errorf("the lease is left to %q, want %q", left.Holder, tt.left)
			}
			if took := time.Since(start); took < tt.least {
				w.Errorf("it took %v, want at least %v", took, tt.least)
			}
		})
	}
}

// TestLeaseIsRenewed: the lease never expires during a rollout.
func TestLeaseIsRenewed(t *testing.T) {
	inWorld(t, "", awsim.Group{}, func(w *world) {
		w.setMode(refresh.ModeUnhealthy)
		w.cfg.Pace.Between = 3 * time.Minute
		seen := map[string]bool{}
		for at := 3 * time.Second; at < 6*time.Minute; at += 5 * time.Second {
			w.after(at, func() {
				now, held := refresh.LeaseOf(refresh.Group{Tags: w.Tags(w.group)})
				w.mu.Lock()
				defer w.mu.Unlock()
				if seen[now.String()] = true; !held || now.Expires.Before(time.Now().Add(30*time.Second)) {
					w.Errorf("the lease is %v", now)
				}
			})
		}
		w.play(scenario{want: report.Done, calls: markAll})
		if len(seen) < 15 {
			w.Errorf("it was written %d times", len(seen))
		}
	})
}

// TestAMaximumThatOthersUseIsNoWork: a maximum that stays raised, because the desired capacity needs it, is nothing that
// a trigger could give back.
func TestAMaximumThatOthersUseIsNoWork(t *testing.T) {
	t.Parallel()
	for desired, want := range map[int]bool{3: true, 5: false} {
		g := refresh.Group{Desired: desired, Max: 6, Tags: map[string]string{refresh.MaxTag: "3-6"}}
		if got := hold.IsChanged(defaults(), g); got != want {
			t.Errorf("with the desired capacity %d the group is changed: %t", desired, got)
		}
	}
}
