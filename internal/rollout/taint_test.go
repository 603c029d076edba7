package rollout

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/pkg/cluster"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// painted is a cluster in which every instance has a Node, and what is tainted there. Its picture may be
// late.
type painted struct {
	nodes
	taints map[string]cluster.Effect // by the instance's id
	stale  bool                      // Node does not tell of taints.
	err    error

	puts []string // which were tainted, in order
	busy int
	most int
}

func newPainted(tainted ...string) *painted {
	p := &painted{taints: map[string]cluster.Effect{}}
	for _, id := range tainted {
		p.taints[id] = cluster.SoftTaint
	}
	return p
}

func (p *painted) Node(id string) (cluster.Node, bool) {
	n, known := p.nodes.Node(id)
	p.mu.Lock()
	defer p.mu.Unlock()
	n.Tainted = p.taints[id] != "" && !p.stale
	return n, known
}

func (p *painted) Taint(ctx context.Context, n cluster.Node, e cluster.Effect) error {
	return p.change(ctx, func() {
		id := strings.TrimPrefix(n.Name, "node-")
		p.taints[id] = e
		p.puts = append(p.puts, id)
	})
}

func (p *painted) Untaint(ctx context.Context, n cluster.Node) error {
	return p.change(ctx, func() { delete(p.taints, strings.TrimPrefix(n.Name, "node-")) })
}

// change takes a moment.
func (p *painted) change(ctx context.Context, do func()) error {
	p.mu.Lock()
	p.busy++
	p.most = max(p.most, p.busy)
	p.mu.Unlock()
	timer := time.NewTimer(100 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.busy--
	if p.err == nil {
		do()
	}
	return p.err
}

// bear are the ids of the instances whose nodes are tainted.
func (p *painted) bear() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(slices.Sorted(maps.Keys(p.taints)), " ")
}

// forget takes the nodes away whose instances have left the group.
func (p *painted) forget(a *amazon) {
	maps.DeleteFunc(p.taints, func(id string, _ cluster.Effect) bool {
		return !slices.ContainsFunc(a.group.Instances, func(i refresh.Instance) bool { return i.ID == id })
	})
}

// run runs the trigger with the cluster, and returns how the group ended and what of it was told.
func (p *painted) run(ctx context.Context, t *testing.T, cfg Config, a *amazon) report.Group {
	t.Helper()
	told := &teller{}
	trigger := New(cfg, a, a, p, told)
	trigger.Taints(p)
	if _, err := trigger.Run(ctx); err != nil {
		t.Fatal(err)
	}
	return told.last.Groups[0]
}

func notes(g report.Group) string {
	var b strings.Builder
	for _, n := range g.Notes {
		b.WriteString(string(n.Level) + ": " + n.Text + "\n")
	}
	return b.String()
}

// one is the script in which the first of the instances is replaced at the third look.
func one(a *amazon, looks int) {
	if looks == 3 {
		a.group.Instances = append(a.group.Instances[1:], instance("i-new", "2"))
	}
}

// TestTaints: outdated nodes are tainted when a rollout begins. When it is over nothing that stays is; it
// stays on where AWS goes on without the trigger.
func TestTaints(t *testing.T) {
	const all = "i-1 i-2 i-3"
	gone := errors.New("connection refused")
	cancelling := func(c *Config) { c.OnInterrupt = Cancel }
	for name, tt := range map[string]struct {
		had    []string
		change func(*Config)
		before func(*amazon)
		script func(a *amazon, looks int)
		limit  time.Duration // until the interrupt
		stale  bool
		puts   string
		want   report.Outcome
		stays  string
		says   string
	}{
		"it fails, and what it has not replaced is as it was": {
			script: func(a *amazon, looks int) {
				if looks == 3 {
					a.status(refresh.StatusFailed, "no progress")
				}
			}, puts: all, want: report.Failed, says: "2 nodes: untainted",
		},
		"also if the watch does not show yet what was tainted": {
			script: func(a *amazon, looks int) {
				if looks == 3 {
					a.status(refresh.StatusFailed, "no progress")
				}
			}, stale: true, puts: all, want: report.Failed, says: "2 nodes: untainted",
		},
		"it is rolled back": {
			script: func(a *amazon, looks int) {
				if looks == 3 {
					a.status(refresh.StatusRollbackSuccessful, "")
				}
			}, puts: all, want: report.RolledBack,
		},
		"it ends, and some are left": {
			script: func(a *amazon, looks int) {
				if looks == 3 {
					a.status(refresh.StatusSuccessful, "")
				}
			}, puts: all, want: report.Incomplete,
		},
		"interrupted, and left to AWS":       {limit: time.Minute, puts: all, want: report.Interrupted, stays: "i-2 i-3", says: "node-drainer.io/outdated stays on 2 nodes"},
		"interrupted, and cancelled":         {change: cancelling, limit: time.Minute, puts: all, want: report.Interrupted},
		"interrupted, and rolled back":       {change: func(c *Config) { c.OnInterrupt, c.Version = Rollback, "2" }, before: func(a *amazon) { a.group.Source.Template.Version = "1" }, limit: time.Minute, puts: all, want: report.Interrupted},
		"the time is over":                   {change: func(c *Config) { c.Timeout = time.Minute }, puts: all, want: report.TimedOut, stays: "i-2 i-3"},
		"nothing moves":                      {change: func(c *Config) { c.StallTimeout = time.Minute }, puts: all, want: report.Stalled, stays: "i-2 i-3"},
		"AWS does not answer any more":       {before: func(a *amazon) { a.errs["Group"] = []error{nil, nil, nil, gone, gone, gone, gone, gone} }, puts: all, want: report.Error, stays: "i-2 i-3"},
		"not waited for":                     {change: func(c *Config) { c.Wait = false }, puts: all, want: report.Detached, stays: all},
		"another is followed":                {before: func(a *amazon) { a.begin("r-9", &refresh.Source{Template: template("2")}) }, script: succeed(3), puts: all, want: report.Done},
		"another is in the way":              {had: []string{"i-1"}, before: func(a *amazon) { a.begin("r-9", &refresh.Source{Template: template("1")}) }, want: report.Conflict, stays: "i-1"},
		"the preflight refuses":              {before: func(a *amazon) { a.hooks = nil }, want: report.Refused},
		"starting is not allowed":            {before: func(a *amazon) { a.errs["Start"] = []error{gone} }, want: report.Error},
		"nothing is outdated any more":       {had: []string{"i-22"}, before: func(a *amazon) { a.renew("2") }, want: report.Nothing, says: "untainted"},
		"none: a taint of before is let be":  {had: []string{"i-22"}, change: func(c *Config) { c.Taint = cluster.NoTaint }, before: func(a *amazon) { a.renew("2") }, want: report.Nothing, stays: "i-22"},
		"not said: nothing is tainted":       {change: func(c *Config) { c.Taint, c.Wait = "", false }, want: report.Detached},
		"one that is kept is not tainted":    {had: []string{"i-2"}, before: func(a *amazon) { a.group.Instances[1].Protected = true }, change: func(c *Config) { c.Wait = false }, puts: "i-1 i-3", want: report.Detached, stays: "i-1 i-3"},
		"one that goes already is let alone": {had: []string{"i-2"}, before: func(a *amazon) { a.group.Instances[1].State = "Terminating:Wait" }, change: cancelling, limit: time.Minute, puts: "i-1 i-3", want: report.Interrupted, stays: "i-2"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, p, cfg := newAmazon(3), newPainted(tt.had...), defaults()
				cfg.Taint, p.stale = cluster.SoftTaint, tt.stale
				if tt.before != nil {
					tt.before(a)
				}
				if tt.change != nil {
					tt.change(&cfg)
				}
				a.script = func(looks int) {
					if len(a.group.Instances) == 3 && tt.puts == all {
						one(a, looks)
					}
					if tt.script != nil {
						tt.script(a, looks)
					}
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if tt.limit > 0 {
					ctx, cancel = context.WithTimeout(ctx, tt.limit)
					defer cancel()
				}
				g := p.run(ctx, t, cfg, a)
				expect(t, g, tt.want)
				p.forget(a)
				slices.Sort(p.puts)
				if puts := strings.Join(p.puts, " "); puts != tt.puts || p.bear() != tt.stays {
					t.Errorf("it tainted %q, want %q; left are %q, want %q", puts, tt.puts, p.bear(), tt.stays)
				}
				if !strings.Contains(notes(g), tt.says) {
					t.Errorf("it does not say %q:\n%s", tt.says, notes(g))
				}
			})
		})
	}
}

// TestTaintsOfBatches: in mode unhealthy nobody goes on without the trigger, and so nothing stays tainted.
func TestTaintsOfBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, p, cfg := newAmazon(3), newPainted(), defaults()
		cfg.Mode, cfg.Taint = refresh.ModeUnhealthy, cluster.HardTaint
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var seen string
		a.script = func(looks int) {
			if looks == 3 {
				seen = p.bear()
			}
		}
		g := p.run(ctx, t, cfg, a)
		expect(t, g, report.Interrupted)
		if seen != "i-1 i-2 i-3" || p.bear() != "" {
			t.Errorf("tainted were %q, left are %q", seen, p.bear())
		}
	})
}

// TestTaintsFail: that nodes cannot be tainted is told once, and ends nothing.
func TestTaintsFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, p, cfg := newAmazon(20), newPainted(), defaults()
		cfg.Taint, p.err = cluster.SoftTaint, errors.New("forbidden: nodes")
		a.script = func(looks int) {
			if looks == 3 {
				a.group.Instances = []refresh.Instance{instance("i-new", "2")}
				a.status(refresh.StatusSuccessful, "")
			}
		}
		g := p.run(t.Context(), t, cfg, a)
		expect(t, g, report.Done)
		if got := notes(g); strings.Count(got, "forbidden: nodes") != 1 || !strings.Contains(got, "warn: 20 nodes could not be tainted") {
			t.Errorf("the notes are\n%s", got)
		}
		if p.most != concurrency {
			t.Errorf("%d nodes were tainted at a time, want %d", p.most, concurrency)
		}
	})
}

// TestTaintsWithoutACluster: without a view, or without a Tainter, there is nothing to do.
func TestTaintsWithoutACluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := defaults()
		cfg.Taint = cluster.HardTaint
		a := newAmazon(1)
		a.script = func(looks int) { succeed(3)(a, looks) }
		expect(t, outcome(t.Context(), t, cfg, a, newPainted()), report.Done)
	})
}

// TestHardTaintsWarn: with no place for new pods a hard taint is warned of.
func TestHardTaintsWarn(t *testing.T) {
	percent := func(n int) *int { return &n }
	for name, tt := range map[string]struct {
		taint  cluster.Effect
		change func(*Config, *refresh.Group)
		want   bool
	}{
		"an old one goes first": {cluster.HardTaint, func(c *Config, _ *refresh.Group) { c.Strategy = refresh.TerminateFirst }, true},
		"softly":                {cluster.SoftTaint, func(c *Config, _ *refresh.Group) { c.Strategy = refresh.TerminateFirst }, false},
		"a new one comes first": {cluster.HardTaint, func(*Config, *refresh.Group) {}, false},
		"one is new already": {cluster.HardTaint, func(c *Config, g *refresh.Group) {
			c.Strategy = refresh.TerminateFirst
			g.Instances = append(g.Instances, instance("i-4", "2"))
		}, false},
		"by percentages of less than all": {cluster.HardTaint, func(c *Config, g *refresh.Group) {
			c.Surge, c.Preferences.MinHealthy, g.Maintenance = nil, percent(50), refresh.Maintenance{}
		}, true},
		"by a least percentage of all": {cluster.HardTaint, func(c *Config, g *refresh.Group) {
			c.Surge, c.Preferences.MinHealthy, g.Maintenance = nil, percent(100), refresh.Maintenance{}
		}, false},
		"in batches, by the group's policy": {cluster.HardTaint, func(c *Config, _ *refresh.Group) { c.Mode = refresh.ModeUnhealthy }, false},
		"in batches, with no policy and no surge": {cluster.HardTaint, func(c *Config, g *refresh.Group) {
			c.Mode, g.Maintenance, c.Allow = refresh.ModeUnhealthy, refresh.Maintenance{}, []string{"maintenance-policy"}
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, p, cfg := newAmazon(3), newPainted(), defaults()
				cfg.Taint = tt.taint
				tt.change(&cfg, &a.group)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				g := p.run(ctx, t, cfg, a)
				expect(t, g, report.Interrupted)
				if got := strings.Contains(notes(g), "stay pending"); got != tt.want || len(p.puts) != 3 {
					t.Errorf("warned: %v, tainted: %v\n%s", got, p.puts, notes(g))
				}
			})
		})
	}
}
