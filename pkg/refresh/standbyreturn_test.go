package refresh

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestNextReturn(t *testing.T) {
	t.Parallel()
	standby, entering, pending := state("Standby"), state("EnteringStandby"), state("Pending")
	newer := launchedFrom(node("8"))
	running := map[string]string{"i-1": "running", "i-2": "running"}
	surge := func(g Group, value string) Group {
		g.Tags[SurgeTag] = value
		return g
	}
	begun := func(g Group, ago time.Duration) Group {
		g.Tags[BegunTag] = Begun{Target: "lt-1/8", At: now.Add(-ago)}.String()
		return g
	}
	full := recorded(group(1, instance(standby), instance()), "i-1=kept")
	full.Max = 1
	for _, tt := range []struct {
		name     string
		snapshot ReturnSnapshot
		want     ReturnStep
	}{
		{"stopped", ReturnSnapshot{Group: recorded(group(1, instance(standby), instance(standby), instance()), "i-1=kept i-2"), Machines: map[string]string{"i-1": "stopped", "i-2": "running"}}, ReturnStep{Start: []string{"i-1"}}},
		{"being stopped", ReturnSnapshot{Group: recorded(group(1, instance(standby), instance()), "i-1"), Machines: map[string]string{"i-1": "stopping"}}, ReturnStep{Waiting: "waiting for 1 instance to run: i-1 (stopping)"}},
		{"its drain is requested", ReturnSnapshot{Group: recorded(group(1, instance(standby), instance()), "i-1=kept"), Machines: running, Drains: map[string]DrainState{"i-1": {Requested: true, Done: true}}}, ReturnStep{Withdraw: []string{"i-1"}}},
		{"one enters Standby", ReturnSnapshot{Group: recorded(group(1, instance(entering), instance()), "i-1")}, ReturnStep{Waiting: "waiting for 1 instance to be in service, with a ready node: i-1 (EnteringStandby)"}},
		{"not what a user has moved there", ReturnSnapshot{Group: recorded(group(1, instance(standby), instance(standby), instance()), "i-2=kept"), Machines: running}, ReturnStep{Exit: []string{"i-2"}}},
		{"no more than the maximum allows", ReturnSnapshot{Group: recorded(group(99, instance(standby), instance(standby), instance()), "i-1=kept i-2=kept"), Machines: running}, ReturnStep{Exit: []string{"i-1"}}},
		{"the maximum allows none", ReturnSnapshot{Group: full, Machines: running}, ReturnStep{Problem: "the desired capacity is the maximum, 1, and an instance that leaves Standby adds to it: use --raise-max"}},
		{"the maximum may be raised", ReturnSnapshot{Group: full, Machines: running, RaiseMax: true}, ReturnStep{Exit: []string{"i-1"}}},
		{"pending", ReturnSnapshot{Group: surge(recorded(group(2, instance(pending), instance()), "i-1=kept"), "1-2")}, ReturnStep{Waiting: "waiting for 1 instance to be in service, with a ready node: i-1 (Pending)"}},
		{"its node is not ready", ReturnSnapshot{Group: surge(recorded(group(2, instance(), instance()), "i-1=kept"), "1-2"), NotReady: map[string]bool{"i-1": true}}, ReturnStep{Waiting: "waiting for 1 instance to be in service, with a ready node: i-1 (InService)"}},
		{"a new one is given back", ReturnSnapshot{Group: surge(recorded(group(2, instance(), instance(newer)), "i-1=kept"), "1-2")}, ReturnStep{Terminate: []string{"i-2"}}},
		{"old ones whose turn had not come are not given back", ReturnSnapshot{Group: surge(recorded(group(4, instance(), instance(newer), instance(), instance()), "i-1"), "3-4")}, ReturnStep{Terminate: []string{"i-2"}}},
		{"nor one that was current before", ReturnSnapshot{Group: begun(surge(recorded(group(3, instance(), instance(newer, launchedAgo(time.Minute)), instance(newer, launchedAgo(time.Hour))), "i-1"), "2-3"), 2*time.Minute)}, ReturnStep{Terminate: []string{"i-2"}}},
		{"unless no other is left", ReturnSnapshot{Group: begun(surge(recorded(group(2, instance(), instance(newer, launchedAgo(time.Hour))), "i-1"), "1-2"), 2*time.Minute)}, ReturnStep{Terminate: []string{"i-2"}}},
		{"nor while the new one is not in service", ReturnSnapshot{Group: surge(recorded(group(3, instance(), instance(newer, pending), instance()), "i-1"), "2-3")}, ReturnStep{Waiting: "waiting for a new instance in service that is not protected from scale in"}},
		{"replaced by age, the one is given back that was launched since", ReturnSnapshot{Group: surge(recorded(group(3, instance(launchedAgo(9*time.Hour)), instance(launchedAgo(9*time.Hour)), instance(launchedAgo(time.Minute))), "i-1"), "2-3")}, ReturnStep{Terminate: []string{"i-3"}}},
		{"before the next one leaves Standby", ReturnSnapshot{Group: surge(recorded(group(2, instance(), instance(standby), instance(newer)), "i-1=kept i-2=kept"), "1-2"), Machines: running}, ReturnStep{Terminate: []string{"i-3"}}},
		{"an autoscaler has lowered the capacity: none is given back", ReturnSnapshot{Group: surge(recorded(group(1, instance()), "i-1=kept"), "1-2")}, ReturnStep{Settle: true}},
		{"killed before one left Standby", ReturnSnapshot{Group: surge(recorded(group(1, instance(standby), instance()), "i-1=kept"), "raising 1-2"), Machines: running}, ReturnStep{Exit: []string{"i-1"}}},
		{"only protected ones are new", ReturnSnapshot{Group: surge(recorded(group(2, instance(), instance(newer, func(i *Instance) { i.Protected = true })), "i-1=kept"), "1-2")}, ReturnStep{Waiting: "waiting for a new instance in service that is not protected from scale in"}},
		{"all are returned", ReturnSnapshot{Group: recorded(group(1, instance()), "i-1=kept")}, ReturnStep{Settle: true}},
		{"done", ReturnSnapshot{Group: group(1, instance(), instance(standby))}, ReturnStep{Done: true}},
	} {
		if diff := cmp.Diff(tt.want, NextReturn(tt.snapshot)); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
	}
}
