package loop

import (
	"fmt"
	"testing"

	"github.com/node-drainer/node-drainer/internal/cluster"
	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/rollout/plan"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// countedNodes counts how often a Node is looked up.
type countedNodes struct {
	plan.Cluster
	lookups int
}

func (c *countedNodes) Node(string) (cluster.Node, bool) {
	c.lookups++
	return cluster.Node{}, false
}

// lastShown keeps what was shown last.
type lastShown struct {
	report.Reporter
	last report.Rollout
}

func (l *lastShown) Show(r report.Rollout) { l.last = r }

// progressOf is the progress of groups of 50 instances each.
func progressOf(n int) (*Progress, *countedNodes, *lastShown) {
	groups := make([]refresh.Group, n)
	for i := range groups {
		groups[i].Name = fmt.Sprintf("group-%d", i)
		for k := range 50 {
			groups[i].Instances = append(groups[i].Instances, refresh.Instance{ID: fmt.Sprintf("i-%d-%d", i, k), Healthy: true})
		}
	}
	nodes, shown := &countedNodes{}, &lastShown{}
	return NewProgress(groups, refresh.ModeRefresh, shown, plan.NodeIndex{Cluster: nodes}), nodes, shown
}

// TestProgressOfManyGroups: a change of one group reads the Nodes of that group only, and what the reporter has does
// not change.
func TestProgressOfManyGroups(t *testing.T) {
	t.Parallel()
	p, nodes, shown := progressOf(100)
	first := GroupProgress{p, 0}
	first.Set(func(g *report.Group) { g.Desired = 7 })
	before := shown.last
	nodes.lookups = 0
	first.Set(func(g *report.Group) { g.Desired, g.Instances[0].Old = 8, true })
	if nodes.lookups != 50 {
		t.Errorf("%d Nodes were looked up, want 50", nodes.lookups)
	}
	if g := before.Groups[0]; g.Desired != 7 || g.Instances[0].Old {
		t.Errorf("what was shown has changed: %+v", g.Desired)
	}
	isSame := before.Groups[1].Revision == shown.last.Groups[1].Revision
	if !isSame || shown.last.Groups[0].Revision == before.Groups[0].Revision {
		t.Error("the revisions do not say which group has changed")
	}
}

// BenchmarkProgress is a change of one of a thousand groups, with the changes that a log prints.
func BenchmarkProgress(b *testing.B) {
	p, _, _ := progressOf(1000)
	for n := range b.N {
		GroupProgress{p, n % 1000}.Note(refresh.OK, "a note")
	}
}
