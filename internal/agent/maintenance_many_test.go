package agent

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/internal/node"
	"github.com/node-drainer/node-drainer/pkg/drain"
)

// maintainedFleet plays nodes, all with maintenance at one time, and records when drains start, and why others wait.
type maintainedFleet struct {
	begun time.Time
	takes time.Duration // each drain
	done  drainHistory
	mu    sync.Mutex
	nodes []node.Node
	facts []fleetFact
}

type fleetFact struct {
	after time.Duration
	what  string
}

func (f *maintainedFleet) All() []node.Node {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.nodes)
}

func (f *maintainedFleet) Announce(context.Context, node.Node, time.Time) error { return nil }
func (f *maintainedFleet) EndMaintenance(context.Context, node.Node) error      { return nil }

func (f *maintainedFleet) fact(format string, args ...any) {
	f.facts = append(f.facts, fleetFact{time.Since(f.begun), fmt.Sprintf(format, args...)})
}

func (f *maintainedFleet) DrainPostponed(n node.Node, p node.Postponement) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fact("%s waits until %v, busy %v", n.Name, p.Until.Sub(f.begun), p.Busy)
}

func (f *maintainedFleet) drain(_ context.Context, e event.Event) error {
	f.mu.Lock()
	i := slices.IndexFunc(f.nodes, func(n node.Node) bool { return n.InstanceID == e.InstanceID })
	f.fact("%s is drained", f.nodes[i].Name)
	mark := node.Mark{Reason: string(e.Kind), Since: time.Now(), Deadline: e.Deadline}
	f.nodes[i].Mark = mark
	f.mu.Unlock()
	time.Sleep(f.takes)
	f.done.add(f.nodes[i].UID, mark.Since, drain.Report{})
	return nil
}

// TestMaintenanceOfManyNodes: three nodes have maintenance in five hours; the lead is four hours, DRAIN_TIMEOUT one.
func TestMaintenanceOfManyNodes(t *testing.T) {
	t.Parallel()
	const early = "0s: node-0 waits until 1h0m0s, busy false|0s: node-1 waits until 1h0m0s, busy false|" +
		"0s: node-2 waits until 1h0m0s, busy false|1h0m0s: node-0 is drained"
	for _, tt := range []struct {
		name  string
		most  int
		takes time.Duration
		other bool // another process has begun to drain node-1, and nothing continues that
		want  string
	}{
		{
			"one after the other", 1, 20 * time.Minute, false,
			early + "|1h0m0s: node-1 waits until 4h0m0s, busy true|1h0m0s: node-2 waits until 4h0m0s, busy true|" +
				"1h20m0s: node-1 is drained|1h40m0s: node-2 is drained",
		},
		{
			"two at a time", 2, 20 * time.Minute, false,
			early + "|1h0m0s: node-1 is drained|1h0m0s: node-2 waits until 4h0m0s, busy true|1h20m0s: node-2 is drained",
		},
		{
			"a drain that a budget blocks leaves the others DRAIN_TIMEOUT", 1, 4 * time.Hour, false,
			early + "|1h0m0s: node-1 waits until 4h0m0s, busy true|1h0m0s: node-2 waits until 4h0m0s, busy true|" +
				"4h0m0s: node-1 is drained|4h0m0s: node-2 is drained",
		},
		{
			"a drain that another process has begun counts", 1, 20 * time.Minute, true,
			"0s: node-0 waits until 1h0m0s, busy false|0s: node-2 waits until 1h0m0s, busy false|" +
				"1h0m0s: node-0 waits until 4h0m0s, busy true|1h0m0s: node-2 waits until 4h0m0s, busy true|" +
				"4h0m0s: node-0 is drained|4h0m0s: node-2 is drained",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := &maintainedFleet{begun: time.Now(), takes: tt.takes}
				for i := range 3 {
					id := strconv.Itoa(i)
					f.nodes = append(f.nodes, node.Node{
						Name: "node-" + id, UID: "uid-" + id, InstanceID: "i-" + id, Maintenance: f.begun.Add(5 * time.Hour),
					})
				}
				if tt.other {
					f.nodes[1].Mark = node.Mark{
						Reason: string(event.ScheduledChange), Since: f.begun, Deadline: f.begun.Add(5 * time.Hour),
					}
				}
				m := &maintenanceDrains{
					cfg: Config{
						DrainTimeout: time.Hour, ResyncInterval: 7 * time.Minute,
						Events: event.Config{
							ScheduledChange: event.Drain, ScheduledChangeLead: 4 * time.Hour, ScheduledChangeDrains: tt.most,
						},
					},
					nodes: f, observer: f, inflight: new(inflight), history: &f.done, drain: f.drain,
					changed: make(chan struct{}, 1),
				}
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Hour)
				defer cancel()
				m.run(ctx)
				slices.SortFunc(f.facts, func(a, b fleetFact) int {
					return cmp.Or(cmp.Compare(a.after, b.after), cmp.Compare(a.what, b.what))
				})
				got := ""
				for _, fact := range f.facts {
					got += fmt.Sprintf("|%v: %s", fact.after, fact.what)
				}
				if diff := gocmp.Diff("|"+tt.want, got); diff != "" {
					t.Errorf("what happened (-want +got):\n%s", diff)
				}
			})
		})
	}
}
