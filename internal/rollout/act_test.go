package rollout

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/pkg/cluster"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// TestAct is what becomes of cancelling and rolling back, and what is said where that cannot be.
func TestAct(t *testing.T) {
	for name, tt := range map[string]struct {
		do     Action
		before func(a *amazon)
		want   report.Outcome
		words  []string
	}{
		"a refresh is cancelled": {ActCancel, func(*amazon) {}, report.Done, []string{"r-1 is cancelled"}},
		"there is none to cancel": {
			ActCancel, func(a *amazon) { a.refreshes = nil }, report.Nothing, []string{"no instance refresh is under way"},
		},
		"it was successful before it could be cancelled": {
			ActCancel, func(a *amazon) {
				a.script = func(looks int) {
					if looks == 2 {
						a.status(refresh.StatusSuccessful, "")
					}
				}
			}, report.Failed, []string{"r-1 is Successful; it is not cancelled"},
		},
		"there is none to roll back": {
			ActRollback, func(a *amazon) { a.refreshes = nil }, report.Error, []string{"--launch-template-version"},
		},
		"it cannot be rolled back": {
			ActRollback, func(a *amazon) { a.errs["Rollback"] = []error{refresh.ErrIrreversible} }, report.Error,
			[]string{"desired configuration", "trigger cancel", "--launch-template-version"},
		},
		"the launch template cannot be read": {
			ActCancel, func(a *amazon) { a.unread = errors.New("AccessDenied") }, report.Done, []string{"r-1 is cancelled"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, told := newAmazon(3), &teller{}
				a.begin("r-1", &refresh.Source{Template: template("2")})
				tt.before(a)
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				if _, err := New(defaults(), a, a, nil, told).Act(ctx, tt.do); err != nil {
					t.Fatal(err)
				}
				expect(t, told.last.Groups[0], tt.want, tt.words...)
			})
		})
	}
}

// TestActOnSeveral: what is to be stopped is told to all groups at once, though one after the other was
// rolled out, and none waits for the end of another.
func TestActOnSeveral(t *testing.T) {
	for _, a := range []Action{ActCancel, ActRollback, ActPause, ActResume} {
		t.Run(string(a), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &slow{several: several{newAmazon(1), []string{"a", "b", "c"}}}
				cfg := defaults()
				cfg.Parallel, cfg.Wait, cfg.FailFast = 1, false, true
				if _, err := New(cfg, s, s, nil, &teller{}).Act(t.Context(), a); err != nil {
					t.Fatal(err)
				}
				if s.most != 3 {
					t.Errorf("%d groups at a time, want all 3", s.most)
				}
			})
		})
	}
}

// slow is an AWS that takes a minute for what is asked of it, and counts how much that is at a time.
type slow struct {
	several
	now, most int
}

func (s *slow) act() (string, error) {
	s.add(1)
	time.Sleep(time.Minute)
	s.add(-1)
	return "r-1", nil
}

func (s *slow) add(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now += n
	s.most = max(s.most, s.now)
}

func (s *slow) Cancel(context.Context, string) (string, error)   { return s.act() }
func (s *slow) Rollback(context.Context, string) (string, error) { return s.act() }
func (s *slow) Pause(context.Context, string) error              { _, err := s.act(); return err }
func (s *slow) Resume(context.Context, string) error             { _, err := s.act(); return err }

// TestStatusGoesByTheRefresh: what is old is what the refresh replaces, though the group itself is at the
// old version yet.
func TestStatusGoesByTheRefresh(t *testing.T) {
	t.Parallel()
	a := newAmazon(3)
	a.group.Source.Template.Version = "1"
	a.group.Instances[0] = instance("i-new", "2")
	a.begin("r-1", &refresh.Source{Template: template("2")})
	got, err := New(defaults(), a, nil, nil, nil).Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range got.Groups[0].Instances {
		if i.Old == (i.ID == "i-new") {
			t.Errorf("%s is told to be old: %t", i.ID, i.Old)
		}
	}
}

// TestPlanWithoutPods: what may not be read of the cluster is said, and does not cost the plan.
func TestPlanWithoutPods(t *testing.T) {
	t.Parallel()
	plans, err := NewPlanner(defaults(), newAmazon(3), forbidden{&nodes{}}).Plan(t.Context())
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

// forbidden is a cluster whose pods may not be listed.
type forbidden struct{ *nodes }

func (forbidden) Loads(context.Context, []string) (map[string]cluster.Load, error) {
	return nil, errors.New("list pods: pods is forbidden")
}
