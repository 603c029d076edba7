package rollout_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/rollout"
	"github.com/node-drainer/node-drainer/internal/rollout/plan"
	"github.com/node-drainer/node-drainer/pkg/refresh"
	"github.com/node-drainer/node-drainer/test/awsim"
)

// suspended has a run that was killed have suspended a process.
func (w *world) suspended() {
	w.suspend("AZRebalance")
	w.tag(refresh.SuspendedTag, "AZRebalance")
}

// replacesOne has a refresh to version 2 replace one instance, and then wait for launches.
func (w *world) replacesOne() {
	w.otherRefresh("2")
	w.release()
	w.await("i-4", "InService")
	w.hook("ready", 0)
}

// TestAct cancels and rolls back, also where that is not possible, and resumes the processes that a killed or detached
// run has suspended when it has seen the end of the refresh.
func TestAct(t *testing.T) {
	const cancel, rollback, resume = rollout.ActCancel, rollout.ActRollback, rollout.ActResume
	fails := func(times int) func(w *world) {
		return func(w *world) { w.suspended(); w.fails("ResumeProcesses", "InternalFailure", times) }
	}
	standby := func(w *world) {
		w.operator("EnterStandby", "InstanceIds.member.1="+w.id("i-1"), "ShouldDecrementDesiredCapacity=true")
		w.await("i-1", "Standby")
		w.tag("node-drainer.io/standby-1", w.id("i-1")+"=kept")
	}
	all := map[string]scenario{
		"a refresh is cancelled": {
			do: cancel, before: (*world).suspended, want: report.Done, words: "r is cancelled", calls: "Cancel, Resume AZRebalance",
		},
		"a refresh is cancelled, and a process is resumed at the second try": {
			do: cancel, before: fails(1), want: report.Done, calls: "Cancel, Resume AZRebalance, Resume AZRebalance",
		},
		"a refresh is cancelled, and a process cannot be resumed": {
			do: cancel, before: fails(0), want: report.Incomplete, calls: "Cancel" + strings.Repeat(", Resume AZRebalance", 5),
		},
		"interrupted while it is being cancelled": {
			do: cancel, stop: 10 * time.Second, want: report.Interrupted, words: "r is being cancelled", calls: "Cancel",
		},
		"a refresh is rolled back": {
			do: rollback, before: (*world).suspended, want: report.Done, calls: "Rollback, Resume AZRebalance",
		},
		"it cannot launch what it rolls back to": {
			do: rollback, want: report.Failed, words: "r is RollbackFailed | it is not rolled back", calls: "Rollback",
			before: func(w *world) {
				w.release()
				w.await("i-4", "InService")
				w.hook("ready", 10*time.Hour)
				w.SetDelays(awsim.Delays{RefreshGiveUp: 9 * time.Second})
			},
		},
		"a refresh is rolled back, although an earlier rollout has kept an instance in Standby": {
			do: rollback, before: func(w *world) { w.suspended(); standby(w) },
			want: report.Done, words: "r is rolled back", calls: "Rollback, Resume AZRebalance",
		},
		"an instance is in Standby, and it cannot be read whether a refresh is under way": {
			do: rollback, before: func(w *world) { standby(w); w.fails("DescribeInstanceRefreshes", "InternalFailure", 0) },
			want: report.Error, words: "InternalFailure",
		},
		"a refresh is rolled back, and its end is not waited for": {
			do: rollback, before: func(w *world) { w.suspended(); w.cfg.Wait = false },
			want: report.Detached, words: "still suspended: AZRebalance;", calls: "Rollback",
		},
		"it is rolled back before it has begun": {
			do: rollback, before: func(w *world) {
				w.operator("CancelInstanceRefresh", "WaitForTransitioningInstances=false")
				w.SetDelays(awsim.Delays{RefreshStart: time.Hour})
				w.otherRefresh("2")
			},
			want: report.Done, words: "r is cancelled", calls: "Rollback, Cancel",
		},
		"it cannot be rolled back": {
			do: rollback, before: func(w *world) { w.fails("RollbackInstanceRefresh", "IrreversibleInstanceRefresh", 1) },
			want: report.Error, words: "desired configuration | trigger cancel | --launch-template-version", calls: "Rollback",
		},
		"the launch template cannot be read": {
			do: cancel, before: func(w *world) { w.fails("DescribeLaunchTemplates", "AccessDenied", 0) },
			want: report.Done, words: "r is cancelled", calls: "Cancel",
		},
		"resumed": {do: resume, before: (*world).suspended, want: report.Done, calls: "Resume InstanceRefresh, Resume AZRebalance"},
	}
	for name, s := range all {
		before := s.before
		s.group.LaunchTemplateVersion = "1"
		s.before = func(w *world) {
			w.otherRefresh("2")
			w.after(20*time.Second, w.release)
			if before != nil {
				before(w)
			}
		}
		all[name] = s
	}
	runAll(t, all)
}

// TestActOnNothing: without a refresh the message of a rollback has no error of the API, and no action says how many
// instances are replaced.
func TestActOnNothing(t *testing.T) {
	calls := map[rollout.Action]string{
		rollout.ActRollback: "Rollback", rollout.ActCancel: "Cancel", rollout.ActPause: "Suspend InstanceRefresh",
		rollout.ActResume: "Resume InstanceRefresh",
	}
	for do, want := range map[rollout.Action]string{
		rollout.ActRollback: "no instance refresh is in progress; only one that is under way can be rolled back: to go back, " +
			"start a refresh to the version before: trigger --launch-template-version",
		rollout.ActCancel: "no instance refresh is under way",
		rollout.ActPause: "the process InstanceRefresh is suspended: refreshes of the group make no progress, also later ones, " +
			"until trigger resume",
		rollout.ActResume: "the process InstanceRefresh is resumed",
	} {
		inWorld(t, string(do), awsim.Group{}, func(w *world) {
			outcome := map[rollout.Action]report.Outcome{
				rollout.ActRollback: report.Error, rollout.ActCancel: report.Nothing,
			}[do]
			if outcome == "" {
				outcome = report.Done
			}
			if g := w.play(scenario{do: do, want: outcome, calls: calls[do]}); g.Message != want || g.Total != 0 {
				w.Errorf("of %d instances: %s", g.Total, g.Message)
			}
		})
	}
}

// addGroups adds groups like the first one.
func (w *world) addGroups(names ...string) {
	first := w.group
	for _, name := range names {
		w.group = name
		w.must(w.CreateGroup(spec(name, awsim.Group{Desired: 1, LaunchTemplateVersion: "1"})))
		w.inService(1)
		w.hook("drain", 10*time.Second)
		w.hook("ready", 10*time.Second)
	}
	w.group = first
	w.cfg.Selection.Names, w.cfg.Version = append(w.cfg.Selection.Names, names...), "2"
}

// TestActOnSeveral: actions reach all groups at once, whatever --parallel-asgs says.
func TestActOnSeveral(t *testing.T) {
	inWorld(t, "", awsim.Group{}, func(w *world) {
		w.addGroups("b", "c")
		w.cfg.Parallel, w.cfg.FailFast = 1, true
		w.Inject(awsim.Fault{Action: "SuspendProcesses", Latency: 30 * time.Second})
		started := time.Now()
		_, err := w.run(w.Context(), rollout.ActPause)
		if took := time.Since(started); err != nil || took != 30*time.Second {
			w.Errorf("three groups took %v, %v; want 30 s", took, err)
		}
	})
}

// status is what trigger status shows of the group.
func (w *world) status() report.Group {
	reader, _ := w.clients()
	now, err := rollout.New(w.cfg, reader, nil, nil, nil).Status(w.Context())
	w.must(err)
	return now.Groups[0]
}

// TestStatusComparesWithRefresh: the instances that the refresh replaces, or has replaced, are old, although the group
// still has the old version.
func TestStatusComparesWithRefresh(t *testing.T) {
	inWorld(t, "", awsim.Group{LaunchTemplateVersion: "1"}, func(w *world) {
		expect := func(phase report.Phase) {
			now := w.status()
			if now.Phase != phase || len(now.Instances) < 4 {
				w.Errorf("the phase is %s, want %s", now.Phase, phase)
			}
			for _, i := range now.Instances {
				if _, is, _ := w.Member(i.ID); i.Old != (is.Version == 1) {
					w.Errorf("%s is shown as old: %t", w.name(i.ID), i.Old)
				}
			}
		}
		w.hook("drain", 0)
		w.replacesOne()
		expect(report.Replacing)
		w.release()
		w.succeeds()
		expect(report.Draining)
	})
}

// TestStatusInBatches: only the tags of the group say that a trigger replaces its instances in batches.
func TestStatusInBatches(t *testing.T) {
	begun := refresh.Begun{Target: "lt-1/2", At: time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)}.String()
	for name, tt := range map[string]struct {
		begun   string
		lease   time.Duration // until it expires
		phase   report.Phase
		outcome report.Outcome // empty if the rollout is under way
		want    string
	}{
		"none": {"", 0, report.Finished, report.Incomplete, ""},
		"begun": {
			begun, 0, report.Replacing, report.Incomplete, "the rollout that began at 2026-11-23T12:00:00Z has not ended, and no " +
				"trigger works on it: 3 of 3 instances outdated; run the same command again to continue",
		},
		"leased": {begun, time.Minute, report.Replacing, "", "the trigger ci-2/7 works on the group: 3 of 3 instances outdated"},
		"killed": {"", -time.Minute, report.Finished, report.Incomplete, ""},
	} {
		inWorld(t, name, awsim.Group{}, func(w *world) {
			if w.tag(refresh.BegunTag, tt.begun); tt.lease != 0 {
				w.leased("ci-2/7", tt.lease)
			}
			if g := w.status(); g.Phase != tt.phase || g.Outcome != tt.outcome || g.Message != tt.want {
				w.Errorf("%s, %q, %q", g.Phase, g.Outcome, g.Message)
			}
		})
	}
}

// plans is what trigger plan shows.
func (w *world) plans() []report.Plan {
	w.Helper()
	reader, _ := w.clients()
	read := 0
	plans, err := plan.NewPlanner(w.cfg, reader, w.view).Plan(w.Context(), func(now, of int) {
		if read++; now != read || of != len(w.cfg.Selection.Names) {
			w.Errorf("%d of %d groups are read", now, of)
		}
	})
	w.must(err)
	return plans
}

// TestPlanWithoutPods: a plan without permission to list pods has a warning.
func TestPlanWithoutPods(t *testing.T) {
	inWorld(t, "", awsim.Group{}, func(w *world) {
		w.nodes.loadsFail = errors.New("list pods: pods is forbidden")
		p := w.plans()[0]
		warned := slices.ContainsFunc(p.Findings, func(f refresh.Finding) bool {
			return f.Level == refresh.Warn && strings.Contains(f.Text, "pods is forbidden")
		})
		if p.Outdated != 3 || !warned {
			w.Errorf("the plan is %+v", p)
		}
	})
}

// TestEmptyGroup: lists without an element are empty, not null, in JSON.
func TestEmptyGroup(t *testing.T) {
	inWorld(t, "", awsim.Group{}, func(w *world) {
		w.must(w.Resize(w.group, 0, 0, 0))
		w.inService(0)
		for _, got := range []any{w.plans(), w.status()} {
			if text, err := json.Marshal(got); err != nil || strings.Contains(string(text), "null") {
				w.Errorf("%s, %v", text, err)
			}
		}
	})
}
