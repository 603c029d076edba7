package refresh

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// group returns a group whose instances are named i-1, i-2 and so on.
func group(desired int, instances ...Instance) Group {
	for n := range instances {
		instances[n].ID = fmt.Sprint("i-", n+1)
	}
	return Group{Name: "g", Desired: desired, Max: 100, Instances: instances}
}

func surged(g Group, value string) Group {
	g.Tags = map[string]string{SurgeTag: value}
	return g
}

func zone(name string) func(*Instance) { return func(i *Instance) { i.Zone = name } }

// zones returns a group with an instance in each of the zones. One that is not in service has its state after the zone.
func zones(desired int, names ...string) Group {
	var all []Instance
	for _, name := range names {
		name, elsewhere, _ := strings.Cut(name, ":")
		i := instance(zone(name))
		if elsewhere != "" {
			i.State = elsewhere
		}
		all = append(all, i)
	}
	return group(desired, all...)
}

func TestSurgeOf(t *testing.T) {
	t.Parallel()
	const at = " 2026-11-01T12:00:00Z"
	since := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	for value, want := range map[string]Surge{
		"6-8": {From: 6, To: 8}, "0-1": {From: 0, To: 1}, "raising 6-8": {From: 6, To: 8, Raising: true, Before: 6},
		"raising 6-8 6" + at: {From: 6, To: 8, Raising: true, Before: 6, Since: since},
		"raising 6-9 7" + at: {From: 6, To: 9, Raising: true, Before: 7, Since: since}, "raising 6-9 7 noon": {},
		"raising 6-9 6": {From: 6, To: 9, Raising: true, Before: 6},
		"raising 6-9 5": {}, "raising 6-9 9": {}, "raising 6-9 i-1": {},
		"6-8 i-1": {From: 6, To: 7}, "6-7 i-1": {From: 6, To: 6}, "6-8 i-2": {From: 6, To: 8},
		"": {}, "6": {}, "raising": {}, "raised 6-8": {}, "6-": {}, "-8": {}, "8-6": {}, "6-6": {}, "a-b": {}, "6-8-9": {}, "+6-8": {}, " 6-8": {},
	} {
		g := Group{Instances: []Instance{{ID: "i-1", State: "Terminating:Wait"}, {ID: "i-2", State: "InService"}}}
		if got, ok := SurgeOf(surged(g, value)); got != want || ok != (want != Surge{}) {
			t.Errorf("%q: %+v, %t", value, got, ok)
		} else if ok && !strings.Contains(value, "i-") && value != "raising 6-9 6" && got.String() != value {
			t.Errorf("%q is written as %q", value, got)
		}
	}
}

func TestNext(t *testing.T) {
	t.Parallel()
	const hour = time.Hour
	two := Pace{Batch: Amount{N: 2}}
	surge := Pace{Batch: Amount{N: 2}, Surge: Amount{N: 2}}
	three := []string{"i-1", "i-2", "i-3"}
	for _, tt := range []struct {
		name     string
		snapshot Snapshot
		pace     Pace
		want     Step
	}{
		// The next batch.
		{"a batch, of one age by id", Snapshot{Group: group(3, instance(), instance(), instance()), Outdated: three}, two, Step{Mark: []string{"i-1", "i-2"}}},
		{"the oldest first, and those of no age last", Snapshot{Group: group(3, instance(), instance(launchedAgo(hour)), instance(launchedAgo(2*hour))), Outdated: three}, two, Step{Mark: []string{"i-3", "i-2"}}},
		{"a share of the desired capacity", Snapshot{Group: group(3, instance(), instance(), instance()), Outdated: three}, Pace{Batch: Amount{N: 67, Percent: true}}, Step{Mark: []string{"i-1", "i-2"}}},
		{"no batch size is one", Snapshot{Group: group(3, instance(), instance(), instance()), Outdated: three}, Pace{}, Step{Mark: []string{"i-1"}}},
		{"no more than are left", Snapshot{Group: group(3, instance(), instance(), instance()), Outdated: []string{"i-2"}}, two, Step{Mark: []string{"i-2"}}},
		{"one zone after the other, and a batch is of one zone", Snapshot{Group: group(3, instance(zone("b"), launchedAgo(hour)), instance(zone("b")), instance(zone("a"))), Outdated: three}, Pace{Batch: Amount{N: 2}, Order: ByZone}, Step{Mark: []string{"i-3"}}},
		{"the next zone, the oldest first", Snapshot{Group: group(3, instance(zone("b")), instance(zone("b"), launchedAgo(hour)), instance(zone("a"))), Outdated: three[:2]}, Pace{Batch: Amount{N: 1}, Order: ByZone}, Step{Mark: []string{"i-2"}}},
		{"an old one whose node is not ready is replaced first", Snapshot{Group: group(3, instance(launchedAgo(hour)), instance(), instance()), Outdated: three, NotReady: map[string]bool{"i-2": true}}, Pace{}, Step{Mark: []string{"i-2"}}},

		// Waiting.
		{"marked, and the description does not show it yet", Snapshot{Group: group(3, instance(), instance(), instance()), Outdated: three, Marked: map[string]bool{"i-1": true}}, two, Step{Waiting: "waiting for 1 old instance to terminate: i-1 (InService); 1 of the 3 desired instances to be launched"}},
		{"marked by an earlier run", Snapshot{Group: group(3, instance(unhealthy), instance(), instance()), Outdated: three}, two, Step{Waiting: "waiting for 1 old instance to terminate: i-1 (InService, unhealthy); 1 of the 3 desired instances to be launched"}},
		{"old ones that drain, with their replacements in service", Snapshot{Group: group(2, instance(state("Terminating:Wait")), instance(state("Terminating")), instance(), instance()), Outdated: three}, two, Step{Waiting: "waiting for 2 old instances to terminate: i-1 (Terminating:Wait), i-2 (Terminating)"}},
		{"past its hooks, and not terminated", Snapshot{Group: group(1, instance(state("Terminating:Proceed")), instance(), instance()), Outdated: three}, two, Step{Waiting: "waiting for 1 old instance to terminate: i-1 (Terminating:Proceed)"}},
		{"unhealthy for another cause", Snapshot{Group: group(2, instance(unhealthy, state("Terminating:Wait")), instance(), instance()), Outdated: []string{"i-2"}}, two, Step{Waiting: "waiting for 1 old instance to terminate: i-1 (Terminating:Wait)"}},
		{"pending new ones", Snapshot{Group: group(3, instance(state("Pending:Wait")), instance(), instance()), Outdated: three[1:]}, two, Step{Waiting: "waiting for 1 new instance to enter service: i-1 (Pending:Wait)"}},
		{"a new one whose node is not ready", Snapshot{Group: group(3, instance(), instance(), instance()), Outdated: three[1:], NotReady: map[string]bool{"i-1": true}}, two, Step{Waiting: "waiting for 1 node to become ready: i-1"}},
		{"new ones that are not launched yet", Snapshot{Group: group(4, instance(), instance(), instance()), Outdated: three}, two, Step{Waiting: "waiting for 1 of the 4 desired instances to be launched"}},
		{"more than five are counted", Snapshot{Group: group(0, slices.Repeat([]Instance{instance(unhealthy)}, 7)...)}, two, Step{Waiting: "waiting for 7 old instances to terminate: i-1 (InService, unhealthy), i-2 (InService, unhealthy), i-3 (InService, unhealthy), i-4 (InService, unhealthy), i-5 (InService, unhealthy) and 2 more"}},
		{"the time between batches", Snapshot{Now: now, LastBatchEnded: now.Add(-time.Minute), Group: group(1, instance()), Outdated: three}, Pace{Between: 3 * time.Minute}, Step{Waiting: "waiting 3m0s between two batches", RecheckAfter: 2 * time.Minute}},
		{"the time between batches is over", Snapshot{Now: now, LastBatchEnded: now.Add(-3 * time.Minute), Group: group(1, instance()), Outdated: three}, Pace{Between: 3 * time.Minute}, Step{Mark: []string{"i-1"}}},
		{"the first batch does not wait", Snapshot{Now: now, Group: group(1, instance()), Outdated: three}, Pace{Between: 3 * time.Minute}, Step{Mark: []string{"i-1"}}},

		// Not waiting.
		{"one that terminates as the group shrinks", Snapshot{Group: group(2, instance(state("Terminating:Wait")), instance(), instance()), Outdated: []string{"i-2"}}, two, Step{Mark: []string{"i-2"}}},
		{"a retained one", Snapshot{Group: group(2, instance(state("Terminating:Retained"), unhealthy), instance(), instance()), Outdated: three}, two, Step{Mark: []string{"i-2", "i-3"}}},
		{"instances of the warm pool", Snapshot{Group: group(1, instance(state("Warmed:Stopped")), instance()), Outdated: three}, two, Step{Mark: []string{"i-2"}}},
		{"one in standby", Snapshot{Group: group(1, instance(state("Standby"), unhealthy), instance()), Outdated: three}, two, Step{Mark: []string{"i-2"}}},
		{"a node that is not ready, with enough others in service", Snapshot{Group: group(2, instance(), instance(), instance()), Outdated: three[1:], NotReady: map[string]bool{"i-1": true}}, two, Step{Mark: []string{"i-2", "i-3"}}},
		{"a pending one, with enough others in service", Snapshot{Group: group(2, instance(state("Pending:Wait")), instance(), instance()), Outdated: three[1:]}, two, Step{Mark: []string{"i-2", "i-3"}}},
		{"the end, while one is pending that is not needed", Snapshot{Group: group(1, instance(state("Pending")), instance())}, two, Step{Done: true}},
		{"marked and gone", Snapshot{Group: group(1, instance()), Outdated: []string{"i-1", "i-9"}, Marked: map[string]bool{"i-9": true}}, two, Step{Mark: []string{"i-1"}}},

		// The end.
		{"none is left", Snapshot{Group: group(1, instance())}, two, Step{Done: true}},
		{"none is left, whatever the time between batches", Snapshot{Now: now, LastBatchEnded: now, Group: group(1, instance())}, Pace{Between: hour}, Step{Done: true}},
		{"the last one is retained", Snapshot{Group: group(1, instance(state("Terminating:Retained")), instance()), Outdated: three[:1]}, two, Step{Done: true}},
		{"an empty group", Snapshot{}, two, Step{Done: true}},

		// The surge.
		{"first the desired capacity is raised", Snapshot{Group: group(3, instance(), instance(), instance()), Outdated: three}, surge, Step{Raise: 2}},
		{"by a share of the desired capacity", Snapshot{Group: group(4, instance(), instance(), instance(), instance()), Outdated: three}, Pace{Surge: Amount{N: 50, Percent: true}}, Step{Raise: 2}},
		{"by a share of less than one", Snapshot{Group: group(4, instance(), instance(), instance(), instance()), Outdated: three}, Pace{Surge: Amount{N: 10, Percent: true}}, Step{Raise: 1}},
		{"by all of it", Snapshot{Group: group(3, instance(), instance(), instance()), Outdated: three}, Pace{Surge: Amount{N: 100, Percent: true}}, Step{Raise: 3}},
		{"a surge of all: the old ones are terminated in batches", Snapshot{Group: surged(group(6, slices.Repeat([]Instance{instance()}, 6)...), "3-6"), Outdated: three}, Pace{Batch: Amount{N: 2}, Surge: Amount{N: 100, Percent: true}}, Step{Terminate: []string{"i-1", "i-2"}}},
		{"by no more than are outdated", Snapshot{Group: group(3, instance(), instance(), instance()), Outdated: three[:1]}, surge, Step{Raise: 1}},
		{"then it waits for the additional ones", Snapshot{Group: surged(group(5, instance(), instance(), instance(), instance(state("Pending"))), "3-5"), Outdated: three}, surge, Step{Waiting: "waiting for 1 new instance to enter service: i-4 (Pending); 1 of the 5 desired instances to be launched"}},
		{"then batches, except for the last ones", Snapshot{Group: surged(group(5, instance(), instance(), instance(), instance(), instance()), "3-5"), Outdated: three}, surge, Step{Mark: []string{"i-1"}}},
		{"the last ones are not replaced", Snapshot{Group: surged(group(5, instance(), instance(), instance(), instance(), instance()), "3-5"), Outdated: three[:2]}, surge, Step{Terminate: []string{"i-1", "i-2"}}},
		{"the last ones in batches", Snapshot{Group: surged(group(5, instance(), instance(), instance(), instance(), instance()), "3-5"), Outdated: three[:2]}, Pace{Surge: Amount{N: 2}}, Step{Terminate: []string{"i-1"}}},
		{"the last one", Snapshot{Group: surged(group(4, instance(), instance(), instance(), instance()), "3-5"), Outdated: three[:1]}, Pace{Surge: Amount{N: 2}}, Step{Terminate: []string{"i-1"}}},
		{"none is left to undo it with", Snapshot{Group: surged(group(2, instance(), instance()), "1-2")}, surge, Step{Terminate: []string{"i-2"}}},
		{"none is left to undo it with, and the new ones are protected", Snapshot{Group: surged(group(2, instance(protected), instance(protected)), "1-2")}, surge, Step{Lower: true}},
		{"it is undone already, and the tag is left", Snapshot{Group: surged(group(1, instance()), "1-2")}, surge, Step{Lower: true}},
		{"left by an earlier run, and this one has none", Snapshot{Group: surged(group(2, instance(), instance()), "1-2"), Outdated: three[:1]}, two, Step{Terminate: []string{"i-1"}}},
		{"an earlier run ended between tag and call", Snapshot{Group: surged(group(2, instance(), instance()), "2-4"), Outdated: three[:2]}, surge, Step{Raise: 2}},
		{"a share is of the capacity before it was raised", Snapshot{Group: surged(group(5, instance(), instance(), instance(), instance(), instance()), "3-5"), Outdated: []string{"i-1", "i-2", "i-3", "i-4", "i-5"}}, Pace{Batch: Amount{N: 50, Percent: true}, Surge: Amount{N: 2}}, Step{Mark: []string{"i-1"}}},
		{"a surge is a share of the capacity before it was raised", Snapshot{Group: surged(group(5, slices.Repeat([]Instance{instance()}, 5)...), "4-6"), Outdated: []string{"i-1", "i-2", "i-3", "i-4"}}, Pace{Batch: Amount{N: 4}, Surge: Amount{N: 50, Percent: true}}, Step{Mark: []string{"i-1", "i-2", "i-3"}}},
		{"a part is undone already: a batch is at most what is left", Snapshot{Group: surged(group(11, slices.Repeat([]Instance{instance()}, 11)...), "10-13"), Outdated: three}, Pace{Batch: Amount{N: 3}, Surge: Amount{N: 3}}, Step{Mark: []string{"i-1"}}},
		{"a part is undone already, and a batch exceeds the surge", Snapshot{Group: surged(group(11, slices.Repeat([]Instance{instance()}, 11)...), "10-12"), Outdated: []string{"i-1", "i-2", "i-3", "i-4"}}, Pace{Batch: Amount{N: 3}, Surge: Amount{N: 2}}, Step{Mark: []string{"i-1", "i-2"}}},
		{"the last one is of the fullest zone", Snapshot{Group: surged(zones(4, "a", "a", "b", "a"), "3-4"), Outdated: three[1:]}, Pace{Surge: Amount{N: 1}}, Step{Mark: []string{"i-3"}}},
		{"the last ones are of the fullest zones", Snapshot{Group: surged(zones(7, "a", "a", "b", "b", "c", "a", "b"), "5-7"), Outdated: []string{"i-1", "i-2", "i-3", "i-4", "i-5"}}, Pace{Batch: Amount{N: 3}, Surge: Amount{N: 2}}, Step{Mark: []string{"i-1", "i-3", "i-5"}}},
		{"instances that are out of service count for no zone", Snapshot{Group: surged(zones(4, "b", "a", "b", "a", "a:Standby", "a:Warmed:Stopped", "b"), "3-4"), Outdated: three[:2]}, Pace{Surge: Amount{N: 1}}, Step{Mark: []string{"i-2"}}},
		{"the last ones by zone", Snapshot{Group: surged(zones(6, "b", "a", "b", "a", "a", "b"), "4-6"), Outdated: three[:2]}, Pace{Batch: Amount{N: 2}, Surge: Amount{N: 2}, Order: ByZone}, Step{Terminate: []string{"i-2"}}},
		{"another client has raised the capacity: only the surge is undone", Snapshot{Group: surged(group(7, slices.Repeat([]Instance{instance()}, 7)...), "3-5"), Outdated: three}, surge, Step{Mark: []string{"i-1"}}},
	} {
		tt.want.InFlight = tt.want.Waiting != "" && tt.want.RecheckAfter == 0
		if diff := cmp.Diff(tt.want, Next(tt.snapshot, tt.pace)); diff != "" {
			t.Errorf("%s:\n%s", tt.name, diff)
		}
	}
}

// TestRollout: a trigger that is killed at random steps replaces the instances of a simulated group. At most a batch of
// old ones is out of service, no more capacity is missing than expected, and in the end all are new and the desired
// capacity is what it was, and what an autoscaler has added to it meanwhile.
func TestRollout(t *testing.T) {
	t.Parallel()
	for seed := range uint64(1000) {
		dice := rand.New(rand.NewPCG(seed, 0))
		size := 1 + dice.IntN(8)
		s := newScaling(dice, size)
		pace := Pace{
			Batch: Amount{N: 1 + dice.IntN(4)}, Order: pick(dice, ByAge, ByZone), Surge: pick(dice, Amount{}, Amount{}, Amount{N: 1}, Amount{N: 2}, Amount{N: 5}, Amount{N: 50, Percent: true}, Amount{N: 100, Percent: true}),
			Step: pick(dice, Amount{}, Amount{N: 1}, Amount{N: 2}, Amount{N: 40, Percent: true}), Between: time.Duration(dice.IntN(3)) * time.Second,
		}
		scales := dice.IntN(2) == 0
		raisesMin := dice.IntN(4) == 0 // A scheduled action does, in the middle of the rollout.
		kept := 0                      // What the minimum may keep of the surge.
		vanish := dice.IntN(4) == 0    // Spot interruptions terminate old ones, too.
		name := fmt.Sprintf("seed %d: %d of %d, %+v, launch first: %t", seed, len(s.old), size, pace, s.launchFirst)
		run := operator{scaling: s, pace: pace, marked: map[string]bool{}, forges: !scales && dice.IntN(2) == 0}
		ended := false
		for range 3000 {
			if ended = run.step(); ended {
				break
			}
			if vanish && dice.IntN(20) == 0 {
				s.group.Instances = slices.DeleteFunc(s.group.Instances, func(i Instance) bool { return s.old[i.ID] && dice.IntN(3) == 0 })
			}
			if scales && dice.IntN(10) == 0 {
				s.scaleUp(1 + dice.IntN(2))
			}
			if raisesMin && dice.IntN(20) == 0 {
				raisesMin, s.group.Min, kept = false, s.group.Desired, s.group.Desired-s.asked
			}
			s.tick()
			if s.group.Desired < s.asked {
				t.Fatalf("%s: %d are desired, and an autoscaler has asked for %d\n%+v", name, s.group.Desired, s.asked, s.group)
			}
			if out := s.out(); !vanish && out > pace.Batch.N {
				t.Fatalf("%s: %d old ones are out\n%+v", name, out, s.group)
			}
			least := size
			if !s.launchFirst {
				least -= max(0, min(pace.Batch.N, size)-min(pace.surge(size), len(s.old)))
			}
			if got := s.inService(); !vanish && !scales && got < least {
				t.Fatalf("%s: %d in service, not %d\n%+v", name, got, least, s.group)
			}
		}
		_, raised := SurgeOf(s.group)
		least := max(s.asked, s.group.Min)
		if !ended || s.left() > 0 || s.group.Desired < least || s.group.Desired > max(least, s.asked+kept) || raised {
			t.Fatalf("%s: ended: %t, old: %d, desired: %d, tag left: %t\n%+v", name, ended, s.left(), s.group.Desired, raised, s.group)
		}
	}
}

// operator is a trigger.
type operator struct {
	*scaling
	pace    Pace
	marked  map[string]bool
	batched time.Time
	busy    bool            // A batch of this run is in flight.
	ours    map[string]bool // What this run has written into the tag of the surge.
	forges  bool            // Somebody writes a tag that says that all of the capacity is a surge.
}

// step reads, decides and acts. Sometimes it is killed with only a part done, and starts again.
func (o *operator) step() bool {
	g := o.group
	if o.dice.IntN(3) == 0 && len(o.marked) > 0 {
		g = o.before // What AWS describes may lag behind.
	}
	o.remember()
	m := Snapshot{
		Now: o.now, Group: g, Marked: o.marked, LastBatchEnded: o.batched, NotReady: o.notReady(), SurgeInDoubt: o.inDoubt(g),
	}
	for _, i := range g.Instances {
		if o.old[i.ID] {
			m.Outdated = append(m.Outdated, i.ID)
		}
	}
	s := Next(m, o.pace)
	if s.Waiting == "" && o.busy {
		o.busy, o.batched = false, o.now
		m.LastBatchEnded = o.batched
		s = Next(m, o.pace)
	}
	if s.Raise > 0 || s.Confirm { // The group is described just before.
		m.Group, m.SurgeInDoubt = o.group, o.inDoubt(o.group)
		s = Next(m, o.pace)
	}
	killed := o.dice.IntN(10) == 0
	o.act(s, killed)
	if killed {
		o.marked, o.batched, o.busy, o.ours = map[string]bool{}, time.Time{}, false, nil
		if o.forges && !s.Done && o.dice.IntN(2) == 0 {
			o.group.Tags = map[string]string{SurgeTag: "0-1000"}
		}
		o.tick() // It takes longer to start than AWS lags behind.
	}
	return s.Done
}

// act executes the step, or a part of it.
func (o *operator) act(s Step, killed bool) {
	ids := slices.Concat(s.Mark, s.Terminate)
	if killed && len(ids) > 0 {
		ids = ids[:o.dice.IntN(len(ids))]
	}
	for _, id := range ids {
		o.marked[id], o.busy = true, true
	}
	for n := range o.group.Instances {
		i := &o.group.Instances[n]
		switch marked := i.InService() && slices.Contains(ids, i.ID); {
		case marked && len(s.Terminate) > 0 && o.group.Desired == o.group.Min: // Auto Scaling refuses that.
		case marked && len(s.Terminate) > 0:
			i.State = "Terminating:Wait"
			o.set(o.group.Desired - 1)
			o.reduce()
		case marked:
			i.Healthy = false
		}
	}
	surge, raised := SurgeOf(o.group)
	switch {
	case s.Confirm && !killed:
		o.write(surge.Confirm(o.changes))
	case s.Raise > 0:
		o.raise(s.Raise, killed)
	case s.Lower && raised:
		o.set(o.group.Desired - surge.Left(o.group))
		o.group.Tags = nil
	}
}

// raise raises the desired capacity. A trigger that is killed does a part of it.
func (o *operator) raise(by int, killed bool) {
	surge := RaisedBy(o.group, by, o.now)
	o.write(surge)
	if killed && o.dice.IntN(2) == 0 {
		return
	}
	o.set(surge.To)
	if surge.Raising, surge.Before = false, 0; !killed {
		o.write(surge)
	}
}

// reduce writes what is left of the surge.
func (o *operator) reduce() {
	surge, _ := SurgeOf(o.group)
	surge.To--
	o.write(surge)
}

func (o *operator) write(surge Surge) {
	if o.group.Tags = nil; surge.To > surge.From {
		o.group.Tags = map[string]string{SurgeTag: surge.String()}
		if o.ours == nil {
			o.ours = map[string]bool{}
		}
		o.ours[surge.String()] = true
	}
}

func (o *operator) inDoubt(g Group) bool {
	surge, raised := SurgeOf(g)
	return raised && (!o.ours[g.Tags[SurgeTag]] || surge.InDoubt(g.Desired))
}
