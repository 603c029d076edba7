package refresh

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// recorded returns the group with a tag that lists instances.
func recorded(g Group, ids string) Group {
	g.Tags = map[string]string{StandbyTag + "1": ids}
	return g
}

// unreplaced returns the group, in which ReplaceUnhealthy is suspended.
func unreplaced(g Group) Group {
	g.Suspended = []string{processReplace}
	return g
}

func TestNextStandby(t *testing.T) {
	t.Parallel()
	standby, entering, draining := state("Standby"), state("EnteringStandby"), state("Terminating:Wait")
	two := Pace{Batch: Amount{N: 2}}
	three := []string{"i-1", "i-2", "i-3"}
	for _, tt := range []struct {
		name     string
		snapshot Snapshot
		pace     Pace
		want     Step
	}{
		{"a batch", Snapshot{Group: group(3, instance(), instance(), instance()), Outdated: three}, two, Step{Standby: []string{"i-1", "i-2"}}},
		{"of one zone", Snapshot{Group: zones(3, "b", "b", "a"), Outdated: three}, Pace{Batch: Amount{N: 2}, Order: ByZone}, Step{Standby: []string{"i-3"}}},
		{"an old one whose node is not ready goes first", Snapshot{Group: group(3, instance(launchedAgo(time.Hour)), instance(), instance()), Outdated: three, NotReady: map[string]bool{"i-2": true}}, Pace{}, Step{Standby: []string{"i-2"}}},
		{"an unhealthy one is waited for, as Auto Scaling replaces it", Snapshot{Group: group(3, instance(launchedAgo(time.Hour)), instance(unhealthy), instance()), Outdated: three}, Pace{}, Step{InFlight: true, Waiting: "waiting for 1 old instance to terminate: i-2 (InService, unhealthy); 1 of the 3 desired instances to be launched"}},
		{"an unhealthy one that Auto Scaling does not replace goes first", Snapshot{Group: unreplaced(group(3, instance(launchedAgo(time.Hour)), instance(unhealthy), instance())), Outdated: three}, Pace{}, Step{Standby: []string{"i-2"}}},
		{"a current one that is unhealthy, and that nobody replaces", Snapshot{Group: unreplaced(group(3, instance(), instance(unhealthy), instance())), Outdated: three[2:]}, Pace{}, Step{Standby: []string{"i-3"}}},
		{"recorded by a run that was killed, and not moved", Snapshot{Group: recorded(group(3, instance(), instance(), instance()), "i-2"), Outdated: three}, Pace{}, Step{Standby: []string{"i-1"}}},
		{"no new one has been launched yet", Snapshot{Group: recorded(group(3, instance(standby), instance(standby), instance()), "i-1 i-2"), Outdated: three}, two, Step{InFlight: true, Waiting: "waiting for 2 of the 3 desired instances to be launched"}},
		{"a new one is pending", Snapshot{Group: recorded(group(2, instance(standby), instance(), instance(state("Pending"))), "i-1"), Outdated: three[:2]}, two, Step{InFlight: true, Waiting: "waiting for 1 new instance to enter service: i-3 (Pending)"}},
		{"the node of a new one is not ready", Snapshot{Group: recorded(group(2, instance(standby), instance(), instance()), "i-1"), Outdated: three[:2], NotReady: map[string]bool{"i-3": true}}, two, Step{InFlight: true, Waiting: "waiting for 1 node to become ready: i-3"}},
		{"one enters Standby", Snapshot{Group: recorded(group(2, instance(entering), instance(), instance()), "i-1"), Outdated: three[:2]}, two, Step{InFlight: true, Waiting: "waiting for 1 old instance to enter Standby: i-1 (EnteringStandby)"}},
		{"the description does not show yet that it was moved", Snapshot{Group: recorded(group(2, instance(), instance()), "i-1"), Outdated: three[:2], Marked: map[string]bool{"i-1": true}}, two, Step{InFlight: true, Waiting: "waiting for 1 old instance to enter Standby: i-1 (InService)"}},
		{"all are replaced", Snapshot{Group: recorded(group(2, instance(standby), instance(standby), instance(), instance()), "i-1 i-2"), Outdated: three[:2]}, two, Step{InFlight: true, Leave: []string{"i-1", "i-2"}}},
		{"not what a user has moved there", Snapshot{Group: recorded(group(2, instance(standby), instance(standby), instance(), instance()), "i-2"), Outdated: three[:2]}, two, Step{InFlight: true, Leave: []string{"i-2"}}},
		{"not what is kept there", Snapshot{Group: recorded(group(1, instance(standby), instance(standby), instance()), "i-1=kept i-2"), Outdated: three[:2]}, two, Step{InFlight: true, Leave: []string{"i-2"}}},
		{"the description does not show yet that it was terminated", Snapshot{Group: recorded(group(1, instance(standby), instance()), "i-1"), Outdated: three[:1], Left: map[string]bool{"i-1": true}}, two, Step{InFlight: true, Waiting: "waiting for 1 old instance to leave Standby: i-1"}},
		{"kept: its node is drained first", Snapshot{Group: recorded(group(1, instance(standby), instance()), "i-1"), Outdated: three[:1]}, Pace{Then: ThenKeep}, Step{InFlight: true, Drain: []string{"i-1"}}},
		{"kept: one after the other", Snapshot{Group: recorded(group(1, instance(standby), instance(standby), instance()), "i-1 i-2"), Outdated: three[:2], Drains: map[string]DrainState{"i-1": {Requested: true}}}, Pace{Then: ThenStop}, Step{InFlight: true, Drain: []string{"i-2"}}},
		{"kept: it drains", Snapshot{Group: recorded(group(1, instance(standby), instance()), "i-1"), Outdated: three[:1], Drains: map[string]DrainState{"i-1": {Requested: true}}}, Pace{Then: ThenStop}, Step{InFlight: true, Waiting: "waiting for the drain of 1 node: i-1"}},
		{"kept: drained", Snapshot{Group: recorded(group(1, instance(standby), instance(standby), instance()), "i-1 i-2"), Outdated: three[:2], Drains: map[string]DrainState{"i-1": {Requested: true}, "i-2": {Requested: true, Done: true}}}, Pace{Then: ThenStop}, Step{InFlight: true, Keep: []string{"i-2"}}},
		{"it drains", Snapshot{Group: recorded(group(2, instance(draining), instance(), instance()), "i-1"), Outdated: three[:2]}, two, Step{InFlight: true, Waiting: "waiting for 1 old instance to terminate: i-1 (Terminating:Wait)"}},
		{"the time between batches", Snapshot{Now: now, LastBatchEnded: now.Add(-time.Minute), Group: group(1, instance()), Outdated: three}, Pace{Between: 3 * time.Minute}, Step{Waiting: "waiting 3m0s between two batches", RecheckAfter: 2 * time.Minute}},
		{"the last one is gone: the record is removed", Snapshot{Group: recorded(group(1, instance()), "i-9")}, two, Step{Forget: true}},
		{"a record of one that is in service again, and not outdated", Snapshot{Group: recorded(group(1, instance()), "i-1")}, two, Step{Forget: true}},
		{"only what is kept is left", Snapshot{Group: recorded(group(1, instance(standby), instance()), "i-1=kept")}, two, Step{Done: true}},
		{"none is left", Snapshot{Group: group(1, instance(standby), instance())}, two, Step{Done: true}},
		{"an autoscaler has asked for more", Snapshot{Group: recorded(group(3, instance(standby), instance(), instance()), "i-1"), Outdated: three[:2]}, two, Step{InFlight: true, Waiting: "waiting for 1 of the 3 desired instances to be launched"}},
		{"an autoscaler has removed some", Snapshot{Group: recorded(group(1, instance(standby), instance()), "i-1"), Outdated: three[:2]}, two, Step{InFlight: true, Leave: []string{"i-1"}}},
	} {
		if diff := cmp.Diff(tt.want, NextStandby(tt.snapshot, tt.pace)); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
	}
}

// TestStandbyRoom: no more instances are in Standby than tags can list, and the preflight refuses a larger batch.
func TestStandbyRoom(t *testing.T) {
	t.Parallel()
	g := group(300, slices.Repeat([]Instance{instance()}, 300)...)
	all := g.InstanceIDs(Instance.InService)
	if step := NextStandby(Snapshot{Group: g, Outdated: all}, Pace{Batch: Amount{N: 300}}); len(step.Standby) != MostStandby {
		t.Errorf("a batch has %d instances", len(step.Standby))
	}
	tagged := g
	tagged.Tags = map[string]string{}
	for n := range 50 {
		tagged.Tags[string(rune('A'+n))] = ""
	}
	full := g
	full.Desired, full.Instances = 100, slices.Clone(g.Instances)
	kept := StandbyRecord{}
	for n := range MostStandby {
		full.Instances[n].State = "Standby"
		kept[full.Instances[n].ID] = true
	}
	full.Tags, _ = StandbyTags(full, kept)
	if step := NextStandby(Snapshot{Group: full, Outdated: all}, Pace{Batch: Amount{N: 1}, Then: ThenKeep}); !step.Done {
		t.Errorf("with %d kept in Standby the step is %+v", len(kept), step)
	}
	for name, tt := range map[string]struct {
		group Group
		batch int
		then  Then
		want  Level
	}{
		"small": {g, 200, ThenTerminate, OK}, "large": {g, 201, ThenTerminate, Refuse},
		"no room for a tag": {tagged, 1, ThenTerminate, Refuse}, "all are kept": {g, 1, ThenKeep, Refuse},
	} {
		if level, text := checkStandbyRoom(tt.group, Facts{Batch: tt.batch, Outdated: 300, Then: tt.then}); level != tt.want {
			t.Errorf("%s: %s, %s", name, level, text)
		}
	}
}
