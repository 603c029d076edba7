package rollouts

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/internal/autoscaler"
	groups "github.com/node-drainer/node-drainer/internal/autoscaling"
	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/rollout"
	"github.com/node-drainer/node-drainer/internal/rollout/plan"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// unleased reads no lease.
type unleased struct{ plan.Reader }

func (u unleased) Find(ctx context.Context, s refresh.Selection) ([]refresh.Group, error) {
	all, err := u.Reader.Find(ctx, s)
	for _, g := range all {
		delete(g.Tags, refresh.LeaseTag)
	}
	return all, err
}

func (u unleased) Group(ctx context.Context, name string) (refresh.Group, error) {
	g, err := u.Reader.Group(ctx, name)
	all := map[string]string{}
	for key, value := range g.Tags {
		if key != refresh.LeaseTag {
			all[key] = value
		}
	}
	g.Tags = all
	return g, err
}

// neverResumes never resumes the Cluster Autoscaler.
type neverResumes struct{ plan.Autoscaler }

func (neverResumes) Resume(context.Context, autoscaler.Pause) (bool, error) { return true, nil }

func reads(by func(plan.Reader) plan.Reader) mutant { return mutant{reader: by} }

func writes(f Forgetful) mutant {
	return mutant{writer: func(w rollout.Writer) rollout.Writer { f.Writer = w; return f }}
}

func ignores(what func(*plan.Config)) mutant { return mutant{config: what} }

// believing takes each description of a group for what is so, however late AWS describes it.
func believing(r plan.Reader) plan.Reader {
	if one, ok := r.(reader); ok {
		one.Follow(groups.NewWriter(nil)) // which has written nothing
	}
	return r
}

// secondGroup adds another group, of a later wave.
func secondGroup(s *Spec) {
	s.Groups = append(s.Groups, s.Groups[0])
	s.Groups[0].Wave, s.Groups[1].Name, s.Groups[1].Wave = "1", "g2", "2"
}

// TestMutants: the judge finds faults of a trigger.
func TestMutants(t *testing.T) {
	isBlind := reads(func(r plan.Reader) plan.Reader { return Blind{r, true} })
	for name, tt := range map[string]struct {
		mode   refresh.Mode
		mutant mutant
		change func(*Spec)
		want   string
	}{
		"compares wrongly, in mode unhealthy": {refresh.ModeUnhealthy, isBlind, nil, "current instances stay"},
		"compares wrongly, in mode standby":   {refresh.ModeStandby, isBlind, nil, "current instances stay"},
		"keeps a surge":                       {refresh.ModeUnhealthy, writes(Forgetful{Surge: true}), nil, "capacity restored"},
		"keeps instances in Standby":          {refresh.ModeStandby, writes(Forgetful{Standby: true}), nil, "nothing left"},
		"keeps processes suspended": {refresh.ModeUnhealthy, writes(Forgetful{Processes: true}), func(s *Spec) {
			s.Options.Suspend = []string{"AZRebalance"}
		}, "nothing left"},
		"keeps the Cluster Autoscaler paused": {refresh.ModeUnhealthy, ignores(func(c *plan.Config) {
			c.Autoscaler = neverResumes{c.Autoscaler}
		}), func(s *Spec) {
			s.Kubernetes, s.Options.Autoscaler = true, true
		}, "nothing left"},
		"keeps the maximum": {refresh.ModeUnhealthy, writes(Forgetful{Most: true}), func(s *Spec) {
			s.Options.RaiseMax, s.Groups[0].Max = true, 4
		}, "capacity restored"},
		"ignores windows": {refresh.ModeUnhealthy, ignores(func(c *plan.Config) { c.Windows = nil }), func(s *Spec) {
			s.Options.Windows = true
		}, "windows kept"},
		"ignores the gate": {refresh.ModeStandby, ignores(func(c *plan.Config) { c.Gate = nil }), func(s *Spec) {
			s.Options.Gate = true
		}, "gate passed"},
		"ignores waves": {
			refresh.ModeUnhealthy, ignores(func(c *plan.Config) { c.Order = []string{"g2", "g1"} }), secondGroup, "waves kept",
		},
		"replaces all groups at once": {
			refresh.ModeUnhealthy, ignores(func(c *plan.Config) { c.Parallel = 0 }), func(s *Spec) {
				secondGroup(s)
				s.Groups[0].Wave, s.Groups[1].Wave = "", ""
			}, "turns kept",
		},
		"ignores labels": {refresh.ModeStandby, ignores(func(c *plan.Config) { c.Exclude = nil }), func(s *Spec) {
			s.Kubernetes, s.Options.Exclude, s.Groups[0].Excluded = true, true, 1
		}, "others untouched"},
		"takes larger batches": {
			refresh.ModeUnhealthy, ignores(func(c *plan.Config) { c.Pace.Batch.N = 3 }), func(s *Spec) { s.Launch = 30 * time.Second }, "capacity kept",
		},
		"takes late descriptions for what is so": {refresh.ModeUnhealthy, reads(believing), func(s *Spec) {
			s.Visible, s.Options.OnInterrupt, s.Runs[0].Interrupt = 12*time.Second, plan.Cancel, 6*time.Second
		}, "capacity restored"},
		"sees no lease": {
			refresh.ModeUnhealthy, reads(func(r plan.Reader) plan.Reader { return unleased{r} }), func(s *Spec) {
				s.Groups[0].Old, s.Groups[0].Size, s.Groups[0].Max = 6, 7, 12
				s.Visible, s.Launch = 10*time.Second, 30*time.Second
				s.Runs = []Run{{}, {At: time.Second}, {At: 3 * time.Second}}
			}, "one at a time",
		},
	} {
		t.Run(name, func(t *testing.T) {
			spec := plain(tt.mode)
			if tt.change != nil {
				tt.change(&spec)
			}
			if r := Simulate(t, spec); len(r.Violations) > 0 {
				t.Fatalf("without the fault: %v\n%s", r.Violations, r.Log())
			}
			r := simulate(t, spec, tt.mutant)
			found := func(v Violation) bool { return v.Invariant == tt.want }
			if !slices.ContainsFunc(r.Violations, found) {
				t.Errorf("violations %v, want one of %s\n%s", r.Violations, tt.want, r.Log())
			}
		})
	}
}

// TestStopped: a trigger that takes each instance for an outdated one replaces a batch, and no instance that the group
// has launched for that. In mode refresh AWS compares by itself, and EKS in mode nodegroup.
func TestStopped(t *testing.T) {
	for mode, want := range map[refresh.Mode]struct {
		outcome report.Outcome
		once    string // What is called once, also by a watch that looks at the group for hours.
	}{
		refresh.ModeUnhealthy: {report.Ineffective, ""},
		refresh.ModeStandby:   {report.Ineffective, ""},
		refresh.ModeRefresh:   {report.Incomplete, "StartInstanceRefresh g1"},
		refresh.ModeNodegroup: {report.Incomplete, "UpdateNodegroupVersion g1"},
	} {
		for _, command := range []Command{Trigger, Watch} {
			t.Run(fmt.Sprintf("%s/trigger %s", mode, command), func(t *testing.T) {
				spec := plain(mode)
				spec.Quirk = ForeignVersion
				spec.Runs = []Run{{Command: command, Interrupt: 5 * time.Hour}}
				r := simulate(t, spec, reads(func(r plan.Reader) plan.Reader { return Blind{r, false} }))
				if len(r.Violations) > 0 || r.Outcomes[want.outcome] == 0 {
					t.Errorf("violations %v, outcomes %v\n%s", r.Violations, r.Outcomes, r.Log())
				}
				if n := strings.Count(r.Log(), "ci-1/1     "+want.once); want.once != "" && n != 1 {
					t.Errorf("%s was called %d times\n%s", want.once, n, r.Log())
				}
			})
		}
	}
}

// plain is a group of four instances, of which one is current, and two runs.
func plain(mode refresh.Mode) Spec {
	isNodegroup := mode == refresh.ModeNodegroup
	return Spec{
		Seed: 1,
		Groups: []Group{{
			Name: "g1", Old: 3, Size: 4, Max: 8, Zones: 2, Version: "$Latest",
			Hooks: []Hook{{Name: "drain", Takes: 30 * time.Second}}, Nodegroup: isNodegroup, MaxUnavailable: 1,
		}},
		Options: Options{
			Mode: mode, Surge: refresh.Amount{N: 1}, Batch: refresh.Amount{N: 1}, Order: refresh.ByAge,
			Then: refresh.ThenTerminate, Pin: refresh.PinAuto, OnConflict: plan.Attach,
			Together: refresh.PhaseCheck, Parallel: 1, OnInterrupt: plan.Detach, Until: plan.Drained,
			Stall: time.Hour, Poll: 5 * time.Second,
		},
		Runs: []Run{{}},
	}
}
