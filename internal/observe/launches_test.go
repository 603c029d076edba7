package observe_test

import (
	"fmt"
	"maps"
	"time"

	"github.com/node-drainer/node-drainer/pkg/launch"
	"github.com/node-drainer/node-drainer/pkg/node"
)

// launchFacts returns the facts about launches.
func launchFacts() []fact {
	action := func(more fields) fields {
		out := fields{"instance": "i-00000000000000001", "group": "group-1", "hook": "hook-1"}
		maps.Copy(out, more)
		return out
	}
	missing := []string{"Ready", "DaemonSet kube-system/cni"}
	many := make([]string, 12)
	for i := range many {
		many[i] = fmt.Sprintf("taint t/%d", i)
	}
	ended := func(outcome launch.Outcome, level string, metrics samples) fact {
		moved := samples{fmt.Sprintf("launches_total{outcome=%q}", outcome): 1, "launches_active": -1}
		maps.Copy(moved, metrics)
		return fact{
			name: "LaunchEnded, " + string(outcome), record: func(r *recorder, s subject) { r.LaunchEnded(s.event, outcome, time.Minute) },
			line:    action(fields{"level": level, "message": "launch ended", "outcome": string(outcome)}),
			metrics: moved,
		}
	}
	return []fact{
		{
			name: "LaunchStarted", record: func(r *recorder, s subject) { r.LaunchStarted(s.event) },
			line:    action(fields{"level": "info", "message": "launch started"}),
			metrics: samples{"launches_active": 1},
		},
		{
			name: "LaunchWaiting", record: func(r *recorder, s subject) { r.LaunchWaiting(s.event, s.node.Name, missing) },
			line: action(fields{
				"level": "info", "message": "waiting for the node to become ready", "node": "node-1", "missing": "Ready, DaemonSet kube-system/cni",
			}),
		},
		{
			name: "LaunchOverdue", record: func(r *recorder, s subject) { r.LaunchOverdue(s.event, s.node, missing, launch.Abandoned) },
			line: action(fields{
				"level": "warn", "message": "node not ready in time", "node": "node-1", "outcome": "abandoned",
				"missing": "Ready, DaemonSet kube-system/cni",
			}),
			events: []string{"node node-1 (uid-1) NodeNotReadyInTime warning=true: The node of launching instance " +
				"i-00000000000000001 still waits for Ready, DaemonSet kube-system/cni: the launch is abandoned, and the " +
				"group terminates the instance"},
		},
		{
			name: "LaunchOverdue, continued", record: func(r *recorder, s subject) { r.LaunchOverdue(s.event, s.node, many, launch.Continued) },
			line: action(fields{"level": "warn", "outcome": "continued"}),
			events: []string{"node node-1 (uid-1) NodeNotReadyInTime warning=true: The node of launching instance " +
				"i-00000000000000001 still waits for taint t/0, taint t/1, taint t/2, taint t/3, taint t/4, taint t/5, taint t/6, " +
				"taint t/7, taint t/8, taint t/9 and 2 more: the instance enters service nevertheless"},
		},
		{
			name: "LaunchOverdue, without a node", record: func(r *recorder, s subject) {
				r.LaunchOverdue(s.event, node.Node{}, []string{launch.Unregistered}, launch.Abandoned)
			},
			line: action(fields{"level": "warn", "node": "", "missing": "a registered Node"}),
		},
		{
			name: "LaunchUncordoned", record: func(r *recorder, s subject) { r.LaunchUncordoned(s.event, s.node) },
			line: action(fields{"level": "info", "message": "node uncordoned", "node": "node-1"}),
			events: []string{"node node-1 (uid-1) Uncordoned warning=false: Instance i-00000000000000001 is launching again: " +
				"uncordoned after its earlier termination"},
		},
		ended(launch.Ready, "info", samples{"launch_duration_seconds_count": 1, "launch_duration_seconds_sum": 60}),
		ended(launch.Pooled, "info", nil),
		ended(launch.Gone, "info", nil),
		ended(launch.Abandoned, "warn", nil),
		ended(launch.Continued, "warn", nil),
		ended(launch.Unconfirmed, "warn", nil),
		{
			name: "NodeProtected", record: func(r *recorder, s subject) { r.NodeProtected(s.node, s.action.Group) },
			line: fields{"level": "info", "node": "node-1", "group": "group-1"},
		},
		{
			name: "NodeUnprotected", record: func(r *recorder, s subject) { r.NodeUnprotected(s.node, s.action.Group) },
			line: fields{"level": "info", "node": "node-1", "group": "group-1"},
		},
		{
			name: "ProtectionFailed", record: func(r *recorder, s subject) { r.ProtectionFailed(s.node.Name, s.action.Group, errOutage) },
			line: fields{"level": "warn", "node": "node-1", "group": "group-1", "error": "no answer"},
		},
	}
}
