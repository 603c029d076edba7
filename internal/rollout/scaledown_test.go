package rollout

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/internal/cluster"
	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/rollout/plan"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

func (fakeWrites) DisableScaleDown(context.Context, cluster.Node, string) (bool, error) {
	return false, errors.New("no test expects that")
}

func (fakeWrites) EnableScaleDown(context.Context, cluster.Node) error {
	return errors.New("no test expects that")
}

// scaleDownAWS keeps which nodes an autoscaler must not remove.
type scaleDownAWS struct {
	*fakeAWS
	fails error
	now   map[string]bool
	ever  map[string]bool
}

func (s scaleDownAWS) DisableScaleDown(_ context.Context, n cluster.Node, group string) (bool, error) {
	if s.fails != nil || group != "workers" {
		return false, s.fails
	}
	s.now[n.Name], s.ever[n.Name] = true, true
	return true, nil
}

func (s scaleDownAWS) EnableScaleDown(_ context.Context, n cluster.Node) error {
	delete(s.now, n.Name)
	return nil
}

// TestNewNodesAreNotScaledDown: without a launch hook the trigger keeps the Cluster Autoscaler from removing new nodes,
// in each mode, for as long as the rollout takes.
func TestNewNodesAreNotScaledDown(t *testing.T) {
	noLaunchHook := func(a *fakeAWS) { a.hooks = a.hooks[:1] }
	for name, tt := range map[string]struct {
		before func(a *fakeAWS)
		change func(*plan.Config)
		fails  error
		view   plan.Cluster
		want   report.Outcome
		ever   string // the nodes that were kept at any time
		left   string // those that are at the end
	}{
		"no launch hook": {noLaunchHook, nil, nil, &fakeCluster{}, report.Done, "node-i-11 node-i-22 node-i-33", ""},
		"AWS continues": {
			noLaunchHook, func(c *plan.Config) { c.Timeout = time.Minute }, nil, &fakeCluster{}, report.TimedOut, "node-i-4", "node-i-4",
		},
		"a launch hook":      {func(*fakeAWS) {}, nil, nil, &fakeCluster{}, report.Done, "", ""},
		"without Kubernetes": {noLaunchHook, nil, nil, nil, report.Done, "", ""},
		"it is not allowed":  {noLaunchHook, nil, errors.New("forbidden"), &fakeCluster{}, report.Done, "", ""},
		"in batches":         {noLaunchHook, func(c *plan.Config) { *c = unhealthyDefaults() }, nil, &fakeCluster{}, report.Done, "node-i-1-new node-i-2-new node-i-3-new", ""},
	} {
		runInBubble(t, name, func(t *testing.T) {
			a, cfg := scaleDownAWS{newFakeAWS(3), tt.fails, map[string]bool{}, map[string]bool{}}, defaults()
			tt.before(a.fakeAWS)
			if tt.change != nil {
				tt.change(&cfg)
			}
			switch {
			case cfg.Timeout > 0:
				a.script = func(reads int) {
					if reads == 4 {
						a.group.Instances = append(a.group.Instances, instance("i-4", "2"))
					}
				}
			case cfg.Mode == refresh.ModeUnhealthy:
				a.script = replaceUnhealthy(a.fakeAWS)
			default:
				a.script = func(reads int) { succeedAt(4)(a.fakeAWS, reads) }
			}
			expect(t, runGroup(t.Context(), t, cfg, a, tt.view), tt.want)
			names := func(of map[string]bool) string { return strings.Join(slices.Sorted(maps.Keys(of)), " ") }
			if names(a.ever) != tt.ever || names(a.now) != tt.left {
				t.Errorf("kept were %q, want %q; left are %q, want %q", names(a.ever), tt.ever, names(a.now), tt.left)
			}
		})
	}
}

// TestScaleDownLeftByAKilledRun: the next run enables the scale-down again, unless a refresh is under way.
func TestScaleDownLeftByAKilledRun(t *testing.T) {
	for name, tt := range map[string]struct {
		active bool
		left   string
	}{"nothing is under way": {false, ""}, "a refresh is under way": {true, "node-i-3"}} {
		runInBubble(t, name, func(t *testing.T) {
			cfg := unhealthyDefaults()
			a := scaleDownAWS{newFakeAWS(3), nil, map[string]bool{"node-i-3": true}, map[string]bool{}}
			a.Tainter = newFakeTainter()
			a.replaceAll("2")
			for n := range a.group.Instances { // replaceAll has renamed them
				a.group.Instances[n].ID = fmt.Sprintf("i-%d", n+1)
			}
			if tt.active {
				a.begin("r-9", nil)
			} else {
				a.refreshes = nil
			}
			expect(t, runGroup(t.Context(), t, cfg, a, markedNodes{&fakeCluster{}}), report.Nothing)
			if left := strings.Join(slices.Sorted(maps.Keys(a.now)), " "); left != tt.left {
				t.Errorf("the scale-down of %q is disabled, want %q", left, tt.left)
			}
		})
	}
}

// markedNodes are nodes of instances that a rollout has tainted, or keeps.
type markedNodes struct{ *fakeCluster }

func (m markedNodes) Node(id string) (cluster.Node, bool) {
	n, known := m.fakeCluster.Node(id)
	if n.Tainted = id != "i-3"; !n.Tainted {
		n.ScaleDownGroup = "workers"
	}
	return n, known
}

// TestHoldsOfNodes: a plan lists what is held of the nodes, and by whom.
func TestHoldsOfNodes(t *testing.T) {
	t.Parallel()
	a := newFakeAWS(3)
	a.group.Tags = map[string]string{refresh.LeaseTag: "ci-1/42 2026-11-23T12:00:00Z"}
	plans, err := plan.NewPlanner(defaults(), a, markedNodes{&fakeCluster{}}).Plan(t.Context(), func(int, int) {})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, h := range plans[0].Holds {
		got = append(got, string(h.Kind)+" "+h.Owner+": "+h.Text)
	}
	want := []string{
		"lease ci-1/42: lease of the group", "taint ci-1/42: taint node-drainer.io/outdated on node-i-1, node-i-2",
		"scale-down ci-1/42: scale-down disabled of node-i-3",
	}
	if !slices.Equal(got, want) {
		t.Errorf("held are %q, want %q", got, want)
	}
}
