package observe_test

import (
	"fmt"
	"maps"
	"time"

	"github.com/node-drainer/node-drainer/pkg/launch"
	"github.com/node-drainer/node-drainer/pkg/node"
)

// launchFacts are those of launching instances.
func launchFacts() []fact {
	action := func(more map[string]any) map[string]any {
		out := map[string]any{"instance": "i-00000000000000001", "group": "group-1", "hook": "hook-1"}
		maps.Copy(out, more)
		return out
	}
	missing := []string{"Ready", "DaemonSet kube-system/cni"}
	many := make([]string, 12)
	for i := range many {
		many[i] = fmt.Sprintf("taint t/%d", i)
	}
	ended := func(outcome launch.Outcome, level string, metrics map[string]float64) fact {
		moved := map[string]float64{fmt.Sprintf("launches_total{outcome=%q}", outcome): 1, "launches_active": -1}
		maps.Copy(moved, metrics)
		return fact{
			name: "LaunchEnded, " + string(outcome), tell: func(d *desk, s subject) { d.LaunchEnded(s.event, outcome, time.Minute) },
			line:    action(map[string]any{"level": level, "message": "launch ended", "outcome": string(outcome)}),
			metrics: moved,
		}
	}
	return []fact{
		{
			name: "LaunchBegan", tell: func(d *desk, s subject) { d.LaunchStarted(s.event) },
			line:    action(map[string]any{"level": "info", "message": "launch started"}),
			metrics: map[string]float64{"launches_active": 1},
		},
		{
			name: "LaunchWaits", tell: func(d *desk, s subject) { d.LaunchWaiting(s.event, s.node.Name, missing) },
			line: action(map[string]any{
				"level": "info", "message": "waiting for the node to become ready", "node": "node-1", "missing": "Ready, DaemonSet kube-system/cni",
			}),
		},
		{
			name: "LaunchOverdue", tell: func(d *desk, s subject) { d.LaunchOverdue(s.event, s.node, missing, launch.Abandoned) },
			line: action(map[string]any{
				"level": "warn", "message": "node not ready in time", "node": "node-1", "outcome": "abandoned",
				"missing": "Ready, DaemonSet kube-system/cni",
			}),
			events: []string{"node node-1 (uid-1) NodeNotReadyInTime warning=true: The node of the launching instance " +
				"i-00000000000000001 still waits for Ready, DaemonSet kube-system/cni: the launch is abandoned, and the " +
				"group terminates the instance"},
		},
		{
			name: "LaunchOverdue, and let go on", tell: func(d *desk, s subject) { d.LaunchOverdue(s.event, s.node, many, launch.Continued) },
			line: action(map[string]any{"level": "warn", "outcome": "continued"}),
			events: []string{"node node-1 (uid-1) NodeNotReadyInTime warning=true: The node of the launching instance " +
				"i-00000000000000001 still waits for taint t/0, taint t/1, taint t/2, taint t/3, taint t/4, taint t/5, taint t/6, " +
				"taint t/7, taint t/8, taint t/9 and 2 more: it goes into service all the same"},
		},
		{
			name: "LaunchOverdue, without a node", tell: func(d *desk, s subject) {
				d.LaunchOverdue(s.event, node.Node{}, []string{launch.Unregistered}, launch.Abandoned)
			},
			line: action(map[string]any{"level": "warn", "node": "", "missing": "a registered Node"}),
		},
		{
			name: "LaunchRestored", tell: func(d *desk, s subject) { d.LaunchUncordoned(s.event, s.node) },
			line: action(map[string]any{"level": "info", "message": "node uncordoned", "node": "node-1"}),
			events: []string{"node node-1 (uid-1) Uncordoned warning=false: Instance i-00000000000000001 is launching again: " +
				"what its termination had put on the node is off"},
		},
		ended(launch.Ready, "info", map[string]float64{"launch_duration_seconds_count": 1, "launch_duration_seconds_sum": 60}),
		ended(launch.Pooled, "info", nil),
		ended(launch.Gone, "info", nil),
		ended(launch.Abandoned, "warn", nil),
		ended(launch.Continued, "warn", nil),
		ended(launch.Unconfirmed, "warn", nil),
		{
			name: "NodeProtected", tell: func(d *desk, s subject) { d.NodeProtected(s.node, s.action.Group) },
			line: map[string]any{"level": "info", "node": "node-1", "group": "group-1"},
		},
		{
			name: "NodeUnprotected", tell: func(d *desk, s subject) { d.NodeUnprotected(s.node, s.action.Group) },
			line: map[string]any{"level": "info", "node": "node-1", "group": "group-1"},
		},
		{
			name: "ProtectionFailed", tell: func(d *desk, s subject) { d.ProtectionFailed(s.node.Name, s.action.Group, errOutage) },
			line: map[string]any{"level": "warn", "node": "node-1", "group": "group-1", "error": "no answer"},
		},
	}
}
