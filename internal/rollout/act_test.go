package rollout

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/pkg/cluster"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// TestAct cancels and rolls back, also where that is not possible.
func TestAct(t *testing.T) {
	for name, tt := range map[string]struct {
		do     Action
		before func(a *fakeAWS)
		want   report.Outcome
		words  []string
	}{
		"a refresh is cancelled": {ActCancel, func(*fakeAWS) {}, report.Done, []string{"r-1 is cancelled"}},
		"nothing to cancel": {
			ActCancel, func(a *fakeAWS) { a.refreshes = nil }, report.Nothing, []string{"no instance refresh is under way"},
		},
		"it succeeds before it is cancelled": {
			ActCancel, func(a *fakeAWS) {
				a.script = func(reads int) {
					if reads == 2 {
						a.status(refresh.StatusSuccessful, "")
					}
				}
			}, report.Failed, []string{"r-1 is Successful; it is not cancelled"},
		},
		"nothing to roll back": {
			ActRollback, func(a *fakeAWS) { a.refreshes = nil }, report.Error, []string{"--launch-template-version"},
		},
		"it cannot be rolled back": {
			ActRollback, func(a *fakeAWS) { a.errs["Rollback"] = []error{refresh.ErrIrreversible} }, report.Error,
			[]string{"desired configuration", "trigger cancel", "--launch-template-version"},
		},
		"the launch template cannot be read": {
			ActCancel, func(a *fakeAWS) { a.templatesErr = errors.New("AccessDenied") }, report.Done, []string{"r-1 is cancelled"},
		},
	} {
		runInBubble(t, name, func(t *testing.T) {
			a, told := newFakeAWS(3), &recorder{}
			a.begin("r-1", &refresh.Source{Template: template("2")})
			tt.before(a)
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			if _, err := New(defaults(), a, a, nil, told).Act(ctx, tt.do); err != nil {
				t.Fatal(err)
			}
			expect(t, told.last.Groups[0], tt.want, tt.words...)
		})
	}
}

// TestActOnSeveral: actions reach all groups at once, whatever --parallel-asgs says.
func TestActOnSeveral(t *testing.T) {
	for _, a := range []Action{ActCancel, ActRollback, ActPause, ActResume} {
		runInBubble(t, string(a), func(t *testing.T) {
			s := &slowAWS{manyGroups: manyGroups{newFakeAWS(1), []string{"a", "b", "c"}}}
			cfg := defaults()
			cfg.Parallel, cfg.Wait, cfg.FailFast = 1, false, true
			if _, err := New(cfg, s, s, nil, &recorder{}).Act(t.Context(), a); err != nil {
				t.Fatal(err)
			}
			if s.most != 3 {
				t.Errorf("%d groups at a time, want all 3", s.most)
			}
		})
	}
}

// slowAWS is an AWS that takes a minute for what is asked of it, and counts how much that is at a time.
type slowAWS struct {
	manyGroups
	now, most int
}

func (s *slowAWS) act() (string, error) {
	s.add(1)
	time.Sleep(time.Minute)
	s.add(-1)
	return "r-1", nil
}

func (s *slowAWS) add(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now += n
	s.most = max(s.most, s.now)
}

func (s *slowAWS) Cancel(context.Context, string) (string, error)   { return s.act() }
func (s *slowAWS) Rollback(context.Context, string) (string, error) { return s.act() }
func (s *slowAWS) Pause(context.Context, string) error              { _, err := s.act(); return err }
func (s *slowAWS) Resume(context.Context, string) error             { _, err := s.act(); return err }

// TestStatusComparesWithRefresh: the instances that the refresh replaces are old, although the group still
// has the old version.
func TestStatusComparesWithRefresh(t *testing.T) {
	t.Parallel()
	a := newFakeAWS(3)
	a.group.Source.Template.Version = "1"
	a.group.Instances[0] = instance("i-new", "2")
	a.begin("r-1", &refresh.Source{Template: template("2")})
	got, err := New(defaults(), a, nil, nil, nil).Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range got.Groups[0].Instances {
		if i.Old == (i.ID == "i-new") {
			t.Errorf("%s is shown as old: %t", i.ID, i.Old)
		}
	}
}

// TestPlanWithoutPods: a plan without permission to list pods has a warning.
func TestPlanWithoutPods(t *testing.T) {
	t.Parallel()
	plans, err := NewPlanner(defaults(), newFakeAWS(3), forbiddenPods{&fakeCluster{}}).Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	told := slices.ContainsFunc(plans[0].Findings, func(f refresh.Finding) bool {
		return f.Level == refresh.Warn && strings.Contains(f.Text, "pods is forbidden")
	})
	if plans[0].Outdated != 3 || !told {
		t.Errorf("the plan is %+v", plans[0])
	}
}

// forbiddenPods is a cluster whose pods may not be listed.
type forbiddenPods struct{ *fakeCluster }

func (forbiddenPods) Loads(context.Context, []string) (map[string]cluster.Load, error) {
	return nil, errors.New("list pods: pods is forbidden")
}
