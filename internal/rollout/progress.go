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

	mu sync.Mutex
	r  report.Rollout
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

// snapshot returns a copy that the reporter may keep, with the nodes as they are now. It needs mu.
func (p *progress) snapshot() report.Rollout {
	r := p.r
	r.At = time.Now()
	r.Groups = slices.Clone(r.Groups)
	for i := range r.Groups {
		instances := slices.Clone(r.Groups[i].Instances)
		for n := range instances {
			instances[n].Node = p.nodes.of(instances[n].ID)
		}
		r.Groups[i].Instances = instances
	}
	return r
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
			p.mu.Lock()
			p.show()
			p.mu.Unlock()
		}
	})
	return func() {
		cancel()
		work.Wait()
	}
}

// close gives the reporter the end of the rollout.
func (p *progress) close() report.Rollout {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.snapshot()
	if p.reporter != nil {
		p.reporter.End(r)
	}
	return r
}
