package rollout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// batching are the settings of a run that marks instances unhealthy.
func batching() Config {
	cfg := defaults()
	cfg.Mode, cfg.Surge = refresh.ModeUnhealthy, nil
	return cfg
}

// replaceUnhealthy is the script of a group whose policy launches first: three looks after an instance was
// marked another is in its place.
func replaceUnhealthy(a *amazon) func(int) {
	since := map[string]int{}
	return func(looks int) {
		for n, i := range a.group.Instances {
			if i.Healthy {
				continue
			}
			if since[i.ID] == 0 {
				since[i.ID] = looks
			}
			if looks >= since[i.ID]+3 {
				a.group.Instances[n] = instance(i.ID+"-new", "2")
			}
		}
	}
}

// TestReplace is the rollout by marking instances unhealthy.
func TestReplace(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*Config)
		before func(*amazon, *nodes)
		script func(a *amazon, view *nodes, looks int)
		want   report.Outcome
		words  []string
		calls  string
	}{
		"one after the other": {want: report.Done, words: []string{"3 instances replaced"}, calls: "Mark i-1 Mark i-2 Mark i-3"},
		"two at a time": {
			change: func(c *Config) { c.Pace.Batch.N = 2 }, want: report.Done, calls: "Mark i-1 Mark i-2 Mark i-3",
		},
		"chosen ones, though they are current": {
			change: func(c *Config) { c.Only = []string{"i-2"} }, before: func(a *amazon, _ *nodes) { a.latest = 1 },
			want: report.Done, words: []string{"1 instance replaced"}, calls: "Mark i-2",
		},
		"a chosen one is not there, or not any more": {
			change: func(c *Config) { c.Only = []string{"i-9"} }, want: report.Nothing,
			words: []string{"none of the instances that --instance names is in the group"},
		},
		"a batch is waited for that a trigger before has marked": {
			before: func(a *amazon, _ *nodes) { a.group.Instances[1].Healthy = false },
			want:   report.Done, calls: "Mark i-1 Mark i-3",
		},
		"nodes with the label stay, as was asked for": {
			change: func(c *Config) { c.Exclude = []string{"pet=yes"} },
			before: func(_ *amazon, v *nodes) {
				v.labels = map[string]map[string]string{"i-1": {"pet": "yes"}, "i-2": {"pet": "no"}}
			},
			want: report.Done, words: []string{"2 instances replaced"}, calls: "Mark i-2 Mark i-3",
		},
		"an instance that has gone meanwhile is as good": {
			before: func(a *amazon, _ *nodes) { a.errs["Mark i-1"] = []error{refresh.ErrGone} },
			script: func(a *amazon, _ *nodes, looks int) {
				if looks == 4 {
					a.group.Instances[0] = instance("i-1-new", "2")
				}
			},
			want: report.Done, calls: "Mark i-1 Mark i-2 Mark i-3",
		},
		"a call fails once": {
			before: func(a *amazon, _ *nodes) { a.errs["Mark i-1"] = []error{errors.New("connection refused")} },
			want:   report.Done, calls: "Mark i-1 Mark i-1 Mark i-2 Mark i-3",
		},
		"a call is not answered once": {
			before: func(a *amazon, _ *nodes) { a.errs["Mark i-1"] = []error{errHangs} },
			want:   report.Done, calls: "Mark i-1 Mark i-1 Mark i-2 Mark i-3",
		},
		"a call is not answered while the time runs out": {
			change: func(c *Config) { c.Timeout = 30 * time.Second },
			before: func(a *amazon, _ *nodes) { a.errs["Mark i-1"] = []error{errHangs} },
			want:   report.TimedOut, words: []string{"--timeout"}, calls: "Mark i-1",
		},
		"all are replaced, current or not, and once": {
			change: func(c *Config) { c.All, c.Timeout = true, time.Hour }, before: func(a *amazon, _ *nodes) { a.latest = 1 },
			want: report.Done, words: []string{"3 instances replaced"}, calls: "Mark i-1 Mark i-2 Mark i-3",
		},
		"a newer version comes meanwhile, of which each further instance is": {
			change: func(c *Config) { c.Timeout = time.Hour },
			script: func(a *amazon, _ *nodes, looks int) {
				if looks == 3 {
					a.latest = 3
				}
				for n, i := range a.group.Instances {
					if a.latest == 3 && strings.HasSuffix(i.ID, "-new") {
						a.group.Instances[n].Template = template("3")
					}
				}
			},
			want: report.Done, calls: "Mark i-1 Mark i-2 Mark i-3",
		},
		"Auto Scaling stops to replace what is unhealthy": {
			change: func(c *Config) { c.StallTimeout = 10 * time.Minute },
			script: func(a *amazon, _ *nodes, looks int) {
				if looks == 2 {
					a.group.Suspended = []string{"ReplaceUnhealthy"}
				}
				if looks > 2 {
					a.group.Instances[0] = instance("i-1", "1")
					a.group.Instances[0].Healthy = false
				}
			},
			want: report.Stalled, words: []string{"1 old instance to terminate: i-1", "suspended: ReplaceUnhealthy"}, calls: "Mark i-1",
		},
		"what is launched is abandoned, again and again": {
			change: func(c *Config) { c.StallTimeout, c.Timeout = 10*time.Minute, 2*time.Hour },
			script: func(a *amazon, _ *nodes, looks int) {
				if looks < 2 {
					return
				}
				old, abandoned, coming := instance("i-1", "1"), instance(fmt.Sprintf("i-n%d", looks), "2"), instance(fmt.Sprintf("i-n%d", looks+1), "2")
				old.Healthy, abandoned.State, coming.State = false, "Terminating", "Pending:Wait"
				a.group.Instances = append([]refresh.Instance{old}, a.group.Instances[1], a.group.Instances[2], abandoned, coming)
			},
			want: report.Stalled, words: []string{"1 new instance to enter service"}, calls: "Mark i-1",
		},
		"the cluster is not that of the group": {
			before: func(_ *amazon, v *nodes) { v.foreign = true }, change: func(c *Config) { c.Timeout = time.Hour },
			want: report.Done, calls: "Mark i-1 Mark i-2 Mark i-3",
		},
		"the cluster is not that of the group, and nodes were to be left out": {
			change: func(c *Config) { c.Exclude = []string{"pet"} },
			before: func(_ *amazon, v *nodes) { v.foreign = true },
			want:   report.Refused, words: []string{"--exclude-node-label", "--context"},
		},
		"the group is deleted meanwhile": {
			before: func(a *amazon, _ *nodes) {
				a.errs["Group"] = []error{nil, nil, refresh.ErrNoGroup, refresh.ErrNoGroup, refresh.ErrNoGroup}
			},
			want: report.Error, words: []string{"deleted"}, calls: "Mark i-1",
		},
		"a refresh is under way": {
			before: func(a *amazon, _ *nodes) { a.begin("r-9", nil) }, want: report.Conflict, words: []string{"r-9"},
		},
		"the desired capacity is raised, and a refresh is started meanwhile": {
			change: func(c *Config) { c.Pace.Surge = 1 },
			script: func(a *amazon, _ *nodes, looks int) {
				switch looks {
				case 2:
					a.group.Desired, a.group.Tags = 4, map[string]string{"node-drainer.io/surge": "3-4"}
					a.group.Instances = append(a.group.Instances, instance("i-4", "2"))
				case 3:
					a.begin("r-9", nil)
				}
			},
			want: report.Conflict, words: []string{"r-9", "stays raised from 3 to 4"}, calls: "Raise 1 Mark i-1",
		},
		"a refresh was started meanwhile": {
			script: func(a *amazon, _ *nodes, looks int) {
				if looks == 3 {
					a.begin("r-9", nil)
				}
			},
			want: report.Conflict, words: []string{"r-9"}, calls: "Mark i-1",
		},
		"the new node is never Ready": {
			change: func(c *Config) { c.StallTimeout = 10 * time.Minute },
			before: func(_ *amazon, v *nodes) { v.unready = map[string]bool{"i-1-new": true} },
			want:   report.Stalled, calls: "Mark i-1",
			words: []string{"waiting for 1 node to become ready: i-1-new", "no further ones are marked"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, view, cfg := newAmazon(3), &nodes{}, batching()
				if tt.before != nil {
					tt.before(a, view)
				}
				replace := replaceUnhealthy(a)
				a.script = func(looks int) {
					if replace(looks); tt.script != nil {
						tt.script(a, view, looks)
					}
				}
				if tt.change != nil {
					tt.change(&cfg)
				}
				expect(t, outcome(t.Context(), t, cfg, a, view), tt.want, tt.words...)
				if got := strings.Join(a.calls, " "); got != tt.calls {
					t.Errorf("it called %q, want %q", got, tt.calls)
				}
			})
		})
	}
}

// TestInterruptedWhileACallFails: it ends as interrupted, and the surge is taken back as was asked for.
func TestInterruptedWhileACallFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, cfg := newAmazon(3), batching()
		cfg.OnInterrupt, cfg.Pace.Surge = Cancel, 1
		a.group.Tags = map[string]string{"node-drainer.io/surge": "2-3"}
		a.errs["Mark i-1"] = []error{errHangs}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		expect(t, outcome(ctx, t, cfg, a, nil), report.Interrupted, "the desired capacity was restored")
		if got := strings.Join(a.calls, " "); got != "Mark i-1 Lower" {
			t.Errorf("it called %q", got)
		}
	})
}

// TestBetween: the pause between batches is kept, is no stall, and there is none after the last.
func TestBetween(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, cfg := newAmazon(3), batching()
		cfg.Pace.Between, cfg.StallTimeout = time.Hour, 10*time.Minute
		a.script = replaceUnhealthy(a)
		begun := time.Now()
		expect(t, outcome(t.Context(), t, cfg, a, nil), report.Done)
		if took := time.Since(begun).Round(10 * time.Minute); took != 2*time.Hour {
			t.Errorf("three batches of one with an hour between them took %v", took)
		}
	})
}

// several is an AWS with groups of these names, each with an outdated instance.
type several struct {
	*amazon
	names []string
}

func (s several) Find(ctx context.Context, _ refresh.Selection) (all []refresh.Group, err error) {
	for _, name := range s.names {
		g, err := s.Group(ctx, name)
		if err != nil {
			return nil, err
		}
		all = append(all, g)
	}
	return all, nil
}

func (s several) Group(ctx context.Context, name string) (refresh.Group, error) {
	g, err := s.amazon.Group(ctx, name)
	g.Name = name
	return g, err
}

// TestSeveralGroups: as many at a time as is asked for, and all are told of.
func TestSeveralGroups(t *testing.T) {
	for name, tt := range map[string]struct {
		parallel int
		failFast bool
		timeout  time.Duration
		want     []report.Outcome
		worst    report.Outcome
	}{
		"one fails, the others go on": {1, false, 0, []report.Outcome{report.Nothing, report.Error, report.Nothing}, report.Error},
		"fail fast":                   {1, true, 0, []report.Outcome{report.Nothing, report.Error, report.Skipped}, report.Error},
		"all at once":                 {0, false, 0, []report.Outcome{report.Nothing, report.Error, report.Nothing}, report.Error},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAmazon(1)
				a.renew("2")
				s := failing{several{a, []string{"a", "b", "c"}}}
				cfg, told := defaults(), &teller{}
				cfg.Parallel, cfg.FailFast = tt.parallel, tt.failFast
				worst, err := New(cfg, s, a, nil, told).Run(t.Context())
				if err != nil || worst != tt.worst {
					t.Errorf("it ended with %q, %v, want %q", worst, err, tt.worst)
				}
				var got []report.Outcome
				for _, g := range told.last.Groups {
					got = append(got, g.Outcome)
				}
				if !slices.Equal(got, tt.want) {
					t.Errorf("the groups ended with %q, want %q", got, tt.want)
				}
			})
		})
	}
}

// failing does not tell of the refreshes of group b.
type failing struct{ several }

func (f failing) Refreshes(ctx context.Context, group string) ([]refresh.Refresh, error) {
	if group == "b" {
		return nil, fmt.Errorf("describe the instance refreshes of group %s: AccessDenied", group)
	}
	return f.several.Refreshes(ctx, group)
}
