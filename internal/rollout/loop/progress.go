package loop

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/retry"
	"github.com/node-drainer/node-drainer/internal/rollout/plan"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// showInterval is how often progress is shown again, for what changes without AWS: nodes, and the time.
const showInterval = time.Second

// Progress is how far all groups are. The reporter is given each change, from one goroutine at a time.
type Progress struct {
	reporter report.Reporter // nil if nothing is shown
	nodes    plan.NodeIndex

	mu    sync.Mutex
	r     report.Rollout
	shown []report.Group // What was reported of each group. Reporters may keep them, so that they never change.
}

// NewProgress returns the progress of groups that have not begun. The reporter may be nil.
func NewProgress(
	groups []refresh.Group, mode refresh.Mode, reporter report.Reporter, nodes plan.NodeIndex,
) *Progress {
	p := &Progress{
		reporter: reporter, nodes: nodes, r: report.Rollout{Started: time.Now(), Groups: []report.Group{}},
		shown: make([]report.Group, len(groups)),
	}
	for _, g := range groups {
		p.r.Groups = append(p.r.Groups, report.Group{
			Name: g.Name, Mode: mode, Nodegroup: g.ManagedNodegroup(), Phase: report.Queued,
			Desired: g.Desired, Instances: instancesOf(g),
		})
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

// GroupProgress is how far one group is.
type GroupProgress struct {
	All *Progress
	I   int
}

// Set changes what is shown of the group.
func (p GroupProgress) Set(change func(*report.Group)) {
	p.All.mu.Lock()
	defer p.All.mu.Unlock()
	change(&p.All.r.Groups[p.I])
	p.All.update(p.I)
}

// Note adds a note on what was done or found.
func (p GroupProgress) Note(level refresh.Level, format string, args ...any) {
	note := report.Note{At: time.Now(), Level: level, Text: fmt.Sprintf(format, args...)}
	p.Set(func(g *report.Group) { g.Notes = append(slices.Clip(g.Notes), note) })
}

// End shows how the group ended.
func (p GroupProgress) End(e Ending) {
	p.Set(func(g *report.Group) {
		g.Phase, g.Outcome, g.Message, g.Ended = report.Finished, e.Outcome, e.Message, time.Now()
	})
}

// update reports what has happened in a group, with its nodes as they are now. It needs mu.
func (p *Progress) update(i int) {
	g := p.r.Groups[i]
	g.Instances = slices.Clone(g.Instances)
	for n := range g.Instances {
		g.Instances[n].Node = p.nodes.Of(g.Instances[n].ID)
	}
	if p.reporter != nil {
		for _, c := range report.Changes(p.shown[i], g, time.Now()) {
			p.reporter.Changed(c)
		}
	}
	p.shown[i] = g
}

// Latest returns all groups, with their nodes as they are now. The reporter may keep them. It needs mu.
func (p *Progress) Latest() report.Rollout {
	for i := range p.shown {
		p.update(i)
	}
	r := p.r
	r.At, r.Groups = time.Now(), slices.Clone(p.shown)
	return r
}

// Start shows the progress every showInterval until it is stopped.
func (p *Progress) Start(ctx context.Context) (stop func()) {
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

func (p *Progress) showLatest() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reporter != nil {
		p.reporter.Show(p.Latest())
	}
}

// Close gives the reporter the end of the rollout.
func (p *Progress) Close() report.Rollout {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.Latest()
	if p.reporter != nil {
		p.reporter.End(r)
	}
	return r
}
