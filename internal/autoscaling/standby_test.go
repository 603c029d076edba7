package autoscaling

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/node-drainer/node-drainer/pkg/refresh"
	"github.com/node-drainer/node-drainer/test/awsim"
)

// TestStandby: the record is in the tags of the group, and the instances move, 20 with one call.
func TestStandby(t *testing.T) {
	t.Parallel()
	s, reader, writer := simulateTrigger(t)
	ctx := bounded(t)
	must(t, s.CreateGroup(awsim.Group{Name: groupName, Max: 60, Tags: map[string]string{"team": "x"}}))
	record := refresh.StandbyRecord{}
	for i := range 25 {
		must(t, s.AddInstance(groupName, machineID(i), ""))
		record[machineID(i)] = i == 3
	}
	expect := func(want refresh.StandbyRecord, inService, standby, desired int) {
		t.Helper()
		must(t, s.WaitInstances(ctx, groupName, func(all []awsim.Instance) bool {
			states := map[string]int{}
			for _, i := range all {
				states[i.State]++
			}
			return states["InService"] == inService && states["Standby"] == standby && len(all) == inService+standby
		}))
		g, err := reader.Group(ctx, groupName)
		must(t, err)
		if got := refresh.StandbyOf(g); !maps.Equal(got, want) || g.Desired != desired || g.Tags["team"] != "x" {
			t.Errorf("the record is %v, the desired capacity %d", got, g.Desired)
		}
	}
	write := func() {
		t.Helper()
		g, err := reader.Group(ctx, groupName)
		must(t, err)
		must(t, writer.WriteStandby(ctx, g, record))
	}
	write()
	expect(record, 25, 0, 25)
	ids := slices.Sorted(maps.Keys(record))
	must(t, writer.EnterStandby(ctx, groupName, ids))
	expect(record, 25, 25, 25)
	if err := writer.EnterStandby(ctx, groupName, ids[:1]); !errors.Is(err, ErrGone) {
		t.Errorf("moved twice: %v", err)
	}
	must(t, writer.TerminateStandby(ctx, ids[0]))
	delete(record, ids[0])
	expect(record, 25, 24, 25)
	write()
	must(t, writer.ExitStandby(ctx, groupName, ids[1:]))
	if err := writer.ExitStandby(ctx, groupName, ids[1:2]); !errors.Is(err, ErrGone) {
		t.Errorf("moved back twice: %v", err)
	}
	clear(record)
	write()
	expect(record, 49, 0, 49)
	if calls := s.RequestsBy("k"); calls["autoscaling.EnterStandby"] != 3 || calls["autoscaling.ExitStandby"] != 3 {
		t.Errorf("the calls are %v", calls)
	}
}
