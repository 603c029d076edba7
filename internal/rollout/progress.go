package rollout

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/retry"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// showInterval is how often progress is shown again, for what changes without AWS: nodes, and the time.
const showInterval = time.Second

// progress is how far all groups are. The reporter is given each change, from one goroutine at a time.
type progress struct {
	reporter report.Reporter // nil if nothing is shown
	nodes    nodeIndex

	mu       sync.Mutex
	r        report.Rollout
	shown    []report.Group // What the reporter has of each group: it may keep them, so that they never change.
	revision int            // Of the group that was shown last.
}

func newProgress(
	groups []refresh.Group, mode refresh.Mode, reporter report.Reporter, nodes nodeIndex,
) *progress {
	p := &progress{reporter: reporter, nodes: nodes, r: report.Rollout{Started: time.Now(), Groups: []report.Group{}}}
	for _, g := range groups {
		p.r.Groups = append(p.r.Groups, report.Group{
			Name: g.Name, Mode: mode, Nodegroup: g.ManagedNodegroup(), Phase: report.Queued,
			Desired: g.Desired, Instances: instancesOf(g),
		})
	}
	p.shown = make([]report.Group, len(groups))
	for i := range p.shown {
		p.update(i)
	}
	return p
}

func instancesOf(g refresh.Group) []report.Instance {
	all := []report.Instance{}
	for _, i := range g.Instances {
		all = append(all, report.Instance{ID: i.ID, Zone: i.Zone, State: i.State, Unhealthy: !i.Healthy})
	}
	return all
}

// groupProgress is how far one group is.
type groupProgress struct {
	all *progress
	i   int
}

// set changes what is shown of the group.
func (p groupProgress) set(change func(*report.Group)) {
	p.all.mu.Lock()
	defer p.all.mu.Unlock()
	change(&p.all.r.Groups[p.i])
	p.all.update(p.i)
	p.all.show()
}

// note adds a note on what was done or found.
func (p groupProgress) note(level refresh.Level, format string, args ...any) {
	note := report.Note{At: time.Now(), Level: level, Text: fmt.Sprintf(format, args...)}
	p.set(func(g *report.Group) { g.Notes = append(slices.Clip(g.Notes), note) })
}

// end shows how the group ended.
func (p groupProgress) end(e ending) {
	p.set(func(g *report.Group) {
		g.Phase, g.Outcome, g.Message, g.Ended = report.Finished, e.outcome, e.message, time.Now()
	})
}

// update copies a group, with its nodes as they are now. It needs mu.
func (p *progress) update(i int) {
	g := p.r.Groups[i]
	g.Instances = slices.Clone(g.Instances)
	for n := range g.Instances {
		g.Instances[n].Node = p.nodes.of(g.Instances[n].ID)
	}
	p.revision++
	g.Revision = p.revision
	p.shown[i] = g
}

// snapshot returns what the reporter may keep. It needs mu.
func (p *progress) snapshot() report.Rollout {
	r := p.r
	r.At, r.Groups = time.Now(), slices.Clone(p.shown)
	return r
}

// latest is snapshot with all nodes as they are now. It needs mu.
func (p *progress) latest() report.Rollout {
	for i := range p.shown {
		p.update(i)
	}
	return p.snapshot()
}

// show needs mu.
func (p *progress) show() {
	if p.reporter != nil {
		p.reporter.Show(p.snapshot())
	}
}

// start shows the progress every showInterval until it is stopped.
func (p *progress) start(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var work sync.WaitGroup
	work.Go(func() {
		for retry.Sleep(ctx, showInterval) {
			p.showLatest()
		}
	})
	return func() {
		cancel()
		work.Wait()
	}
}

func (p *progress) showLatest() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reporter != nil {
		p.reporter.Show(p.latest())
	}
}

// close gives the reporter the end of the rollout.
func (p *progress) close() report.Rollout {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.latest()
	if p.reporter != nil {
		p.reporter.End(r)
	}
	return r
}
