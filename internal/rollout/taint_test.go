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

	"github.com/node-drainer/node-drainer/internal/cluster"
	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/rollout/loop"
	"github.com/node-drainer/node-drainer/internal/rollout/plan"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// fakeTainter is a fakeCluster with taints. With stale, its watch does not show them yet.
type fakeTainter struct {
	fakeCluster
	taints map[string]cluster.Effect // by the instance's id
	stale  bool                      // Node does not show taints
	err    error
	keeps  error // of Untaint
	tries  int   // of Untaint

	added []string // ids of nodes that were tainted, in order
	busy  int
	most  int
}

func newFakeTainter(tainted ...string) *fakeTainter {
	p := &fakeTainter{taints: map[string]cluster.Effect{}}
	for _, id := range tainted {
		p.taints[id] = cluster.SoftTaint
	}
	return p
}

func (p *fakeTainter) Node(id string) (cluster.Node, bool) {
	n, known := p.fakeCluster.Node(id)
	p.mu.Lock()
	defer p.mu.Unlock()
	n.Tainted = p.taints[id] != "" && !p.stale
	return n, known
}

func (p *fakeTainter) Taint(ctx context.Context, n cluster.Node, e cluster.Effect) error {
	return p.update(ctx, func() {
		id := strings.TrimPrefix(n.Name, "node-")
		p.taints[id] = e
		p.added = append(p.added, id)
	})
}

func (p *fakeTainter) Untaint(ctx context.Context, n cluster.Node) error {
	p.mu.Lock()
	p.tries++
	keeps := p.keeps
	p.mu.Unlock()
	if keeps != nil {
		return keeps
	}
	return p.update(ctx, func() { delete(p.taints, strings.TrimPrefix(n.Name, "node-")) })
}

// update takes 100 ms.
func (p *fakeTainter) update(ctx context.Context, do func()) error {
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

// taintedIDs returns the ids of the instances whose nodes are tainted.
func (p *fakeTainter) taintedIDs() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(slices.Sorted(maps.Keys(p.taints)), " ")
}

// dropGone removes the nodes of instances that have left the group.
func (p *fakeTainter) dropGone(a *fakeAWS) {
	maps.DeleteFunc(p.taints, func(id string, _ cluster.Effect) bool {
		return !slices.ContainsFunc(a.group.Instances, func(i refresh.Instance) bool { return i.ID == id })
	})
}

// run runs the trigger with the cluster, and returns how the group ended.
func (p *fakeTainter) run(ctx context.Context, t *testing.T, cfg plan.Config, a *fakeAWS) report.Group {
	t.Helper()
	a.Tainter = p
	return runGroup(ctx, t, cfg, a, p)
}

func notes(g report.Group) string {
	var b strings.Builder
	for _, n := range g.Notes {
		b.WriteString(string(n.Level) + ": " + n.Text + "\n")
	}
	return b.String()
}

// replaceOne is the script in which the first instance is replaced at the third read.
func replaceOne(a *fakeAWS, reads int) {
	if reads == 3 {
		a.group.Instances = append(a.group.Instances[1:], instance("i-new", "2"))
	}
}

// leaseOfAnother has another trigger hold the lease from the read on.
func leaseOfAnother(from int) func(*fakeAWS, int) {
	return func(a *fakeAWS, reads int) {
		if reads >= from {
			a.group.Tags = map[string]string{
				refresh.LeaseTag: refresh.Lease{Holder: "ci-2/7", Expires: time.Now().Add(time.Minute)}.String(),
			}
		}
	}
}

// TestTaints: outdated nodes are tainted when a rollout begins, and untainted when it ends, unless AWS
// continues without the trigger.
func TestTaints(t *testing.T) {
	const all = "i-1 i-2 i-3"
	gone := errors.New("connection refused")
	cancelling := func(c *plan.Config) { c.OnInterrupt = plan.Cancel }
	for name, tt := range map[string]struct {
		tainted []string
		change  func(*plan.Config)
		before  func(*fakeAWS)
		script  func(a *fakeAWS, reads int)
		limit   time.Duration // until the interrupt
		stale   bool
		added   string
		want    report.Outcome
		remain  string
		note    string
		says    string
	}{
		"fails: remaining nodes are untainted":    {script: statusAt(3, refresh.StatusFailed), added: all, want: report.Failed, note: "2 nodes: untainted"},
		"fails before the watch shows the taints": {script: statusAt(3, refresh.StatusFailed), stale: true, added: all, want: report.Failed, note: "2 nodes: untainted"},
		"rolled back":                                   {script: statusAt(3, refresh.StatusRollbackSuccessful), added: all, want: report.RolledBack},
		"ends, and instances remain":                    {script: statusAt(3, refresh.StatusSuccessful), added: all, want: report.Incomplete},
		"interrupted and detached":                      {limit: time.Minute, added: all, want: report.Interrupted, remain: "i-2 i-3", says: "; still tainted node-drainer.io/outdated: 2 nodes; the next run"},
		"interrupted and cancelled":                     {change: cancelling, limit: time.Minute, added: all, want: report.Interrupted},
		"interrupted in mode unhealthy":                 {change: func(c *plan.Config) { c.Mode, c.Taint = refresh.ModeUnhealthy, cluster.HardTaint }, limit: time.Minute, added: all, want: report.Interrupted},
		"interrupted and rolled back":                   {change: func(c *plan.Config) { c.OnInterrupt, c.Version = plan.Rollback, "2" }, before: func(a *fakeAWS) { a.group.Source.Template.Version = "1" }, limit: time.Minute, added: all, want: report.Interrupted},
		"timed out":                                     {change: func(c *plan.Config) { c.Timeout = time.Minute }, added: all, want: report.TimedOut, remain: "i-2 i-3"},
		"nothing changes":                               {change: func(c *plan.Config) { c.StallTimeout = time.Minute }, added: all, want: report.Stalled, remain: "i-2 i-3"},
		"AWS stops answering":                           {before: func(a *fakeAWS) { a.errs["Group"] = []error{nil, nil, nil, gone, gone, gone, gone, gone} }, added: all, want: report.Error, remain: "i-2 i-3"},
		"without waiting":                               {change: func(c *plan.Config) { c.Wait = false }, added: all, want: report.Detached, remain: "i-2 i-3", says: "; still tainted node-drainer.io/outdated: 2 nodes; the next run"},
		"attached to another refresh":                   {before: func(a *fakeAWS) { a.begin("r-9", &refresh.Source{Template: template("2")}) }, script: succeedAt(3), added: all, want: report.Done},
		"conflict with another refresh":                 {tainted: []string{"i-1"}, before: func(a *fakeAWS) { a.begin("r-9", &refresh.Source{Template: template("1")}) }, want: report.Conflict, remain: "i-1"},
		"the preflight refuses":                         {before: func(a *fakeAWS) { a.hooks = nil }, want: report.Refused},
		"starting is not allowed":                       {before: func(a *fakeAWS) { a.errs["Start"] = []error{gone} }, added: all, want: report.Error},
		"nothing is outdated, and an old taint remains": {tainted: []string{"i-22"}, before: func(a *fakeAWS) { a.replaceAll("2") }, want: report.Nothing, note: "untainted"},
		"none, and an old taint remains":                {tainted: []string{"i-22"}, change: func(c *plan.Config) { c.Taint = cluster.NoTaint }, before: func(a *fakeAWS) { a.replaceAll("2") }, want: report.Nothing, note: "untainted"},
		"unset: nothing is tainted":                     {change: func(c *plan.Config) { c.Taint, c.Wait = "", false }, want: report.Detached},
		"another trigger has taken the lease":           {change: func(c *plan.Config) { c.Mode = refresh.ModeUnhealthy }, script: leaseOfAnother(8), added: all, want: report.Conflict, remain: "i-2 i-3", note: "left to the trigger ci-2/7: tainted node-drainer.io/outdated: 2 nodes"},
		"a kept instance is not tainted":                {tainted: []string{"i-2"}, before: func(a *fakeAWS) { a.group.Instances[1].Protected = true }, change: func(c *plan.Config) { c.Wait = false }, added: "i-1 i-3", want: report.Detached, remain: "i-1 i-3"},
		"a terminating instance is left alone":          {tainted: []string{"i-2"}, before: func(a *fakeAWS) { a.group.Instances[1].State = "Terminating:Wait" }, change: cancelling, limit: time.Minute, added: "i-1 i-3", want: report.Interrupted, remain: "i-2"},
	} {
		runInBubble(t, name, func(t *testing.T) {
			a, p, cfg := newFakeAWS(3), newFakeTainter(tt.tainted...), defaults()
			cfg.Taint, p.stale = cluster.SoftTaint, tt.stale
			if tt.before != nil {
				tt.before(a)
			}
			if tt.change != nil {
				tt.change(&cfg)
			}
			a.script = func(reads int) {
				if len(a.group.Instances) == 3 && tt.added == all {
					replaceOne(a, reads)
				}
				if tt.script != nil {
					tt.script(a, reads)
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
			p.dropGone(a)
			slices.Sort(p.added)
			if added := strings.Join(p.added, " "); added != tt.added || p.taintedIDs() != tt.remain {
				t.Errorf("tainted %q, want %q; remaining %q, want %q", added, tt.added, p.taintedIDs(), tt.remain)
			}
			if !strings.Contains(notes(g), tt.note) {
				t.Errorf("notes lack %q:\n%s", tt.note, notes(g))
			}
			if !strings.Contains(g.Message, tt.says) {
				t.Errorf("message %q lacks %q", g.Message, tt.says)
			}
		})
	}
}

// TestTaintsBeforeTheRefresh: no new node is launched before the old ones are tainted.
func TestTaintsBeforeTheRefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, p, cfg := newFakeAWS(3), newFakeTainter(), defaults()
		cfg.Taint, cfg.Wait = cluster.SoftTaint, false
		starting := &startingAWS{fakeAWS: a, nodes: p}
		a.Tainter = p
		expect(t, runGroup(t.Context(), t, cfg, starting, p), report.Detached)
		if starting.tainted != "i-1 i-2 i-3" {
			t.Errorf("tainted when the refresh was started: %q", starting.tainted)
		}
	})
}

// startingAWS records which nodes are tainted when a refresh is started.
type startingAWS struct {
	*fakeAWS
	nodes   *fakeTainter
	tainted string
}

func (a *startingAWS) Start(
	ctx context.Context, g refresh.Group, t refresh.Target, pin bool, p refresh.Preferences,
) (string, error) {
	a.tainted = a.nodes.taintedIDs()
	return a.fakeAWS.Start(ctx, g, t, pin, p)
}

// TestTaintFailures: nodes that cannot be tainted become one note, and the rollout continues.
func TestTaintFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, p, cfg := newFakeAWS(20), newFakeTainter(), defaults()
		cfg.Taint, p.err = cluster.SoftTaint, errors.New("forbidden: nodes")
		a.script = func(reads int) {
			if reads == 3 {
				a.group.Instances = []refresh.Instance{instance("i-new", "2")}
				a.status(refresh.StatusSuccessful, "")
			}
		}
		g := p.run(t.Context(), t, cfg, a)
		expect(t, g, report.Done)
		if got := notes(g); strings.Count(got, "forbidden: nodes") != 1 || !strings.Contains(got, "warn: the rollout continues without it: 20 nodes could not be tainted") {
			t.Errorf("the notes are\n%s", got)
		}
		if p.most != plan.Concurrency {
			t.Errorf("%d nodes were tainted at a time, want %d", p.most, plan.Concurrency)
		}
	})
}

// TestInterruptWhileTainting: an interrupt ends the tainting of many nodes, and untaints those that are tainted.
func TestInterruptWhileTainting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, p, cfg := newFakeAWS(400), newFakeTainter(), defaults()
		cfg.Taint, cfg.OnInterrupt = cluster.SoftTaint, plan.Cancel
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		expect(t, p.run(ctx, t, cfg, a), report.Interrupted)
		if n := len(p.added); n == 0 || n > 100 || p.taintedIDs() != "" {
			t.Errorf("%d nodes were tainted, and in the end %q are", n, p.taintedIDs())
		}
	})
}

// TestUntaintFailures: that nodes cannot be untainted is tried again, and a rollout that would succeed says so.
func TestUntaintFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, p, cfg := newFakeAWS(3), newFakeTainter("i-22"), defaults()
		cfg.Taint, p.keeps = cluster.SoftTaint, errors.New("no answer")
		a.replaceAll("2")
		g := p.run(t.Context(), t, cfg, a)
		expect(t, g, report.Incomplete)
		if p.tries != 1+loop.GiveBackTries || !strings.Contains(notes(g), "run trigger resume: 1 node could not be untainted: node-i-22: no answer") {
			t.Errorf("it was tried %d times; the notes are\n%s", p.tries, notes(g))
		}
	})
}

// TestResumeUntaints: trigger resume untaints the nodes that a killed run has tainted.
func TestResumeUntaints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, p := newFakeAWS(3), newFakeTainter("i-1", "i-3")
		a.Tainter = p
		all, err := New(defaults(), a, a, p, nil).Act(t.Context(), ActResume)
		if err != nil {
			t.Fatal(err)
		}
		expect(t, all.Groups[0], report.Done)
		if left := p.taintedIDs(); left != "" {
			t.Errorf("%s are tainted", left)
		}
	})
}

// TestTaintsWithoutACluster: without a Cluster nothing is tainted.
func TestTaintsWithoutACluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := defaults()
		cfg.Taint = cluster.HardTaint
		a := newFakeAWS(1)
		a.script = func(reads int) { succeedAt(3)(a, reads) }
		expect(t, runGroup(t.Context(), t, cfg, a, nil), report.Done)
	})
}

// TestHardTaintWarning: a hard taint that leaves no node for new pods causes a warning.
func TestHardTaintWarning(t *testing.T) {
	percent := func(n int) *int { return &n }
	terminateFirst := func(c *plan.Config, _ *refresh.Group) {
		c.Surge, c.Preferences.MinHealthy, c.Preferences.MaxHealthy = nil, percent(66), percent(100)
	}
	for name, tt := range map[string]struct {
		taint  cluster.Effect
		change func(*plan.Config, *refresh.Group)
		want   bool
	}{
		"terminate first": {cluster.HardTaint, terminateFirst, true},
		"soft taint":      {cluster.SoftTaint, terminateFirst, false},
		"launch first":    {cluster.HardTaint, func(*plan.Config, *refresh.Group) {}, false},
		"one instance is current": {cluster.HardTaint, func(c *plan.Config, g *refresh.Group) {
			terminateFirst(c, g)
			g.Instances = append(g.Instances, instance("i-4", "2"))
		}, false},
		"minimum below 100 %": {cluster.HardTaint, func(c *plan.Config, g *refresh.Group) {
			c.Surge, c.Preferences.MinHealthy, g.Maintenance = nil, percent(50), refresh.Maintenance{}
		}, true},
		"minimum of 100 %": {cluster.HardTaint, func(c *plan.Config, g *refresh.Group) {
			c.Surge, c.Preferences.MinHealthy, g.Maintenance = nil, percent(100), refresh.Maintenance{}
		}, false},
		"batches, launch-first policy": {cluster.HardTaint, func(c *plan.Config, _ *refresh.Group) { c.Mode = refresh.ModeUnhealthy }, false},
		"batches, no policy and no surge": {cluster.HardTaint, func(c *plan.Config, g *refresh.Group) {
			c.Mode, g.Maintenance, c.Allow = refresh.ModeUnhealthy, refresh.Maintenance{}, []string{"maintenance-policy"}
		}, true},
	} {
		runInBubble(t, name, func(t *testing.T) {
			a, p, cfg := newFakeAWS(3), newFakeTainter(), defaults()
			cfg.Taint = tt.taint
			tt.change(&cfg, &a.group)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			g := p.run(ctx, t, cfg, a)
			expect(t, g, report.Interrupted)
			if got := strings.Contains(notes(g), "stay pending"); got != tt.want || len(p.added) != 3 {
				t.Errorf("warned: %v, tainted: %v\n%s", got, p.added, notes(g))
			}
		})
	}
}
