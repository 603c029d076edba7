package report

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/node-drainer/node-drainer/internal/cluster"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// TestChanges has the changes that TestGolden does not have.
func TestChanges(t *testing.T) {
	t.Parallel()
	base := Group{
		Name: "workers", Mode: refresh.ModeRefresh, Phase: Replacing, Target: "version 7", Total: 2, Refresh: "r-1", Status: "InProgress",
		Instances: oldInstances("InService", 1, 2),
	}
	draining := func(reason, message string) Group {
		g := base
		g.Instances = oldInstances("Terminating:Wait", 1)
		g.Instances[0].Node = drainOf("ip-10-0-1-1", reason, message)
		return g
	}
	changed := func(change func(*Group)) Group {
		g := base
		g.Instances = slices.Clone(base.Instances)
		change(&g)
		return g
	}
	for name, row := range map[string]struct {
		before *Group // nil: there is none.
		after  Group
		want   []string
	}{
		"the first state reports the refresh, but no instances in service": {
			nil, base, []string{"started ok instance refresh r-1 started: version 7, 2 instances", "status ok instance refresh InProgress"},
		},
		"the first state reports pending and terminating instances": {
			nil,
			Group{Name: "workers", Instances: append(oldInstances("Terminating:Wait", 1), newInstance(2, "Pending", false))},
			[]string{"instance ok i-0a01 Terminating:Wait (node ip-10-0-1-1): no agent has marked the node yet; is one running?", "instance ok i-0b02 Pending"},
		},
		"an active refresh is followed": {
			&Group{Name: "workers"}, changed(func(g *Group) { g.Attached, g.Status, g.Instances = true, "Pending", nil }),
			[]string{"started ok instance refresh r-1 was active and is followed: version 7, 2 instances"},
		},
		"a status that is a warning": {
			&base, changed(func(g *Group) { g.Status = "RollbackInProgress" }), []string{"status warn instance refresh RollbackInProgress"},
		},
		"a failure": {
			&base, changed(func(g *Group) { g.Status, g.Reason = "Failed", "an alarm" }), []string{"status refuse instance refresh Failed: an alarm"},
		},
		"a new reason of the same status": {
			&base, changed(func(g *Group) { g.Reason = "warming up" }), []string{"status ok instance refresh InProgress: warming up"},
		},
		"a removed reason": {new(changed(func(g *Group) { g.Reason = "warming up" })), base, nil},
		"an instance is retained": {
			&base, changed(func(g *Group) { g.Instances[0].State = "Terminating:Retained" }),
			[]string{"instance warn i-0a01 Terminating:Retained (node ip-10-0-1-1)"},
		},
		"a new node is Ready": {
			new(changed(func(g *Group) { g.Instances = []Instance{newInstance(3, "InService", false)} })),
			changed(func(g *Group) { g.Instances = []Instance{newInstance(3, "InService", true)} }),
			[]string{"instance ok i-0b03 node ip-10-0-2-3 is Ready"},
		},
		"an old node becomes Ready": {
			new(changed(func(g *Group) { g.Instances[0].Node = &cluster.Node{Name: "ip-10-0-1-1"} })), base, nil,
		},
		"a drain is blocked": {
			new(draining("Draining", "9 of 14 pods left")), draining("Blocked", "9 of 14 pods left; 2 wait for shop/api"),
			[]string{"drain warn i-0a01 Terminating:Wait (node ip-10-0-1-1): 9 of 14 pods left; 2 wait for shop/api"},
		},
		"a drain is blocked by another budget": {
			new(draining("Blocked", "2 of 14 pods left; 2 wait for shop/api-1")), draining("Blocked", "1 of 14 pods left; 1 wait for shop/api-2"),
			[]string{"drain warn i-0a01 Terminating:Wait (node ip-10-0-1-1): 1 of 14 pods left; 1 wait for shop/api-2"},
		},
		"a node is drained": {
			new(draining("Blocked", "1 of 14 pods left; 1 wait for shop/api")), draining("Drained", "All 14 pods have left the node"),
			[]string{"drain ok i-0a01 Terminating:Wait (node ip-10-0-1-1): All 14 pods have left the node"},
		},
		"the progress of batches": {
			&Group{Name: "workers", Mode: refresh.ModeUnhealthy, Total: 3},
			Group{Name: "workers", Mode: refresh.ModeUnhealthy, Total: 3, Gone: 2},
			[]string{"progress ok 2 of 3 old instances gone"},
		},
		"it fails":      {&base, changed(func(g *Group) { g.Outcome = Stalled }), []string{"outcome refuse stalled"}},
		"it is skipped": {&base, changed(func(g *Group) { g.Outcome = Skipped }), []string{"outcome warn skipped"}},
		"it had ended before": {
			new(changed(func(g *Group) { g.Outcome = Done })), changed(func(g *Group) { g.Outcome = Done }), nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var before Group
			if row.before != nil {
				before = *row.before
			}
			var got []string
			for _, c := range Changes(before, row.after, at(9)) {
				if c.Text == "" {
					continue
				}
				got = append(got, fmt.Sprintf("%s %s %s", c.Kind, c.Level, c.Text))
				if c.At.IsZero() || c.Group.Name != "workers" {
					t.Errorf("%q has the time %v and the group %q", c.Text, c.At, c.Group.Name)
				}
			}
			if diff := cmp.Diff(row.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
