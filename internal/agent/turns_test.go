package agent

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/node-drainer/node-drainer/internal/ec2"
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

// schedules are those of EC2, which says whether an instance has an event.
type schedules struct {
	Instances
	has map[string]bool
}

func (s schedules) Scheduled(_ context.Context, id string) (ec2.Schedule, error) {
	return ec2.Schedule{Any: s.has[id]}, nil
}

func (s schedules) contradicts(id string) bool {
	has, isAsked := s.has[id]
	return isAsked && !has
}

// TestMaintenanceTakesTurns: three nodes have maintenance in five hours; the lead is four hours, DRAIN_TIMEOUT one.
func TestMaintenanceTakesTurns(t *testing.T) {
	t.Parallel()
	p := policy{drainTimeout: time.Hour, events: event.Config{ScheduledChange: event.Drain, ScheduledChangeLead: 4 * time.Hour}}
	for _, tt := range []struct {
		name  string
		most  int
		other bool            // another process has begun to drain node 1, and nothing continues that
		asked map[string]bool // of EC2: what it has scheduled
		want  []string
	}{
		{"one after the other", 1, false, nil, []string{"", "0", "1", "2", "all"}},
		{"two at a time", 2, false, nil, []string{"", "01", "2", "", "all"}},
		{"a drain that another process has begun counts", 1, true, nil, []string{"", "", "", "", "all"}},
		{"and after EC2 has confirmed it", 1, true, map[string]bool{"1": true}, []string{"", "", "", "", "all"}},
		{"a mark that EC2 contradicts does not", 1, true, map[string]bool{"1": false}, []string{"", "0", "2", "", "all"}},
		{"nor does an announcement", 1, false, map[string]bool{"0": false}, []string{"", "1", "2", "", "all"}},
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
				asked := schedules{has: tt.asked}
				c := &confirmer{&systems{instances: asked}, m}
				r := &resyncer{systems: c.systems, records: &records{actor: &actor{confirmer: c, maintenance: m}}}
				var err error
				switch {
				case tt.other && tt.asked != nil:
					err = r.checkMaintenance(t.Context(), f.nodes)
				case tt.asked != nil:
					_, err = c.ask(t.Context(), maintenanceOf(f.nodes[0], start))
				}
				if err != nil {
					t.Fatal(err)
				}
				for _, want := range tt.want {
					var begun string
					for i := 2; i >= 0; i-- { // whoever asks first
						n := f.nodes[i]
						isContradicted := want != "all" && asked.contradicts(n.InstanceID)
						if n.Mark.Deadline.IsZero() && !isContradicted && m.begin(n.InstanceID, n.Maintenance, p) {
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
				for _, remembered := range []*sync.Map{&m.finished, &m.contradicted} {
					remembered.Range(func(one, _ any) bool {
						t.Errorf("%v is remembered, which does not exist", one)
						return true
					})
				}
			})
		})
	}
}
