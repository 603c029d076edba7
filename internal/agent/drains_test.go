package agent

import (
	"testing"

	"github.com/node-drainer/node-drainer/internal/node"
)

// TestExpectedDrainOfANodeThatRegistersAgain: no other event may uncordon the new Node before its drain begins.
func TestExpectedDrainOfANodeThatRegistersAgain(t *testing.T) {
	var drains sharedDrains
	before, after := node.Node{InstanceID: "i-1", UID: "uid-1"}, node.Node{InstanceID: "i-1", UID: "uid-2"}
	end := drains.expect(before.InstanceID)
	if !drains.needs(before) || !drains.needs(after) || drains.needs(node.Node{InstanceID: "i-2", UID: "uid-3"}) {
		t.Error("the Nodes of the instance are not needed, or that of another one is")
	}
	if end(); drains.needs(after) {
		t.Error("the Node is still needed")
	}
}
