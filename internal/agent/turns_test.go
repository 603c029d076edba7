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
	"github.com/node-drainer/node-drainer/pkg/refresh"
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

// fleet has nodes.
type fleet struct {
	Nodes
	nodes []node.Node
}

func (f *fleet) All() []node.Node { return slices.Clone(f.nodes) }

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

// room has pods that have found no room.
type room struct {
	Drainer
	pods, asked int
}

func (r *room) Unplaced(context.Context) (int, error) { r.asked++; return r.pods, nil }

func turnsOf(n Nodes, d Drainer, all, zonal refresh.Amount) *turns {
	return &turns{nodes: n, drainer: d, all: all, zonal: zonal, begun: map[string]string{}, waiting: map[string]bool{}, asking: make(chan struct{}, 1)}
}

// TestDrainsTakeTurns: ten nodes of two zones are to be drained, which can wait, and ask for their turns one after the
// other.
func TestDrainsTakeTurns(t *testing.T) {
	t.Parallel()
	number := func(n int) refresh.Amount { return refresh.Amount{N: n} }
	percent := func(n int) refresh.Amount { return refresh.Amount{N: n, Percent: true} }
	running := func(reason event.Kind, since, deadline time.Duration) func(*node.Node) {
		return func(n *node.Node) {
			n.Mark = node.Mark{Reason: string(reason), Since: time.Now().Add(since), Deadline: time.Now().Add(deadline)}
		}
	}
	for _, tt := range []struct {
		name       string
		all, zonal refresh.Amount
		first      func(*node.Node) // changes the Node of i-0
		unplaced   int
		want       string
		why        refusal // of the last one
	}{
		{name: "one", all: number(1), want: "0", why: refusal{isBusy: true}},
		{name: "a tenth", all: percent(10), want: "0", why: refusal{isBusy: true}},
		{name: "three tenths", all: percent(30), want: "012", why: refusal{isBusy: true}},
		{name: "one of each zone", all: percent(100), zonal: number(1), want: "01", why: refusal{isBusy: true}},
		{name: "a fifth of each zone", all: percent(100), zonal: percent(20), want: "01", why: refusal{isBusy: true}},
		{name: "three, two of each zone", all: number(3), zonal: number(2), want: "012", why: refusal{isBusy: true}},
		{name: "any number", all: percent(100), zonal: percent(100), want: "0123456789"},
		{name: "no room", all: number(3), unplaced: 1, why: refusal{noRoom: true}},
		{
			name: "another process drains one", all: number(2), want: "01", why: refusal{isBusy: true},
			first: running(event.DrainRequested, -time.Minute, time.Hour),
		},
		{
			name: "one is drained for its hook", all: number(1), want: "0", why: refusal{isBusy: true},
			first: running(event.LifecycleTerminating, -time.Minute, time.Hour),
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := &fleet{}
				for i := range 10 {
					id := strconv.Itoa(i)
					f.nodes = append(f.nodes, node.Node{UID: "uid-" + id, InstanceID: id, Zone: []string{"a", "b"}[i%2]})
				}
				if tt.first != nil {
					tt.first(&f.nodes[0])
				}
				d := &room{pods: tt.unplaced}
				if tt.zonal.N == 0 {
					tt.zonal = percent(100)
				}
				m := turnsOf(f, d, tt.all, tt.zonal)
				if ok, why := m.take(claim{instanceID: "0", zone: "a", kind: event.DrainRequested}, policy{}); ok || !why.mustAsk {
					t.Errorf("taken %v, %+v, before the API server was asked", ok, why)
				}
				var got string
				var last refusal
				for range 2 {
					if err := m.ask(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				for _, n := range f.nodes {
					ok, why := m.take(claim{instanceID: n.InstanceID, zone: n.Zone, kind: event.DrainRequested}, policy{})
					if ok {
						got += n.InstanceID
					}
					last = why
				}
				if got != tt.want || last != tt.why || d.asked != 1 {
					t.Errorf("%q have their turn, want %q; the last one %+v, want %+v; asked %d times", got, tt.want, last, tt.why, d.asked)
				}
			})
		})
	}
}

// TestOldMarksTakeNoTurn: a mark whose time is long over keeps no other node waiting, whoever has written it.
func TestOldMarksTakeNoTurn(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for _, tt := range []struct {
		mark node.Mark
		want bool
	}{
		{node.Mark{Reason: string(event.DrainRequested), Since: now.Add(-time.Hour), Deadline: now.Add(time.Hour)}, true},
		{node.Mark{Reason: string(event.RebalanceRecommendation), Since: now, Deadline: now.Add(time.Hour)}, true},
		{node.Mark{Reason: string(event.DrainRequested), Since: now}, false},
		{node.Mark{Reason: string(event.DrainRequested), Since: now, Deadline: now.Add(-2 * time.Minute)}, false},
		{node.Mark{Reason: string(event.DrainRequested), Since: now.Add(-49 * time.Hour), Deadline: now.Add(time.Hour)}, false},
		{node.Mark{Reason: string(event.ScheduledChange), Since: now.Add(-49 * time.Hour), Deadline: now.Add(time.Hour)}, true},
		{node.Mark{Reason: string(event.SpotInterruption), Since: now, Deadline: now.Add(time.Hour)}, false},
	} {
		if got := isDrainedInTurn(node.Node{Mark: tt.mark}); got != tt.want {
			t.Errorf("%+v: %v, want %v", tt.mark, got, tt.want)
		}
	}
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
				start, f, woken := time.Now(), &fleet{}, 0
				for i := range 3 {
					id := strconv.Itoa(i)
					f.nodes = append(f.nodes, node.Node{UID: "uid-" + id, InstanceID: id, Maintenance: start.Add(5 * time.Hour)})
				}
				if tt.other {
					f.nodes[1].Mark = node.Mark{Reason: string(event.ScheduledChange), Since: start, Deadline: start.Add(5 * time.Hour)}
				}
				m := turnsOf(f, &room{}, refresh.Amount{N: tt.most}, refresh.Amount{N: 100, Percent: true})
				m.wake = func(string) { woken++ }
				asked := schedules{has: tt.asked}
				c := &confirmer{&systems{instances: asked}, m}
				r := &resyncer{systems: c.systems, records: &records{actor: &actor{confirmer: c, turns: m}}}
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
					if err := m.ask(t.Context()); err != nil {
						t.Fatal(err)
					}
					for i := 2; i >= 0; i-- { // whoever asks first
						n := f.nodes[i]
						isContradicted := want != "all" && asked.contradicts(n.InstanceID)
						c := claim{instanceID: n.InstanceID, kind: event.ScheduledChange, maintenance: n.Maintenance}
						if ok, _ := m.take(c, p); ok && n.Mark.Deadline.IsZero() && !isContradicted {
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
				if i := slices.IndexFunc(f.nodes, func(n node.Node) bool { return !isBegun(n) }); i >= 0 || (woken == 0) != (tt.want[1] == "") {
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
