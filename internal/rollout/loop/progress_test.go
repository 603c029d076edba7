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

// lastChange keeps what was reported last.
type lastChange struct {
	report.Reporter
	report.Change
}

func (l *lastChange) Changed(c report.Change) { l.Change = c }

// progressOf is the progress of groups of 50 instances each.
func progressOf(n int) (*Progress, *countedNodes, *lastChange) {
	groups := make([]refresh.Group, n)
	for i := range groups {
		groups[i].Name = fmt.Sprintf("group-%d", i)
		for k := range 50 {
			groups[i].Instances = append(groups[i].Instances, refresh.Instance{
				ID: fmt.Sprintf("i-%d-%d", i, k), State: "InService", Healthy: true,
			})
		}
	}
	nodes, reporter := &countedNodes{}, &lastChange{}
	return NewProgress(groups, refresh.ModeRefresh, reporter, plan.NodeIndex{Cluster: nodes}), nodes, reporter
}

// TestProgressOfManyGroups: a change of one group reads the Nodes of that group only, and what the reporter has does
// not change.
func TestProgressOfManyGroups(t *testing.T) {
	t.Parallel()
	p, nodes, reporter := progressOf(100)
	first := GroupProgress{p, 0}
	first.Note(refresh.OK, "a note")
	before := reporter.Change
	nodes.lookups = 0
	first.Set(func(g *report.Group) { g.Desired, g.Instances[0].Old = 8, true })
	if nodes.lookups != 50 {
		t.Errorf("%d Nodes were looked up, want 50", nodes.lookups)
	}
	if g := before.Group; before.Text != "a note" || g.Desired != 0 || g.Instances[0].Old {
		t.Errorf("what was reported has changed: %q, desired capacity %d", before.Text, g.Desired)
	}
}

// BenchmarkProgress is a change of one of a thousand groups, with the changes that a log prints.
func BenchmarkProgress(b *testing.B) {
	p, _, _ := progressOf(1000)
	for n := range b.N {
		GroupProgress{p, n % 1000}.Note(refresh.OK, "a note")
	}
}
