package awsim

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// terminating is a fleet with one instance that waits for its terminate hooks.
func terminating(t *testing.T, hooks ...Hook) (f fleet, id string) {
	t.Helper()
	f = newFleet(t, Group{Desired: 1}, hooks...)
	f.s.opts.Machines = &recorder{pods: []string{"default/a"}}
	id = f.ids(stateInService)[0]
	f.must(f.s.Terminate(id, true))
	f.want("1 Terminating:Wait v1")
	return f, id
}

func TestLedger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, id := terminating(t, drainHook)
		token := f.s.Ledger()[0].Token
		f.call("RecordLifecycleActionHeartbeat", "LifecycleHookName", "drain", "LifecycleActionToken", token)
		f.call("CompleteLifecycleAction", "LifecycleHookName", "drain", "LifecycleActionToken", token,
			"LifecycleActionResult", resume)
		f.want("")
		_, err := f.try("RecordLifecycleActionHeartbeat", "LifecycleHookName", "drain", "LifecycleActionToken", token)
		if err == nil || f.complete("drain", id, resume) == nil {
			t.Error("the action that has ended accepts a heartbeat or a completion")
		}
		got := f.s.Ledger()[0]
		switch {
		case got.ClosedBy != ByCompletion, got.Result != resume, got.Transition != Terminating:
			t.Errorf("closed wrongly: %+v", got)
		case len(got.Heartbeats) != 1, got.HeartbeatsAfterClose != 1:
			t.Errorf("heartbeats: %+v", got)
		case len(got.Completions) != 2, got.Completions[0].By != "token", got.Completions[0].Err != "",
			got.Completions[1].By != "instance", got.Completions[1].Err == "":
			t.Errorf("completions: %+v", got.Completions)
		case !slices.Equal(got.PodsAtClose, []string{"default/a"}), !slices.Equal(got.Killed, []string{"default/a"}):
			t.Errorf("pods: %+v", got)
		}
	})
}

func TestUnknownPodsAreNoEmptyNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, id := terminating(t, drainHook)
		f.s.opts.Machines = &recorder{err: errors.New("the API server is down")}
		f.must(f.complete("drain", id, resume))
		if got := f.s.Ledger()[0]; got.PodsError != "the API server is down" {
			t.Errorf("got %+v", got)
		}
	})
}

func TestTwoHooks(t *testing.T) {
	for name, row := range map[string]struct {
		result string
		state  string
		other  ClosedBy
	}{
		"CONTINUE lets the other go on":       {result: resume, state: "1 Terminating:Wait v1"},
		"ABANDON stops the other one at once": {result: abandon, other: ByAbandon},
	} {
		bubble(t, name, func(t *testing.T) {
			f, id := terminating(t, drainHook, Hook{Name: "backup"})
			f.must(f.complete("drain", id, row.result))
			f.want(row.state)
			all := f.s.Ledger()
			if len(all) != 2 || all[0].Token == all[1].Token || all[0].Hook != "backup" || all[0].ClosedBy != row.other {
				t.Errorf("got %+v", all)
			}
			f.answer("Terminating:Wait", "backup", resume)
			f.want("")
		})
	}
}

func TestDeletedHookContinuesTermination(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _ := terminating(t, drainHook)
		f.call("DeleteLifecycleHook", "LifecycleHookName", "drain")
		f.want("")
		if got := f.s.Ledger()[0]; got.ClosedBy != ByHookDeletion || got.Result != resume {
			t.Errorf("got %+v", got)
		}
	})
}

func TestTimeouts(t *testing.T) {
	for name, row := range map[string]struct {
		hook  Hook
		beats []time.Duration // After the one before.
		took  time.Duration
		by    ClosedBy
		want  string
	}{
		"no heartbeat": {
			hook: Hook{HeartbeatTimeout: 30 * time.Second},
			took: 30 * time.Second, by: ByHeartbeatTimeout, want: abandon,
		},
		"the default result counts": {
			hook: Hook{HeartbeatTimeout: 30 * time.Second, DefaultResult: resume},
			took: 30 * time.Second, by: ByHeartbeatTimeout, want: resume,
		},
		"half an hour into one hour makes ninety minutes": {
			hook:  Hook{HeartbeatTimeout: time.Hour},
			beats: []time.Duration{30 * time.Minute},
			took:  90 * time.Minute, by: ByHeartbeatTimeout, want: abandon,
		},
		"heartbeats do not outlast the global timeout": {
			hook:  Hook{HeartbeatTimeout: time.Hour, GlobalTimeout: 100 * time.Minute},
			beats: []time.Duration{45 * time.Minute, 45 * time.Minute},
			took:  100 * time.Minute, by: ByGlobalTimeout, want: abandon,
		},
		"nor the two days of the longest hook": {
			hook:  Hook{HeartbeatTimeout: 50 * time.Hour},
			beats: []time.Duration{40 * time.Hour},
			took:  48 * time.Hour, by: ByGlobalTimeout, want: abandon,
		},
	} {
		bubble(t, name, func(t *testing.T) {
			row.hook.Name = "drain"
			f, id := terminating(t, row.hook)
			for _, d := range row.beats {
				elapse(d)
				f.call("RecordLifecycleActionHeartbeat", "LifecycleHookName", "drain", "InstanceId", id)
			}
			got, err := f.s.WaitClosed(t.Context(), id)
			f.must(err)
			if took := got.ClosedAt.Sub(got.StartedAt); took != row.took || got.ClosedBy != row.by ||
				got.Result != row.want {
				t.Errorf("closed after %s by %s with %s", took, got.ClosedBy, got.Result)
			}
			if f.complete("drain", id, resume) == nil {
				t.Error("completed after it had timed out")
			}
		})
	}
}

// TestDelays: the API shows a state later than it begins, and a machine needs time to shut down.
func TestDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, id := terminating(t, drainHook)
		f.s.SetDelays(Delays{Visible: 5 * time.Second, Terminate: 2 * time.Minute})
		elapse(10 * time.Second)
		start := time.Now()
		f.must(f.complete("drain", id, resume))
		for _, want := range []string{"Terminating:Wait", "Terminating:Proceed"} {
			f.s.asg.mu.Lock()
			got := f.s.asg.shown(f.s.asg.instances[id])
			f.s.asg.mu.Unlock()
			if got != want {
				t.Errorf("shown as %s, want %s", got, want)
			}
			elapse(6 * time.Second)
		}
		f.must(f.s.WaitState(t.Context(), id, stateTerminated))
		if took := time.Since(start); took != 2*time.Minute {
			t.Errorf("the machine took %s to shut down", took)
		}
	})
}

// TestAppearance: neither API shows an instance before EC2 has launched it, though it counts for the group.
func TestAppearance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, Group{Max: 3}, launchHook)
		f.s.SetDelays(Delays{Appear: 10 * time.Second, Launch: time.Second})
		f.call("SetDesiredCapacity", "DesiredCapacity", "1")
		f.call("SetDesiredCapacity", "DesiredCapacity", "1")
		id := f.s.Instances("g")[0].ID
		shown := func() string {
			var out strings.Builder
			for _, one := range f.call("DescribeAutoScalingInstances", "InstanceIds.member.1", id).(autoScalingInstancesXML).AutoScalingInstances {
				out.WriteString(one.LifecycleState + " " + one.HealthStatus + " ")
			}
			for _, one := range f.call("DescribeAutoScalingGroups").(describeGroupsXML).AutoScalingGroups[0].Instances {
				out.WriteString(one.LifecycleState + " " + one.HealthStatus + " ")
			}
			for _, one := range f.call("DescribeInstances").(machinesXML).Reservations {
				out.WriteString(one.Instances[0].State.Name)
			}
			return out.String()
		}
		for _, want := range []string{"", "Pending HEALTHY Pending Healthy pending", "Pending:Wait HEALTHY Pending:Wait Healthy running"} {
			if got := shown(); got != want {
				t.Errorf("shown as %q, want %q", got, want)
			}
			if want == "" {
				elapse(10 * time.Second)
			} else {
				elapse(time.Second)
			}
		}
		f.want("1 Pending:Wait v1")
	})
}

// TestRetainDelay: a retained instance proceeds for a while first.
func TestRetainDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, Group{Desired: 1, RetainOnAbandon: true}, drainHook)
		f.s.SetDelays(Delays{Retain: 3 * time.Second})
		id := f.ids(stateInService)[0]
		f.must(f.s.Terminate(id, false))
		f.answer(stateTerminatingWait, "drain", abandon)
		f.want("1 InService v1, 1 Terminating:Proceed v1")
		elapse(3 * time.Second)
		f.want("1 InService v1, 1 Terminating:Retained v1")
	})
}
