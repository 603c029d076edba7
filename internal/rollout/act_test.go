package rollout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/node-drainer/node-drainer/internal/cluster"
	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/rollout/plan"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// TestAct cancels and rolls back, also where that is not possible, and resumes the processes that a killed or detached
// run has suspended when it has seen the end of the refresh.
func TestAct(t *testing.T) {
	suspended := func(a *fakeAWS) { a.group.Tags = map[string]string{"node-drainer.io/suspended": "AZRebalance"} }
	suspendedFor := func(failures int) func(*fakeAWS) {
		return func(a *fakeAWS) {
			suspended(a)
			a.errs["Release AZRebalance"] = slices.Repeat([]error{errors.New("no answer")}, failures)
		}
	}
	noRefresh := func(a *fakeAWS) { a.refreshes = nil }
	for name, s := range map[string]scenario{
		"a refresh is cancelled": {
			do: ActCancel, before: suspended, want: report.Done, words: []string{"r-1 is cancelled"}, calls: "Cancel Release AZRebalance",
		},
		"a refresh is cancelled, and a process is resumed at the second try": {
			do: ActCancel, before: suspendedFor(1), want: report.Done, calls: "Cancel Release AZRebalance Release AZRebalance",
		},
		"a refresh is cancelled, and a process cannot be resumed": {
			do: ActCancel, before: suspendedFor(5), want: report.Incomplete,
			calls: "Cancel" + strings.Repeat(" Release AZRebalance", 5),
		},
		"nothing to cancel": {
			do: ActCancel, before: noRefresh, want: report.Nothing, words: []string{"no instance refresh is under way"}, calls: "Cancel",
		},
		"it succeeds before it is cancelled": {
			do: ActCancel, script: succeedAt(2), want: report.Failed, words: []string{"r-1 is Successful; it is not cancelled"}, calls: "Cancel",
		},
		"interrupted while it is being cancelled": {
			do: ActCancel, script: statusAt(2, refresh.StatusCancelling), stop: time.Minute,
			want: report.Interrupted, words: []string{"r-1 is being cancelled"}, calls: "Cancel",
		},
		"a refresh is rolled back": {
			do: ActRollback, before: suspended, want: report.Done, calls: "Rollback Release AZRebalance",
		},
		"a refresh is rolled back, although an earlier rollout has kept an instance in Standby": {
			do: ActRollback, before: func(a *fakeAWS) {
				suspended(a)
				a.group.Tags["node-drainer.io/standby-1"], a.group.Instances[0].State = "i-1=kept", "Standby"
			},
			want: report.Done, words: []string{"r-1 is rolled back"}, calls: "Rollback Release AZRebalance",
		},
		"an instance is in Standby, and it cannot be read whether a refresh is under way": {
			do: ActRollback, before: func(a *fakeAWS) {
				a.group.Tags = map[string]string{"node-drainer.io/standby-1": "i-1=kept"}
				a.errs["Refreshes"] = []error{errors.New("no answer")}
			},
			want: report.Error, words: []string{"no answer"},
		},
		"a refresh is rolled back, and its end is not waited for": {
			do: ActRollback, before: suspended, change: func(c *plan.Config) { c.Wait = false },
			want: report.Detached, words: []string{"still suspended: AZRebalance;"}, calls: "Rollback",
		},
		"it is rolled back before it has begun": {
			do: ActRollback, before: func(a *fakeAWS) { a.status(refresh.StatusPending, "") },
			want: report.Done, words: []string{"r-1 is cancelled"}, calls: "Rollback Cancel",
		},
		"nothing to roll back": {
			do: ActRollback, before: noRefresh, want: report.Error, words: []string{"--launch-template-version"}, calls: "Rollback",
		},
		"it cannot be rolled back": {
			do: ActRollback, before: func(a *fakeAWS) { a.errs["Rollback"] = []error{refresh.ErrIrreversible} },
			want: report.Error, words: []string{"desired configuration", "trigger cancel", "--launch-template-version"}, calls: "Rollback",
		},
		"the launch template cannot be read": {
			do: ActCancel, before: func(a *fakeAWS) { a.templatesErr = errors.New("AccessDenied") },
			want: report.Done, words: []string{"r-1 is cancelled"}, calls: "Cancel",
		},
		"resumed": {do: ActResume, before: suspended, want: report.Done, calls: "Resume Release AZRebalance"},
	} {
		runInBubble(t, name, func(t *testing.T) {
			before := s.before
			s.before = func(a *fakeAWS) {
				if a.begin("r-1", &refresh.Source{Template: template("2")}); before != nil {
					before(a)
				}
			}
			s.run(t, defaults())
		})
	}
}

// TestActOnNothing: without a refresh the message of a rollback has no error of the API, and no action says how many
// instances are replaced.
func TestActOnNothing(t *testing.T) {
	for do, want := range map[Action]string{
		ActRollback: "no instance refresh is in progress; only one that is under way can be rolled back: to go back, start a " +
			"refresh to the version before: trigger --launch-template-version",
		ActCancel: "no instance refresh is under way",
		ActPause: "the process InstanceRefresh is suspended: refreshes of the group make no progress, also later ones, " +
			"until trigger resume",
		ActResume: "the process InstanceRefresh is resumed",
	} {
		runInBubble(t, string(do), func(t *testing.T) {
			a := newFakeAWS(1)
			missing := fmt.Errorf("%w: operation error Auto Scaling", refresh.ErrNoRefresh)
			a.errs["Rollback"], a.errs["Cancel"] = []error{missing}, []error{missing}
			end, err := New(defaults(), a, a, nil, nil).Act(t.Context(), do)
			if err != nil {
				t.Fatal(err)
			}
			if g := end.Groups[0]; g.Message != want || g.Total != 0 {
				t.Errorf("of %d instances: %s", g.Total, g.Message)
			}
		})
	}
}

// TestActOnSeveral: actions reach all groups at once, whatever --parallel-asgs says.
func TestActOnSeveral(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, cfg, started := slowAWS{manyGroups{newFakeAWS(1), []string{"a", "b", "c"}}}, defaults(), time.Now()
		cfg.Parallel, cfg.FailFast = 1, true
		if _, err := New(cfg, s, s, nil, nil).Act(t.Context(), ActPause); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(started); took != time.Minute {
			t.Errorf("three groups took %v, want a minute", took)
		}
	})
}

// slowAWS is an AWS that takes a minute to pause a group.
type slowAWS struct{ manyGroups }

func (slowAWS) Pause(context.Context, string) error {
	time.Sleep(time.Minute)
	return nil
}

// TestStatusComparesWithRefresh: the instances that the refresh replaces, or has replaced, are old, although the group
// still has the old version.
func TestStatusComparesWithRefresh(t *testing.T) {
	t.Parallel()
	for status, phase := range map[string]report.Phase{
		refresh.StatusInProgress: report.Replacing, refresh.StatusSuccessful: report.Draining,
	} {
		a := newFakeAWS(3)
		a.group.Source.Template.Version = "1"
		a.group.Instances[0], a.group.Instances[1] = instance("i-new", "2"), draining("i-2")
		a.begin("r-1", &refresh.Source{Template: template("2")})
		a.status(status, "")
		got, err := New(defaults(), a, nil, nil, nil).Status(t.Context())
		if err != nil || got.Groups[0].Phase != phase {
			t.Fatalf("the phase of %s is %+v, %v, want %s", status, got, err, phase)
		}
		for _, i := range got.Groups[0].Instances {
			if i.Old == (i.ID == "i-new") {
				t.Errorf("%s is shown as old: %t", i.ID, i.Old)
			}
		}
	}
}

// TestStatusInBatches: only the tags of the group say that a trigger replaces its instances in batches.
func TestStatusInBatches(t *testing.T) {
	t.Parallel()
	lease := func(expires time.Duration) string {
		return refresh.Lease{Holder: "ci-1/42", Expires: time.Now().Add(expires)}.String()
	}
	begun := refresh.Begun{Target: "lt-1/2", At: time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)}.String()
	for name, tt := range map[string]struct {
		tags    map[string]string
		phase   report.Phase
		outcome report.Outcome // empty if the rollout is under way
		want    string
	}{
		"none":   {nil, report.Finished, report.Incomplete, ""},
		"begun":  {map[string]string{refresh.BegunTag: begun}, report.Replacing, report.Incomplete, "the rollout that began at 2026-11-23T12:00:00Z has not ended, and no trigger works on it: 3 of 3 instances outdated; run the same command again to continue"},
		"leased": {map[string]string{refresh.BegunTag: begun, refresh.LeaseTag: lease(time.Minute)}, report.Replacing, "", "the trigger ci-1/42 works on the group: 3 of 3 instances outdated"},
		"killed": {map[string]string{refresh.LeaseTag: lease(-time.Minute)}, report.Finished, report.Incomplete, ""},
	} {
		a := newFakeAWS(3)
		a.group.Tags = tt.tags
		got, err := New(defaults(), a, nil, nil, nil).Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if g := got.Groups[0]; g.Phase != tt.phase || g.Outcome != tt.outcome || g.Message != tt.want {
			t.Errorf("%s: %s, %q, %q", name, g.Phase, g.Outcome, g.Message)
		}
	}
}

// TestPlanWithoutPods: a plan without permission to list pods has a warning.
func TestPlanWithoutPods(t *testing.T) {
	t.Parallel()
	var last [2]int
	plans, err := plan.NewPlanner(defaults(), newFakeAWS(3), forbiddenPods{&fakeCluster{}}).Plan(t.Context(), func(read, of int) {
		last = [2]int{read, of}
	})
	if err != nil || last != [2]int{1, 1} {
		t.Fatalf("%v after %v groups", err, last)
	}
	warned := slices.ContainsFunc(plans[0].Findings, func(f refresh.Finding) bool {
		return f.Level == refresh.Warn && strings.Contains(f.Text, "pods is forbidden")
	})
	if plans[0].Outdated != 3 || !warned {
		t.Errorf("the plan is %+v", plans[0])
	}
}

// forbiddenPods is a cluster whose pods may not be listed.
type forbiddenPods struct{ *fakeCluster }

func (forbiddenPods) Loads(context.Context, []string) (map[string]cluster.Load, error) {
	return nil, errors.New("list pods: pods is forbidden")
}

func (forbiddenPods) SinglePods(context.Context, map[string]cluster.Load) ([]string, error) {
	return nil, nil
}

// TestEmptyGroup: lists without an element are empty, not null, in JSON.
func TestEmptyGroup(t *testing.T) {
	t.Parallel()
	a := newFakeAWS(0)
	plans, err := plan.NewPlanner(defaults(), a, nil).Plan(t.Context(), func(int, int) {})
	if err != nil {
		t.Fatal(err)
	}
	status, err := New(defaults(), a, nil, nil, nil).Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, got := range []any{plans, status} {
		if text, err := json.Marshal(got); err != nil || strings.Contains(string(text), "null") {
			t.Errorf("%s, %v", text, err)
		}
	}
}
