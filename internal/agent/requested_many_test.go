package agent

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/node-drainer/node-drainer/internal/autoscaling"
	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/internal/node"
)

// annotatedFleet plays nodes, and an Auto Scaling that answers after 50 ms.
type annotatedFleet struct {
	groupStates

	nodes []node.Node
}

func (f *annotatedFleet) All() []node.Node               { return f.nodes }
func (f *annotatedFleet) DrainRequests() <-chan struct{} { return nil }

func (f *annotatedFleet) State(context.Context, string) (autoscaling.State, error) {
	time.Sleep(50 * time.Millisecond)
	return "Terminating:Wait", nil
}

// TestManyRequestsWithdrawn: the nodes whose annotation is removed do not wait for each other, nor do new requests. What
// is known of nodes that were deleted is forgotten.
func TestManyRequestsWithdrawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, started := &annotatedFleet{}, 0
		r := requestedDrains{nodes: f, groups: f, inflight: &inflight{}, begun: map[string]bool{}}
		for i := range 1000 {
			name := fmt.Sprint("n", i)
			f.nodes = append(f.nodes, node.Node{Name: name, UID: name, InstanceID: "i-" + name, DrainRequested: true})
		}
		act := func() (took time.Duration, done bool) {
			began := time.Now()
			done = r.act(t.Context(), func(node.Node, event.Event) { started++ })
			return time.Since(began), done
		}
		if _, done := act(); started != 1000 || !done {
			t.Errorf("%d drains were started", started)
		}
		for i := range f.nodes {
			f.nodes[i].DrainRequested = i >= 900
		}
		if took, done := act(); took > time.Second || !done {
			t.Errorf("900 requests were withdrawn in %v, %v", took, done)
		}
		f.nodes = f.nodes[:10]
		if act(); len(r.begun) != 0 {
			t.Errorf("%d nodes are remembered that do not exist", len(r.begun))
		}
	})
}
