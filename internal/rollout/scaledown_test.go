package rollout_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/internal/cluster"
	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/pkg/refresh"
	"github.com/node-drainer/node-drainer/test/awsim"
)

// TestNewNodesAreNotScaledDown: without a launch hook the trigger keeps the Cluster Autoscaler from removing new nodes,
// in each mode, for as long as the rollout takes.
func TestNewNodesAreNotScaledDown(t *testing.T) {
	noLaunchHook := func(w *world) {
		w.operator("DeleteLifecycleHook", "LifecycleHookName=ready")
		w.SetDelays(awsim.Delays{Launch: 10 * time.Second})
	}
	for name, tt := range map[string]struct {
		scenario
		ever string // the instances whose nodes were kept at any time
		left string // those at the end
	}{
		"no launch hook": {scenario{before: noLaunchHook, want: report.Done, calls: "Start"}, "i-4 i-5 i-6", ""},
		"AWS continues": {scenario{before: func(w *world) {
			noLaunchHook(w)
			w.cfg.Timeout, w.cfg.Preferences.Checkpoints = time.Minute, []int{30, 100}
		}, want: report.TimedOut, calls: "Start"}, "i-4", "i-4"},
		"a launch hook": {scenario{want: report.Done, calls: "Start"}, "", ""},
		"without Kubernetes": {
			scenario{before: func(w *world) { noLaunchHook(w); w.view = nil }, want: report.Done, calls: "Start"}, "", "",
		},
		"it is not allowed": {
			scenario{before: func(w *world) { noLaunchHook(w); w.nodes.fails = errors.New("forbidden") }, want: report.Done, calls: "Start"},
			"", "",
		},
		"in batches": {
			scenario{mode: refresh.ModeUnhealthy, before: noLaunchHook, want: report.Done, calls: markAll}, "i-4 i-5 i-6", "",
		},
	} {
		inWorld(t, name, awsim.Group{}, func(w *world) {
			w.setMode(tt.mode)
			w.play(tt.scenario)
			w.expectNodes("kept", tt.ever, slices.Sorted(maps.Keys(w.nodes.ever)))
			w.expectNodes("left", tt.left, left(w, w.nodes.scaleDown))
		})
	}
}

func (w *world) expectNodes(what, want string, got []string) {
	w.Helper()
	if got := strings.Join(got, " "); got != want {
		w.Errorf("%s are %q, want %q", what, got, want)
	}
}

// TestHoldsLeftByAKilledRun: a plan lists what is held of the nodes, and by whom. The next run enables the scale-down
// again, unless a refresh is under way.
func TestHoldsLeftByAKilledRun(t *testing.T) {
	for name, stays := range map[string]string{"nothing is under way": "", "a refresh is under way": "i-3"} {
		inWorld(t, name, awsim.Group{LaunchTemplateVersion: "1"}, func(w *world) {
			w.setMode(refresh.ModeUnhealthy)
			w.leased("ci-2/7", -time.Hour)
			w.nodes.taints = map[string]cluster.Effect{"i-1": cluster.SoftTaint, "i-2": cluster.SoftTaint}
			w.nodes.scaleDown["i-3"] = w.group
			var held []string
			for _, h := range w.plans()[0].Holds {
				held = append(held, string(h.Kind)+" "+h.Owner+": "+h.Text)
			}
			if want := []string{
				"lease ci-2/7: lease of the group", "taint ci-2/7: taint node-drainer.io/outdated on node-i-1, node-i-2",
				"scale-down ci-2/7: scale-down disabled of node-i-3",
			}; !slices.Equal(held, want) {
				w.Errorf("held are %q, want %q", held, want)
			}
			if stays != "" {
				w.otherRefresh("1")
			}
			w.play(scenario{want: report.Nothing})
			w.expectNodes("left", stays, left(w, w.nodes.scaleDown))
		})
	}
}
