package agent

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/internal/node"
)

// groupOfAll has all instances in one group.
type groupOfAll struct{ AutoScaling }

func (groupOfAll) GroupOf(context.Context, string) (string, error) { return "workers", nil }

// TestAlarmsTakeTurns: the agent acts on one alarm of a group at a time, and on no more than configured in an hour.
// Those that nobody confirms count no longer than they last.
func TestAlarmsTakeTurns(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		most      int
		confirmed bool
		want      []time.Duration
	}{
		"as many as there are": {most: 9, confirmed: true, want: []time.Duration{0, 10, 20, 30, 40}},
		"two in an hour":       {most: 2, confirmed: true, want: []time.Duration{0, 10, 60, 70, 120}},
		"forged messages":      {most: 2, want: []time.Duration{0, 10, 20, 30, 40}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				sys := &systems{cfg: Config{Events: event.Config{AlarmsPerHour: tt.most}}, groups: groupOfAll{}}
				turns, start := &alarmTurns{systems: sys}, time.Now()
				var mu sync.Mutex
				var began []time.Duration
				var handled sync.WaitGroup
				for range tt.want {
					handled.Go(func() {
						end, err := turns.begin(t.Context(), event.Event{Kind: event.Alarm})
						if err != nil {
							t.Error(err)
							return
						}
						defer end(tt.confirmed)
						mu.Lock()
						began = append(began, time.Since(start)/time.Minute)
						mu.Unlock()
						time.Sleep(10 * time.Minute)
					})
				}
				handled.Wait()
				if !slices.Equal(began, tt.want) {
					t.Errorf("alarms were acted on after %d minutes, want %d", began, tt.want)
				}
			})
		})
	}
}

// maintainedFleet has nodes with maintenance.
type maintainedFleet struct {
	Nodes
	nodes []node.Node
}

func (f *maintainedFleet) All() []node.Node { return slices.Clone(f.nodes) }

// TestMaintenanceTakesTurns: three nodes have maintenance in five hours; the lead is four hours, DRAIN_TIMEOUT one.
func TestMaintenanceTakesTurns(t *testing.T) {
	t.Parallel()
	p := policy{drainTimeout: time.Hour, events: event.Config{ScheduledChange: event.Drain, ScheduledChangeLead: 4 * time.Hour}}
	for _, tt := range []struct {
		name  string
		most  int
		other bool // another process has begun to drain node 1, and nothing continues that
		want  []string
	}{
		{"one after the other", 1, false, []string{"", "0", "1", "2", "all"}},
		{"two at a time", 2, false, []string{"", "01", "2", "", "all"}},
		{"a drain that another process has begun counts", 1, true, []string{"", "", "", "", "all"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				start, f, woken := time.Now(), &maintainedFleet{}, 0
				for i := range 3 {
					id := strconv.Itoa(i)
					f.nodes = append(f.nodes, node.Node{UID: "uid-" + id, InstanceID: id, Maintenance: start.Add(5 * time.Hour)})
				}
				if tt.other {
					f.nodes[1].Mark = node.Mark{Reason: string(event.ScheduledChange), Since: start, Deadline: start.Add(5 * time.Hour)}
				}
				m := &maintenanceTurns{nodes: f, most: tt.most, wake: func(string) { woken++ }}
				for _, want := range tt.want {
					var begun string
					for i := 2; i >= 0; i-- { // whoever asks first
						n := f.nodes[i]
						if n.Mark.Deadline.IsZero() && m.begin(n.InstanceID, n.Maintenance, p) {
							begun = n.InstanceID + begun
						}
					}
					if isAll := want == "all"; !isAll && begun != want {
						t.Errorf("after %v %q begin, want %q", time.Since(start), begun, want)
					}
					for i := range f.nodes {
						if id := strconv.Itoa(i); slices.Contains([]byte(begun), id[0]) {
							f.nodes[i].Mark = node.Mark{Reason: string(event.ScheduledChange), Since: time.Now(), Deadline: start.Add(5 * time.Hour)}
							m.finish("uid-"+id, f.nodes[i].Mark.Since)
							m.end(id)
						}
					}
					time.Sleep(time.Hour)
				}
				isBegun := func(n node.Node) bool { return !n.Mark.Deadline.IsZero() }
				if i := slices.IndexFunc(f.nodes, func(n node.Node) bool { return !isBegun(n) }); i >= 0 || woken == 0 {
					t.Errorf("node %d did not begin; %d were woken", i, woken)
				}
				m.retain(nil)
				m.finished.Range(func(uid, _ any) bool {
					t.Errorf("%v is remembered, which does not exist", uid)
					return true
				})
			})
		})
	}
}
