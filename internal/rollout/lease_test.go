package rollout

import (
	"context"
	"maps"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/internal/cluster"
	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/rollout/hold"
	"github.com/node-drainer/node-drainer/internal/rollout/plan"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// TestLease: two triggers never replace instances of a group at the same time. A lease that its holder renews is a
// conflict; one of a trigger that was killed is waited for.
func TestLease(t *testing.T) {
	t.Parallel()
	other := func(expires time.Duration) string {
		return refresh.Lease{Holder: "ci-2/7", Expires: time.Now().Add(expires)}.String()
	}
	for name, tt := range map[string]struct {
		lease  time.Duration // of another trigger at the start, if not 0: when it expires
		script func(a *fakeAWS, reads int)
		change func(*plan.Config)
		want   report.Outcome
		words  []string
		calls  string
		least  time.Duration
		left   string // the holder of the lease at the end
	}{
		"no other trigger": {want: report.Done, calls: "Mark i-1 Mark i-2 Mark i-3"},
		"another trigger renews its lease": {
			lease: time.Minute,
			script: func(a *fakeAWS, reads int) {
				if reads == 4 {
					a.group.Tags = map[string]string{refresh.LeaseTag: other(time.Minute)}
				}
			},
			want: report.Conflict, words: []string{"ci-2/7"}, left: "ci-2/7",
		},
		"another trigger was killed": {
			lease: 30 * time.Second, want: report.Done, calls: "Mark i-1 Mark i-2 Mark i-3", least: time.Minute,
		},
		"another trigger renews its lease more seldom than this one would": {
			lease: time.Minute, change: func(c *plan.Config) { c.PollInterval = 100 * time.Millisecond },
			script: func(a *fakeAWS, reads int) {
				if reads == 200 { // after 20 seconds
					a.group.Tags = map[string]string{refresh.LeaseTag: other(time.Minute)}
				}
			},
			want: report.Conflict, words: []string{"ci-2/7"}, left: "ci-2/7",
		},
		"another trigger was killed, and what it had started has replaced all": {
			lease: time.Minute, change: func(c *plan.Config) { c.Mode, c.RaiseMax = refresh.ModeRefresh, true },
			script: func(a *fakeAWS, reads int) {
				if reads == 2 {
					a.replaceAll("2")
				}
			},
			want: report.Nothing, least: time.Minute,
		},
		"another trigger was killed yesterday": {
			lease: -24 * time.Hour, want: report.Done, calls: "Mark i-1 Mark i-2 Mark i-3",
		},
		"another trigger ends": {
			lease: time.Minute,
			script: func(a *fakeAWS, reads int) {
				if reads == 2 {
					a.group.Tags = nil
				}
			},
			want: report.Done, calls: "Mark i-1 Mark i-2 Mark i-3",
		},
		"another trigger has written its lease at the same time": {
			script: func(a *fakeAWS, _ int) {
				if _, written := refresh.LeaseOf(a.group); written {
					a.group.Tags = map[string]string{refresh.LeaseTag: other(time.Minute)}
				}
			},
			want: report.Conflict, words: []string{"ci-2/7"}, left: "ci-2/7",
		},
		"another trigger takes the lease during a batch": {
			change: func(c *plan.Config) { c.Pace.Between = time.Hour },
			script: func(a *fakeAWS, _ int) {
				if a.group.Instances[0].ID != "i-1" {
					a.group.Tags = map[string]string{refresh.LeaseTag: other(time.Hour)}
				}
			},
			want: report.Conflict, words: []string{"ci-2/7"}, calls: "Mark i-1", left: "ci-2/7",
		},
		"nothing is outdated, and another trigger renews its lease": {
			lease: time.Minute, change: func(c *plan.Config) { c.Version = "1" },
			script: func(a *fakeAWS, reads int) {
				if reads == 4 {
					a.group.Tags = map[string]string{refresh.LeaseTag: other(time.Minute), refresh.SurgeTag: "2-3"}
				}
			},
			want: report.Nothing, left: "ci-2/7",
		},
		"nothing is outdated, and another trigger was killed": {
			lease: time.Minute, change: func(c *plan.Config) { c.Version = "1" }, want: report.Nothing, least: time.Minute,
		},
	} {
		runInBubble(t, name, func(t *testing.T) {
			a, cfg := newFakeAWS(3), unhealthyDefaults()
			cfg.Holder = "ci-1/42"
			if tt.change != nil {
				tt.change(&cfg)
			}
			if tt.lease != 0 {
				a.group.Tags = map[string]string{refresh.LeaseTag: other(tt.lease)}
			}
			replace, start := replaceUnhealthy(a), time.Now()
			a.script = func(reads int) {
				if replace(reads); tt.script != nil {
					tt.script(a, reads)
				}
			}
			expect(t, runGroup(t.Context(), t, cfg, a, &fakeCluster{}), tt.want, tt.words...)
			a.expectCalls(t, tt.calls)
			if left, _ := refresh.LeaseOf(a.group); left.Holder != tt.left {
				t.Errorf("the lease is left to %q, want %q", left.Holder, tt.left)
			}
			if took := time.Since(start); took < tt.least {
				t.Errorf("it took %v, want at least %v", took, tt.least)
			}
		})
	}
}

// slowLoads is a cluster whose pods take a while to be listed. Another trigger begins meanwhile.
type slowLoads struct {
	fakeCluster
	begin func()
}

func (s *slowLoads) Loads(context.Context, []string) (map[string]cluster.Load, error) {
	time.Sleep(10 * time.Second)
	s.begin()
	return nil, nil
}

// TestLeaseOfAnotherThatHasJustBegun: the lease is not written over that of a trigger which has begun since the group
// was described.
func TestLeaseOfAnotherThatHasJustBegun(t *testing.T) {
	t.Parallel()
	runInBubble(t, "while pods are listed", func(t *testing.T) {
		a, cfg, begun := newFakeAWS(3), unhealthyDefaults(), false
		cfg.Holder = "ci-1/42"
		other := func() {
			a.group.Tags = map[string]string{
				refresh.LeaseTag: refresh.Lease{Holder: "ci-2/7", Expires: time.Now().Add(time.Minute)}.String(),
			}
		}
		a.script = func(int) {
			if begun {
				other()
			}
		}
		expect(t, runGroup(t.Context(), t, cfg, a, &slowLoads{begin: func() { begun = true }}), report.Conflict, "ci-2/7")
		a.expectCalls(t, "")
	})
}

// TestLeaseIsRenewed: the lease never expires during a rollout.
func TestLeaseIsRenewed(t *testing.T) {
	t.Parallel()
	runInBubble(t, "with pauses", func(t *testing.T) {
		a, cfg := newFakeAWS(3), unhealthyDefaults()
		cfg.Holder, cfg.Pace.Between = "ci-1/42", time.Hour
		replace, renewals, last := replaceUnhealthy(a), 0, ""
		a.script = func(reads int) {
			replace(reads)
			now, held := refresh.LeaseOf(a.group)
			if reads > 1 && (!held || now.Expires.Before(time.Now().Add(30*time.Second))) {
				t.Errorf("after %d reads the lease is %v", reads, now)
			}
			if now.String() != last {
				renewals, last = renewals+1, now.String()
			}
		}
		expect(t, runGroup(t.Context(), t, cfg, a, &fakeCluster{}), report.Done)
		if renewals < 300 {
			t.Errorf("it was written %d times", renewals)
		}
	})
}

func (fakeWrites) Remember(refresh.Group) {}
func (fakeWrites) Forget(string)          {}

func (fakeWrites) WithRemoved(g refresh.Group) (refresh.Group, []string) { return g, nil }

func (fakeWrites) WriteAgain(context.Context, refresh.Group, []string) error { return nil }

// WriteLease and RemoveLease change the group, and are no calls that tests expect.
func (a fakeWrites) WriteLease(_ context.Context, _ string, l refresh.Lease) error {
	a.tag(refresh.LeaseTag, l.String())
	return nil
}

func (a fakeWrites) RemoveLease(context.Context, string) error {
	a.tag(refresh.LeaseTag, "")
	return nil
}

// tag sets a tag of the group, or removes it if the value is empty.
func (a fakeWrites) tag(key, value string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.group.Tags = maps.Clone(a.group.Tags)
	if a.group.Tags == nil {
		a.group.Tags = map[string]string{}
	}
	if a.group.Tags[key] = value; value == "" {
		delete(a.group.Tags, key)
	}
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
