package cluster

import (
	"cmp"
	"slices"

	"github.com/node-drainer/node-drainer/internal/node"
)

// MarkedNode is a Node that the agent has marked, or whose condition reports a drain that has been postponed.
type MarkedNode struct {
	Node
	InstanceID string
	Mark       node.Mark // zero if the Node has none, or one that does not belong to its instance
}

// MarkedNodes returns the Nodes that are marked or have the drain condition, by name, from the cache.
func (v *View) MarkedNodes() []MarkedNode {
	var marked []MarkedNode
	for _, n := range v.nodes() {
		one := MarkedNode{Node: toNode(n), InstanceID: node.InstanceOf(n)}
		one.Mark, _ = node.MarkOf(n)
		if one.Marked || one.Drain != nil {
			marked = append(marked, one)
		}
	}
	slices.SortFunc(marked, func(a, b MarkedNode) int { return cmp.Compare(a.Name, b.Name) })
	return marked
}
