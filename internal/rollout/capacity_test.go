package rollout

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/rollout/hold"
	"github.com/node-drainer/node-drainer/internal/rollout/plan"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

func (a fakeReads) CapacityChanges(context.Context, string, time.Time) ([]refresh.CapacityChange, error) {
	return a.changes, nil
}

// raised has the activities of the group show that its desired capacity was raised.
func (a *fakeAWS) raised(from, to int) {
	a.changes = append(a.changes, refresh.CapacityChange{At: time.Now(), From: from, To: to, By: refresh.BySetDesired})
}

// TestResumeOfARaiseInDoubt: a trigger was killed while it raised the desired capacity from 3 to 5, and an autoscaler
// has changed it to 6 since. The change of the trigger is known only when the instances are launched.
func TestResumeOfARaiseInDoubt(t *testing.T) {
	surge := func(a *fakeAWS) {
		s := refresh.RaisedBy(a.group, 2, time.Now())
		a.group.Desired, a.group.Max = 6, 9
		a.group.Tags = map[string]string{refresh.SurgeTag: s.String()}
	}
	launch := func(a *fakeAWS, from int) {
		a.group.Instances = append(a.group.Instances, instance("i-4", "1"), instance("i-5", "1"), instance("i-6", "1"))
		a.raised(from, 5)
	}
	for name, s := range map[string]scenario{
		"it was raised": {
			before: surge, script: func(a *fakeAWS, reads int) {
				if reads == 4 {
					launch(a, 3)
				}
			},
			calls: "Resume WriteSurge 3-5 Lower", want: report.Done,
		},
		"another client has raised it": {
			before: func(a *fakeAWS) { surge(a); launch(a, 4) }, calls: "Resume WriteSurge 3-3", want: report.Done,
		},
		"nothing is launched": {before: surge, calls: "Resume WriteSurge 3-3", want: report.Done},
		"it is what the trigger meant it to be, and nothing is launched": {
			before: func(a *fakeAWS) { surge(a); a.group.Desired = 5 }, calls: "Resume WriteSurge 3-3", want: report.Done,
		},
		"it was raised before, and is": {
			before: func(a *fakeAWS) { surge(a); launch(a, 3); a.tag(refresh.SurgeTag, "3-5") },
			calls:  "Resume WriteSurge 3-5 Lower", want: report.Done,
		},
		"somebody has written a tag that says so": {
			before: func(a *fakeAWS) { surge(a); launch(a, 4); a.tag(refresh.SurgeTag, "0-1000") },
			calls:  "Resume WriteSurge 4-5 Lower", want: report.Done,
		},
		"and nothing was ever raised": {
			before: func(a *fakeAWS) { a.tag(refresh.SurgeTag, "0-1000") },
			calls:  "Resume WriteSurge 0-0", want: report.Done,
		},
	} {
		runInBubble(t, name, func(t *testing.T) {
			s.do = ActResume
			began := time.Now()
			s.run(t, defaults())
			if took := time.Since(began); took > hold.ConfirmTakes+time.Minute {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// TestRaiseIsDescribedLate: AWS describes the group for a while as it was in the middle of the raise. The trigger raises
// it to the same once more, and does not take its own record for one of somebody else.
func TestRaiseIsDescribedLate(t *testing.T) {
	runInBubble(t, "", func(t *testing.T) {
		cfg := unhealthyDefaults()
		cfg.Pace.Surge = refresh.Amount{N: 1}
		scenario{
			before: func(a *fakeAWS) { a.group.Max = 9 },
			script: func(a *fakeAWS, _ int) {
				raises := len(slices.DeleteFunc(slices.Clone(a.calls), func(c string) bool { return c != "Raise 3-4" }))
				switch {
				case raises == 1:
					s := refresh.RaisedBy(a.group, 1, time.Now())
					a.group.Tags = map[string]string{refresh.SurgeTag: s.String()}
				case raises == 2 && a.group.Desired == 3:
					a.group.Desired, a.group.Tags = 4, map[string]string{refresh.SurgeTag: "3-4"}
					a.group.Instances = append(a.group.Instances, instance("i-4", "2"))
				}
			},
			stop: 2 * time.Minute, want: report.Interrupted, words: []string{"stays raised from 3 to 4"},
			calls: "Raise 3-4 Raise 3-4 Mark i-1",
		}.run(t, cfg)
	})
}

// TestInterruptOfARaiseInDoubt: nothing is lowered before it is known who has raised the desired capacity, and the user
// is told.
func TestInterruptOfARaiseInDoubt(t *testing.T) {
	runInBubble(t, "interrupted", func(t *testing.T) {
		cfg := unhealthyDefaults()
		cfg.OnInterrupt, cfg.Pace.Surge = plan.Cancel, refresh.Amount{N: 2}
		scenario{
			before: func(a *fakeAWS) {
				s := refresh.RaisedBy(a.group, 2, time.Now())
				a.group.Desired, a.group.Max = 6, 9
				a.group.Tags = map[string]string{refresh.SurgeTag: s.String()}
			},
			stop: 20 * time.Second, want: report.Interrupted, words: []string{"stays raised from 3 to 5", "run the same command"},
		}.run(t, cfg)
	})
}

// TestSurgeOfAnInstanceThatIsReplaced: a run that was killed was about to terminate an instance with a part of the
// surge. The next one has the group replace it, so that this part stays.
func TestSurgeOfAnInstanceThatIsReplaced(t *testing.T) {
	runInBubble(t, "", func(t *testing.T) {
		cfg := unhealthyDefaults()
		cfg.Pace.Surge = refresh.Amount{N: 1}
		scenario{
			before: func(a *fakeAWS) {
				a.group.Instances = append(a.group.Instances, instance("i-4", "1"))
				a.group.Desired, a.group.Max = 4, 9
				a.group.Tags = map[string]string{refresh.SurgeTag: "3-4 i-1"}
				a.raised(3, 4)
			},
			stop: 20 * time.Second, want: report.Interrupted, words: []string{"stays raised from 3 to 4"},
			calls: "WriteSurge 3-4 Mark i-1",
		}.run(t, cfg)
	})
}

// TestInterruptBeforeNewNodesAreReady: what is taken back of a surge are the instances that do not serve yet. Auto
// Scaling, which knows nothing of nodes, would terminate old ones.
func TestInterruptBeforeNewNodesAreReady(t *testing.T) {
	for name, tt := range map[string]struct {
		state   string // of the second new instance; the first is in service
		unready []string
		taken   string // terminates already
		calls   string
	}{
		"none is ready":                {"InService", []string{"i-4", "i-5"}, "", "Terminate i-5 Terminate i-4 Lower"},
		"one is ready":                 {"InService", []string{"i-5"}, "", "Terminate i-5 Lower"},
		"one is being launched":        {"Pending:Wait", nil, "", "Terminate i-5 Lower"},
		"one is terminating by itself": {"InService", []string{"i-4", "i-5"}, "i-4", "Terminate i-5 Terminate i-4 Lower"},
		"it is not known":              {"InService", nil, "", "Lower"},
	} {
		runInBubble(t, name, func(t *testing.T) {
			a, cfg, nodes := newFakeAWS(3), unhealthyDefaults(), &fakeCluster{unready: map[string]bool{}}
			cfg.OnInterrupt, cfg.Pace.Surge = plan.Cancel, refresh.Amount{N: 2}
			a.group.Desired, a.group.Max, a.taken = 5, 9, map[string]bool{tt.taken: true}
			a.group.Tags = map[string]string{refresh.SurgeTag: "3-5"}
			a.raised(3, 5)
			a.group.Instances = append(a.group.Instances, instance("i-4", "2"), instance("i-5", "2"))
			a.group.Instances[4].State = tt.state
			for _, id := range tt.unready {
				nodes.unready[id] = true
			}
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second) // The lease settles, and nothing is marked yet.
			defer cancel()
			if len(tt.unready) == 0 && tt.state == "InService" {
				nodes.stale = errors.New("the nodes are not read")
			}
			expect(t, runGroup(ctx, t, cfg, a, nodes), report.Interrupted, "the desired capacity was lowered from 5 to 3")
			a.expectCalls(t, "WriteSurge 3-5 "+tt.calls)
			if a.group.Desired != 3 {
				t.Errorf("the desired capacity is %d", a.group.Desired)
			}
		})
	}
}
