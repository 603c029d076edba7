package rollout

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// refreshRate is how often what is shown is shown anew, for what changes without AWS: nodes, and the time.
const refreshRate = time.Second

// board is how all groups stand. The reporter is told of each change, from one goroutine at a time.
type board struct {
	reporter report.Reporter
	nodes    func(*report.Group)

	mu sync.Mutex
	r  report.Rollout
}

func newBoard(
	groups []refresh.Group, mode refresh.Mode, reporter report.Reporter, nodes func(*report.Group),
) *board {
	b := &board{reporter: reporter, nodes: nodes, r: report.Rollout{Started: time.Now()}}
	for _, g := range groups {
		b.r.Groups = append(b.r.Groups, report.Group{
			Name: g.Name, Mode: mode, Phase: report.Queued, Desired: g.Desired, Instances: instancesOf(g),
		})
	}
	return b
}

func instancesOf(g refresh.Group) []report.Instance {
	var all []report.Instance
	for _, i := range g.Instances {
		all = append(all, report.Instance{ID: i.ID, Zone: i.Zone, State: i.State, Unhealthy: !i.Healthy})
	}
	return all
}

// card is the place of one group on the board.
type card struct {
	board *board
	i     int
}

// set changes what is told of the group.
func (c card) set(change func(*report.Group)) {
	c.board.mu.Lock()
	defer c.board.mu.Unlock()
	change(&c.board.r.Groups[c.i])
	c.board.show()
}

// note tells of something that was done or found.
func (c card) note(level refresh.Level, format string, args ...any) {
	note := report.Note{At: time.Now(), Level: level, Text: fmt.Sprintf(format, args...)}
	c.set(func(g *report.Group) { g.Notes = append(slices.Clip(g.Notes), note) })
}

// end tells how the group ended.
func (c card) end(e ending) {
	c.set(func(g *report.Group) {
		g.Phase, g.Outcome, g.Message, g.Ended = report.Finished, e.outcome, e.message, time.Now()
	})
}

// show needs mu. The reporter may keep what it is given.
func (b *board) show() {
	b.reporter.Show(b.snapshot())
}

func (b *board) snapshot() report.Rollout {
	r := b.r
	r.At = time.Now()
	r.Groups = slices.Clone(r.Groups)
	for i := range r.Groups {
		g := &r.Groups[i]
		g.Instances = slices.Clone(g.Instances)
		b.nodes(g)
	}
	return r
}

// run shows the board once in a while, until ctx ends.
func (b *board) run(ctx context.Context) {
	tick := time.NewTicker(refreshRate)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			b.mu.Lock()
			b.show()
			b.mu.Unlock()
		}
	}
}

// close tells the reporter how it ended.
func (b *board) close() report.Rollout {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.snapshot()
	b.reporter.End(r)
	return r
}
