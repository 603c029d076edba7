package observe_test

import (
	"fmt"
	"maps"
	"time"

	"github.com/node-drainer/node-drainer/pkg/drain"
	"github.com/node-drainer/node-drainer/pkg/event"
	"github.com/node-drainer/node-drainer/pkg/node"
	"github.com/node-drainer/node-drainer/pkg/queue"
)

type (
	fields  = map[string]any
	samples = map[string]float64
)

// fact is a call of the Observer, and what it must write.
type fact struct {
	name       string
	record     func(r *recorder, s subject)
	line       fields  // of the log line, among others
	metrics    samples // by how much each one grows, without buckets
	events     []string
	conditions []string
}

func facts() []fact {
	action := func(more fields) fields {
		out := fields{"event": "lifecycle-terminating", "instance": "i-00000000000000001", "group": "group-1", "hook": "hook-1"}
		maps.Copy(out, more)
		return out
	}
	deadline := time.Date(2027, 3, 1, 10, 0, 0, 0, time.UTC)
	left := make([]string, 12)
	for i := range left {
		left[i] = fmt.Sprintf("web/%d", i)
	}
	const manyLeft = "The drain ended with 12 of 12 pods left on the node: " +
		"web/0, web/1, web/2, web/3, web/4, web/5, web/6, web/7, web/8, web/9 and 2 more"
	return append(append(podFacts(), launchFacts()...), []fact{
		{
			name: "MessageReceived", record: func(r *recorder, s subject) { r.MessageReceived(s.message) },
			line: fields{"level": "debug", "message_id": "m-1", "receives": 2.0, "bytes": float64(len(private))},
		},
		{
			name: "MessageSettled", record: func(r *recorder, s subject) { r.MessageSettled(s.message, queue.Retried, errOutage) },
			line:    fields{"level": "debug", "message_id": "m-1", "outcome": "retried", "reason": "no answer"},
			metrics: samples{`messages_total{outcome="retried"}`: 1},
		},
		{
			name: "MessageSettled, dropped", record: func(r *recorder, s subject) { r.MessageSettled(s.message, queue.Dropped, errOutage) },
			line:    fields{"level": "warn", "message_id": "m-1", "outcome": "dropped"},
			metrics: samples{`messages_total{outcome="dropped"}`: 1},
		},
		{
			name: "MessageRefused", record: func(r *recorder, s subject) {
				_, err := event.Parse(s.message.Body)
				r.MessageRefused(s.message, event.Reason(err), err)
			},
			line:    fields{"level": "warn", "message_id": "m-1", "reason": "malformed", "receives": 2.0},
			metrics: samples{`messages_refused_total{reason="malformed"}`: 1},
		},
		{
			name: "QueueFailed", record: func(r *recorder, s subject) { r.QueueFailed("settle message "+s.message.ID, errOutage) },
			line:    fields{"level": "warn", "api": "sqs", "operation": "settle message m-1", "error": "no answer"},
			metrics: samples{`api_errors_total{api="sqs"}`: 1},
		},
		{
			name: "AutoScalingFailed", record: func(r *recorder, s subject) { r.AutoScalingFailed("complete "+s.action.String(), errOutage) },
			line: fields{
				"level": "warn", "api": "autoscaling", "operation": "complete group-1/hook-1 for i-00000000000000001", "error": "no answer",
			},
			metrics: samples{`api_errors_total{api="autoscaling"}`: 1},
		},
		{
			name: "KubernetesFailed", record: func(r *recorder, s subject) { r.KubernetesFailed("list the pods of "+s.node.Name, errOutage) },
			line:    fields{"level": "warn", "api": "kubernetes", "operation": "list the pods of node-1", "error": "no answer"},
			metrics: samples{`api_errors_total{api="kubernetes"}`: 1},
		},
		{
			name: "LeadershipStarted", record: func(r *recorder, _ subject) { r.LeadershipStarted() },
			line:    fields{"level": "info", "message": "started leading"},
			metrics: samples{"leader": 1},
		},
		{
			name: "LeadershipEnded", record: func(r *recorder, _ subject) { r.LeadershipEnded(errOutage) },
			line: fields{"level": "info", "message": "stopped leading", "reason": "no answer"},
		},
		{
			name: "LeaderChanged", record: func(r *recorder, _ subject) { r.LeaderChanged("agent-b") },
			line:    fields{"level": "info", "message": "leader changed", "leader": "agent-b"},
			metrics: samples{"leader_transitions_total": 1},
		},
		{
			name: "LeaderChanged, none", record: func(r *recorder, _ subject) { r.LeaderChanged("") },
			line: fields{"level": "info", "message": "no leader"},
		},
		{
			name: "EventReceived", record: func(r *recorder, s subject) { r.EventReceived(s.message, s.event) },
			line: fields{
				"level": "debug", "event": "lifecycle-terminating", "event_id": "e-1", "instance": "i-00000000000000001", "message_id": "m-1",
			},
			metrics: samples{`events_total{kind="lifecycle-terminating"}`: 1},
		},
		{
			name: "EventIgnored", record: func(r *recorder, s subject) { r.EventIgnored(s.event, "requires no action") },
			line: fields{"level": "debug", "event": "lifecycle-terminating", "reason": "requires no action"},
		},
		{
			name: "TerminationStarted", record: func(r *recorder, s subject) { r.TerminationStarted(s.event) },
			line:    action(fields{"level": "info"}),
			metrics: samples{"terminations_active": 1},
		},
		{
			name: "NodeAwaited", record: func(r *recorder, s subject) { r.NodeAwaited(s.event) },
			line: action(fields{"level": "info"}),
		},
		{
			name: "NodeCordoned", record: func(r *recorder, s subject) { r.NodeCordoned(s.event, s.node, node.Mark{Deadline: deadline}) },
			line: action(fields{"level": "info", "node": "node-1", "deadline": "2027-03-01T10:00:00.000Z"}),
			events: []string{"node node-1 (uid-1) Draining warning=false: Instance i-00000000000000001 is terminating " +
				"(hook hook-1 of group group-1): draining until 2027-03-01T10:00:00Z"},
		},
		{
			name: "NodeCordoned, for maintenance", record: func(r *recorder, s subject) {
				s.event.Kind, s.event.Hook = event.ScheduledChange, event.Hook{}
				r.NodeCordoned(s.event, s.node, node.Mark{Deadline: deadline})
			},
			line: fields{"level": "info", "event": "scheduled-change", "deadline": "2027-03-01T10:00:00.000Z"},
			events: []string{"node node-1 (uid-1) Draining warning=false: AWS has scheduled maintenance of instance " +
				"i-00000000000000001: draining until 2027-03-01T10:00:00Z"},
		},
		{
			name: "NodeCordoned, cordoned only", record: func(r *recorder, s subject) {
				s.event.Kind, s.event.Hook = event.RebalanceRecommendation, event.Hook{}
				r.NodeCordoned(s.event, s.node, node.Mark{})
			},
			line: fields{"level": "info", "event": "rebalance-recommendation", "node": "node-1"},
			events: []string{"node node-1 (uid-1) Cordoned warning=false: Spot Instance i-00000000000000001 is at elevated risk " +
				"of interruption: cordoned; its pods stay on the node"},
		},
		{
			name: "Resynced, and found something", record: func(r *recorder, _ subject) { r.Resynced(40, 2, 0) },
			line: fields{"level": "info", "instances": 40.0, "found": 2.0},
		},
		{
			name: "Resynced, and messages were lost", record: func(r *recorder, _ subject) { r.Resynced(40, 0, 2) },
			line:    fields{"level": "debug", "instances": 40.0, "found": 0.0},
			metrics: samples{"messages_lost_total": 2},
		},
		{
			name: "Resynced, and found nothing", record: func(r *recorder, _ subject) { r.Resynced(40, 0, 0) },
			line: fields{"level": "debug", "instances": 40.0, "found": 0.0},
		},
		{
			name: "ResyncFailed", record: func(r *recorder, _ subject) { r.ResyncFailed(errOutage) },
			line:    fields{"level": "warn", "api": "autoscaling", "error": "no answer"},
			metrics: samples{`api_errors_total{api="autoscaling"}`: 1},
		},
		{
			name: "NodeUncordoned", record: func(r *recorder, s subject) { r.NodeUncordoned(s.node, "it is not terminating") },
			line:   fields{"level": "warn", "node": "node-1", "instance": "i-00000000000000001", "reason": "it is not terminating"},
			events: []string{"node node-1 (uid-1) Uncordoned warning=true: Uncordoned: it is not terminating"},
		},
		{
			name: "NodeDrained", record: func(r *recorder, s subject) {
				r.NodeDrained(s.event, s.node, drain.Report{Total: 3, Took: 20 * time.Second})
			},
			line:       action(fields{"level": "info", "message": "node drained", "node": "node-1", "pods": 3.0, "forced": 0.0}),
			metrics:    samples{"drain_duration_seconds_count": 1, "drain_duration_seconds_sum": 20},
			events:     []string{"node node-1 (uid-1) Drained warning=false: All 3 pods have left the node"},
			conditions: []string{"node-1 (uid-1) drained=true final=true Drained: All 3 pods have left the node"},
		},
		{
			name: "NodeDrained, by force", record: func(r *recorder, s subject) {
				r.NodeDrained(s.event, s.node, drain.Report{Total: 3, Forced: 1, Took: 20 * time.Second})
			},
			line:       action(fields{"level": "info", "message": "node drained", "node": "node-1", "pods": 3.0, "forced": 1.0}),
			metrics:    samples{"drain_duration_seconds_count": 1, "drain_duration_seconds_sum": 20},
			events:     []string{"node node-1 (uid-1) Drained warning=false: All 3 pods have left the node, 1 of them by deletion"},
			conditions: []string{"node-1 (uid-1) drained=true final=true Drained: All 3 pods have left the node, 1 of them by deletion"},
		},
		{
			name: "NodeDrained, with nothing to move", record: func(r *recorder, s subject) {
				r.NodeDrained(s.event, s.node, drain.Report{Took: time.Second})
			},
			line:       action(fields{"level": "info", "message": "node drained", "node": "node-1", "pods": 0.0}),
			metrics:    samples{"drain_duration_seconds_count": 1, "drain_duration_seconds_sum": 1},
			events:     []string{"node node-1 (uid-1) Drained warning=false: No pod had to leave the node"},
			conditions: []string{"node-1 (uid-1) drained=true final=true Drained: No pod had to leave the node"},
		},
		{
			name: "NodeDrained, with pods left", record: func(r *recorder, s subject) {
				r.NodeDrained(s.event, s.node, drain.Report{Total: 3, Left: []string{"web/a", "web/b"}, Took: time.Second})
			},
			line: action(fields{
				"level": "warn", "message": "drain ended with pods left on the node", "node": "node-1", "pods": 3.0,
				"left": []any{"web/a", "web/b"},
			}),
			metrics: samples{"drain_duration_seconds_count": 1, "drain_duration_seconds_sum": 1},
			events: []string{
				"node node-1 (uid-1) PodsLeftBehind warning=true: The drain ended with 2 of 3 pods left on the node: web/a, web/b",
			},
			conditions: []string{
				"node-1 (uid-1) drained=false final=true PodsLeftBehind: The drain ended with 2 of 3 pods left on the node: web/a, web/b",
			},
		},
		{
			name: "NodeDrained, with many pods left", record: func(r *recorder, s subject) {
				r.NodeDrained(s.event, s.node, drain.Report{Total: 12, Left: left, Took: time.Second})
			},
			line:       action(fields{"node": "node-1", "pods": 12.0}),
			metrics:    samples{"drain_duration_seconds_count": 1, "drain_duration_seconds_sum": 1},
			events:     []string{"node node-1 (uid-1) PodsLeftBehind warning=true: " + manyLeft},
			conditions: []string{"node-1 (uid-1) drained=false final=true PodsLeftBehind: " + manyLeft},
		},
		{
			name: "TerminationEnded", record: func(r *recorder, s subject) { r.TerminationEnded(s.event, "drained", time.Second) },
			line:    action(fields{"level": "info", "outcome": "drained"}),
			metrics: samples{`terminations_total{outcome="drained"}`: 1, "terminations_active": -1},
		},
		{
			name: "TerminationEnded, unconfirmed", record: func(r *recorder, s subject) { r.TerminationEnded(s.event, "unconfirmed", time.Second) },
			line:    action(fields{"level": "warn", "outcome": "unconfirmed"}),
			metrics: samples{`terminations_total{outcome="unconfirmed"}`: 1, "terminations_active": -1},
		},
		{
			name: "Retrying", record: func(r *recorder, s subject) { r.Retrying(s.event, "mark node "+s.node.Name, errOutage) },
			line:    action(fields{"level": "warn", "operation": "mark node node-1", "error": "no answer"}),
			metrics: samples{"step_retries_total": 1},
		},
		{
			name: "HeartbeatSent", record: func(r *recorder, s subject) { r.HeartbeatSent(s.action) },
			line:    fields{"level": "debug", "instance": "i-00000000000000001", "group": "group-1", "hook": "hook-1"},
			metrics: samples{"heartbeats_total": 1},
		},
	}...)
}
