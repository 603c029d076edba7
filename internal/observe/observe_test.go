package observe_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/node-drainer/node-drainer/internal/observe"
	"github.com/node-drainer/node-drainer/pkg/autoscaling"
	"github.com/node-drainer/node-drainer/pkg/drain"
	"github.com/node-drainer/node-drainer/pkg/event"
	"github.com/node-drainer/node-drainer/pkg/launch"
	"github.com/node-drainer/node-drainer/pkg/node"
	"github.com/node-drainer/node-drainer/pkg/queue"
)

// private is text that no log line, metric or Event may show: what a sender wrote, and secrets that it may hold.
const private = "AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI"

var errOutage = errors.New("no answer")

// desk is an Observer with all that it tells: log lines, metrics, Events.
type desk struct {
	*observe.Observer
	registry *prometheus.Registry
	log      bytes.Buffer
	events   []string
	shown    []string // conditions
}

// newDesk must not be called in parallel: NewLogger sets the form of times for the whole process.
func newDesk(level string) *desk {
	d := &desk{registry: prometheus.NewRegistry()}
	log := observe.NewLogger(observe.Config{Level: level, Format: "json"}, &d.log)
	d.Observer = observe.New(log, d.registry, d, d, []string{"drained", "unconfirmed"})
	return d
}

func (d *desk) OnNode(name, uid, reason, message string, warning bool) {
	d.events = append(d.events, fmt.Sprintf("node %s (%s) %s warning=%v: %s", name, uid, reason, warning, message))
}

func (d *desk) OnPod(namespace, name, uid, reason, message string, warning bool) {
	d.events = append(d.events, fmt.Sprintf("pod %s/%s (%s) %s warning=%v: %s", namespace, name, uid, reason, warning, message))
}

func (d *desk) Report(name, uid string, c node.Condition) {
	d.shown = append(d.shown, fmt.Sprintf("%s (%s) drained=%v final=%v %s: %s", name, uid, c.Drained, c.Final, c.Reason, c.Message))
}

// lines are the log lines, each as its fields.
func (d *desk) lines(t *testing.T) []map[string]any {
	t.Helper()
	var out []map[string]any
	for line := range strings.Lines(d.log.String()) {
		var fields map[string]any
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Fatalf("%v in the line %s", err, line)
		}
		out = append(out, fields)
	}
	return out
}

// scrape returns the agent's own samples as a monitoring system reads them, by name and labels.
func (d *desk) scrape(t *testing.T) map[string]float64 {
	t.Helper()
	_, body := get(t, observe.Handler(d.registry, status{}), "/metrics")
	out := map[string]float64{}
	for line := range strings.Lines(body) {
		i := strings.LastIndexByte(line, ' ')
		if !strings.HasPrefix(line, "node_drainer_") {
			continue
		}
		value, err := strconv.ParseFloat(strings.TrimSpace(line[i:]), 64)
		if err != nil {
			t.Fatalf("%v in the sample %s", err, line)
		}
		out[strings.TrimPrefix(line[:i], "node_drainer_")] = value
	}
	return out
}

func get(t *testing.T, h http.Handler, path string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	body, err := io.ReadAll(w.Result().Body)
	if err != nil {
		t.Fatal(err)
	}
	return w.Code, string(body)
}

// subject is what one termination is about; each number gives another one.
type subject struct {
	message queue.Message
	event   event.Event
	action  autoscaling.Action
	node    node.Node
	target  drain.Target
	pod     drain.Pod
}

// progress is how far the drain is when pods, of five, are left.
func (s subject) progress(left int, waiting ...drain.WaitCount) drain.Progress {
	return drain.Progress{Target: s.target, Total: 5, Left: left, Waiting: waiting}
}

// held is that the pod has waited for a minute, for the reason.
func (s subject) held(reason drain.WaitReason, budget, why string) drain.Waiting {
	return drain.Waiting{Pod: s.pod, Reason: reason, Budget: budget, Message: why, Since: s.target.Since.Add(time.Minute)}
}

func newSubject(i int) subject {
	id := fmt.Sprintf("i-%017x", i)
	a := autoscaling.Action{Group: fmt.Sprintf("group-%d", i), Hook: fmt.Sprintf("hook-%d", i), InstanceID: id, Token: "token"}
	return subject{
		message: queue.Message{ID: fmt.Sprintf("m-%d", i), Body: []byte(private), Receives: 2},
		event: event.Event{
			Kind: event.LifecycleTerminating, ID: fmt.Sprintf("e-%d", i), InstanceID: id,
			Hook: event.Hook{Group: a.Group, Name: a.Hook, Metadata: private},
		},
		action: a,
		node:   node.Node{Name: fmt.Sprintf("node-%d", i), UID: fmt.Sprintf("uid-%d", i), InstanceID: id},
		target: drain.Target{
			Name: fmt.Sprintf("node-%d", i), UID: fmt.Sprintf("uid-%d", i),
			Since: time.Now().Add(-5 * time.Minute), Deadline: time.Now().Add(time.Hour),
		},
		pod: drain.Pod{
			Namespace: "web", Name: fmt.Sprintf("pod-%d", i), UID: fmt.Sprintf("pod-uid-%d", i),
			Budgets: []string{fmt.Sprintf("web/budget-%d", i)}, Grace: 90 * time.Second,
		},
	}
}

// fact is one thing to tell, and what must come of it.
type fact struct {
	name    string
	tell    func(d *desk, s subject)
	line    map[string]any     // fields that the log line has
	metrics map[string]float64 // by how much each sample grows, save the buckets
	events  []string
	shown   []string // conditions
}

func facts() []fact {
	action := func(more map[string]any) map[string]any {
		out := map[string]any{"event": "lifecycle-terminating", "instance": "i-00000000000000001", "group": "group-1", "hook": "hook-1"}
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
			name: "MessageReceived", tell: func(d *desk, s subject) { d.MessageReceived(s.message) },
			line: map[string]any{"level": "debug", "message_id": "m-1", "receives": 2.0, "bytes": float64(len(private))},
		},
		{
			name: "MessageSettled", tell: func(d *desk, s subject) { d.MessageSettled(s.message, queue.Retried, errOutage) },
			line:    map[string]any{"level": "debug", "message_id": "m-1", "outcome": "retried", "reason": "no answer"},
			metrics: map[string]float64{`messages_total{outcome="retried"}`: 1},
		},
		{
			name: "MessageSettled, dropped", tell: func(d *desk, s subject) { d.MessageSettled(s.message, queue.Dropped, errOutage) },
			line:    map[string]any{"level": "warn", "message_id": "m-1", "outcome": "dropped"},
			metrics: map[string]float64{`messages_total{outcome="dropped"}`: 1},
		},
		{
			name: "MessageRefused", tell: func(d *desk, s subject) {
				_, err := event.Parse(s.message.Body)
				d.MessageRefused(s.message, event.Reason(err), err)
			},
			line:    map[string]any{"level": "warn", "message_id": "m-1", "reason": "malformed", "receives": 2.0},
			metrics: map[string]float64{`messages_refused_total{reason="malformed"}`: 1},
		},
		{
			name: "QueueFailed", tell: func(d *desk, s subject) { d.QueueFailed("settle message "+s.message.ID, errOutage) },
			line:    map[string]any{"level": "warn", "api": "sqs", "operation": "settle message m-1", "error": "no answer"},
			metrics: map[string]float64{`api_errors_total{api="sqs"}`: 1},
		},
		{
			name: "AutoScalingFailed", tell: func(d *desk, s subject) { d.AutoScalingFailed("complete "+s.action.String(), errOutage) },
			line: map[string]any{
				"level": "warn", "api": "autoscaling", "operation": "complete group-1/hook-1 for i-00000000000000001", "error": "no answer",
			},
			metrics: map[string]float64{`api_errors_total{api="autoscaling"}`: 1},
		},
		{
			name: "KubernetesFailed", tell: func(d *desk, s subject) { d.KubernetesFailed("list the pods of "+s.node.Name, errOutage) },
			line:    map[string]any{"level": "warn", "api": "kubernetes", "operation": "list the pods of node-1", "error": "no answer"},
			metrics: map[string]float64{`api_errors_total{api="kubernetes"}`: 1},
		},
		{
			name: "LeadingBegan", tell: func(d *desk, _ subject) { d.LeadershipStarted() },
			line:    map[string]any{"level": "info", "message": "started leading"},
			metrics: map[string]float64{"leader": 1},
		},
		{
			name: "LeadingEnded", tell: func(d *desk, _ subject) { d.LeadershipEnded(errOutage) },
			line: map[string]any{"level": "info", "message": "stopped leading", "reason": "no answer"},
		},
		{
			name: "LeaderSeen", tell: func(d *desk, _ subject) { d.LeaderChanged("agent-b") },
			line:    map[string]any{"level": "info", "message": "leader changed", "leader": "agent-b"},
			metrics: map[string]float64{"leader_transitions_total": 1},
		},
		{
			name: "LeaderSeen, nobody", tell: func(d *desk, _ subject) { d.LeaderChanged("") },
			line: map[string]any{"level": "info", "message": "no leader"},
		},
		{
			name: "EventReceived", tell: func(d *desk, s subject) { d.EventReceived(s.message, s.event) },
			line: map[string]any{
				"level": "debug", "event": "lifecycle-terminating", "event_id": "e-1", "instance": "i-00000000000000001", "message_id": "m-1",
			},
			metrics: map[string]float64{`events_total{kind="lifecycle-terminating"}`: 1},
		},
		{
			name: "EventIgnored", tell: func(d *desk, s subject) { d.EventIgnored(s.event, "asks for nothing") },
			line: map[string]any{"level": "debug", "event": "lifecycle-terminating", "reason": "asks for nothing"},
		},
		{
			name: "TerminationBegan", tell: func(d *desk, s subject) { d.TerminationStarted(s.event) },
			line:    action(map[string]any{"level": "info"}),
			metrics: map[string]float64{"terminations_active": 1},
		},
		{
			name: "NodeAwaited", tell: func(d *desk, s subject) { d.NodeAwaited(s.event) },
			line: action(map[string]any{"level": "info"}),
		},
		{
			name: "NodeRetired", tell: func(d *desk, s subject) { d.NodeCordoned(s.event, s.node, node.Mark{Deadline: deadline}) },
			line: action(map[string]any{"level": "info", "node": "node-1", "deadline": "2027-03-01T10:00:00.000Z"}),
			events: []string{"node node-1 (uid-1) Draining warning=false: Instance i-00000000000000001 is terminating " +
				"(hook hook-1 of group group-1): draining until 2027-03-01T10:00:00Z"},
		},
		{
			name: "NodeRetired, for maintenance", tell: func(d *desk, s subject) {
				s.event.Kind, s.event.Hook = event.ScheduledChange, event.Hook{}
				d.NodeCordoned(s.event, s.node, node.Mark{Deadline: deadline})
			},
			line: map[string]any{"level": "info", "event": "scheduled-change", "deadline": "2027-03-01T10:00:00.000Z"},
			events: []string{"node node-1 (uid-1) Draining warning=false: AWS has scheduled maintenance of instance " +
				"i-00000000000000001: draining until 2027-03-01T10:00:00Z"},
		},
		{
			name: "NodeRetired, cordoned only", tell: func(d *desk, s subject) {
				s.event.Kind, s.event.Hook = event.RebalanceRecommendation, event.Hook{}
				d.NodeCordoned(s.event, s.node, node.Mark{})
			},
			line: map[string]any{"level": "info", "event": "rebalance-recommendation", "node": "node-1"},
			events: []string{"node node-1 (uid-1) Cordoned warning=false: Spot Instance i-00000000000000001 is at elevated risk " +
				"of interruption: cordoned, its pods stay"},
		},
		{
			name: "Swept, and found something", tell: func(d *desk, _ subject) { d.Resynced(40, 2, 0) },
			line: map[string]any{"level": "info", "instances": 40.0, "found": 2.0},
		},
		{
			name: "Swept, and no message has told", tell: func(d *desk, _ subject) { d.Resynced(40, 0, 2) },
			line:    map[string]any{"level": "debug", "instances": 40.0, "found": 0.0},
			metrics: map[string]float64{"messages_lost_total": 2},
		},
		{
			name: "Swept, and found nothing", tell: func(d *desk, _ subject) { d.Resynced(40, 0, 0) },
			line: map[string]any{"level": "debug", "instances": 40.0, "found": 0.0},
		},
		{
			name: "SweepFailed", tell: func(d *desk, _ subject) { d.ResyncFailed(errOutage) },
			line:    map[string]any{"level": "warn", "api": "autoscaling", "error": "no answer"},
			metrics: map[string]float64{`api_errors_total{api="autoscaling"}`: 1},
		},
		{
			name: "NodeRestored", tell: func(d *desk, s subject) { d.NodeUncordoned(s.node, "it lives on") },
			line:   map[string]any{"level": "warn", "node": "node-1", "instance": "i-00000000000000001", "reason": "it lives on"},
			events: []string{"node node-1 (uid-1) Uncordoned warning=true: The node is back in service: it lives on"},
		},
		{
			name: "NodeDrained", tell: func(d *desk, s subject) {
				d.NodeDrained(s.event, s.node, drain.Report{Total: 3, Took: 20 * time.Second})
			},
			line:    action(map[string]any{"level": "info", "message": "node drained", "node": "node-1", "pods": 3.0, "forced": 0.0}),
			metrics: map[string]float64{"drain_duration_seconds_count": 1, "drain_duration_seconds_sum": 20},
			events:  []string{"node node-1 (uid-1) Drained warning=false: All 3 pods have left the node"},
			shown:   []string{"node-1 (uid-1) drained=true final=true Drained: All 3 pods have left the node"},
		},
		{
			name: "NodeDrained, by force", tell: func(d *desk, s subject) {
				d.NodeDrained(s.event, s.node, drain.Report{Total: 3, Forced: 1, Took: 20 * time.Second})
			},
			line:    action(map[string]any{"level": "info", "message": "node drained", "node": "node-1", "pods": 3.0, "forced": 1.0}),
			metrics: map[string]float64{"drain_duration_seconds_count": 1, "drain_duration_seconds_sum": 20},
			events:  []string{"node node-1 (uid-1) Drained warning=false: All 3 pods have left the node, 1 of them by deletion"},
			shown:   []string{"node-1 (uid-1) drained=true final=true Drained: All 3 pods have left the node, 1 of them by deletion"},
		},
		{
			name: "NodeDrained, with nothing to move", tell: func(d *desk, s subject) {
				d.NodeDrained(s.event, s.node, drain.Report{Took: time.Second})
			},
			line:    action(map[string]any{"level": "info", "message": "node drained", "node": "node-1", "pods": 0.0}),
			metrics: map[string]float64{"drain_duration_seconds_count": 1, "drain_duration_seconds_sum": 1},
			events:  []string{"node node-1 (uid-1) Drained warning=false: No pod had to leave the node"},
			shown:   []string{"node-1 (uid-1) drained=true final=true Drained: No pod had to leave the node"},
		},
		{
			name: "NodeDrained, with pods left", tell: func(d *desk, s subject) {
				d.NodeDrained(s.event, s.node, drain.Report{Total: 3, Left: []string{"web/a", "web/b"}, Took: time.Second})
			},
			line: action(map[string]any{
				"level": "warn", "message": "drain ended with pods left on the node", "node": "node-1", "pods": 3.0,
				"left": []any{"web/a", "web/b"},
			}),
			metrics: map[string]float64{"drain_duration_seconds_count": 1, "drain_duration_seconds_sum": 1},
			events: []string{
				"node node-1 (uid-1) PodsLeftBehind warning=true: The drain ended with 2 of 3 pods left on the node: web/a, web/b",
			},
			shown: []string{
				"node-1 (uid-1) drained=false final=true PodsLeftBehind: The drain ended with 2 of 3 pods left on the node: web/a, web/b",
			},
		},
		{
			name: "NodeDrained, with many pods left", tell: func(d *desk, s subject) {
				d.NodeDrained(s.event, s.node, drain.Report{Total: 12, Left: left, Took: time.Second})
			},
			line:    action(map[string]any{"node": "node-1", "pods": 12.0}),
			metrics: map[string]float64{"drain_duration_seconds_count": 1, "drain_duration_seconds_sum": 1},
			events:  []string{"node node-1 (uid-1) PodsLeftBehind warning=true: " + manyLeft},
			shown:   []string{"node-1 (uid-1) drained=false final=true PodsLeftBehind: " + manyLeft},
		},
		{
			name: "TerminationEnded", tell: func(d *desk, s subject) { d.TerminationEnded(s.event, "drained", time.Second) },
			line:    action(map[string]any{"level": "info", "outcome": "drained"}),
			metrics: map[string]float64{`terminations_total{outcome="drained"}`: 1, "terminations_active": -1},
		},
		{
			name: "TerminationEnded, forged", tell: func(d *desk, s subject) { d.TerminationEnded(s.event, "unconfirmed", time.Second) },
			line:    action(map[string]any{"level": "warn", "outcome": "unconfirmed"}),
			metrics: map[string]float64{`terminations_total{outcome="unconfirmed"}`: 1, "terminations_active": -1},
		},
		{
			name: "Retrying", tell: func(d *desk, s subject) { d.Retrying(s.event, "mark node "+s.node.Name, errOutage) },
			line:    action(map[string]any{"level": "warn", "operation": "mark node node-1", "error": "no answer"}),
			metrics: map[string]float64{"step_retries_total": 1},
		},
		{
			name: "HeartbeatSent", tell: func(d *desk, s subject) { d.HeartbeatSent(s.action) },
			line:    map[string]any{"level": "debug", "instance": "i-00000000000000001", "group": "group-1", "hook": "hook-1"},
			metrics: map[string]float64{"heartbeats_total": 1},
		},
	}...)
}

// TestFacts: each fact is told once in the log, moves its metrics and no others, and has its Events.
func TestFacts(t *testing.T) {
	for _, f := range facts() {
		t.Run(f.name, func(t *testing.T) {
			d := newDesk("debug")
			before := d.scrape(t)
			synctest.Test(t, func(*testing.T) { f.tell(d, newSubject(1)) }) // on 2000-01-01
			lines := d.lines(t)
			if len(lines) != 1 || lines[0]["message"] == "" || lines[0]["time"] == "" {
				t.Fatalf("told in %d lines: %v", len(lines), lines)
			}
			for field, want := range f.line {
				if diff := cmp.Diff(want, lines[0][field]); diff != "" {
					t.Errorf("field %s of the line %v (-want +got):\n%s", field, lines[0], diff)
				}
			}
			if diff := cmp.Diff(f.metrics, growth(before, d.scrape(t))); diff != "" {
				t.Errorf("the metrics that moved (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(f.events, d.events); diff != "" {
				t.Errorf("the Events (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(f.shown, d.shown); diff != "" {
				t.Errorf("the conditions (-want +got):\n%s", diff)
			}
			if told := d.log.String() + strings.Join(d.events, ""); strings.Contains(told, "wJalrXUtnFEMI") {
				t.Errorf("what the message holds was told: %s", told)
			}
		})
	}
}

// growth is by how much each sample grew; buckets and what did not move are left out.
func growth(before, after map[string]float64) map[string]float64 {
	var out map[string]float64
	for name, v := range after {
		if v == before[name] || strings.Contains(name, "_bucket{") {
			continue
		}
		if out == nil {
			out = map[string]float64{}
		}
		out[name] = v - before[name]
	}
	return out
}

// TestSeriesDoNotGrow: nothing that the cluster has many of is a label.
func TestSeriesDoNotGrow(t *testing.T) {
	d := newDesk("error")
	tellAll := func(i int) {
		for _, f := range facts() {
			f.tell(d, newSubject(i))
		}
	}
	tellAll(0)
	want := len(d.scrape(t))
	for i := range 100 {
		tellAll(i)
	}
	if got := len(d.scrape(t)); got != want {
		t.Errorf("%d series for a hundred nodes, %d for one", got, want)
	}
	if d.log.Len() > 0 {
		t.Errorf("the level error lets through %s", d.log.String())
	}
}

// TestCountersStartAtZero: the first increase must show as one.
func TestCountersStartAtZero(t *testing.T) {
	samples := newDesk("info").scrape(t)
	want := []string{
		`terminations_total{outcome="drained"}`, `terminations_total{outcome="unconfirmed"}`, "terminations_active", "heartbeats_total",
		`drains_total{result="drained"}`, `drains_total{result="by-force"}`, `drains_total{result="left-behind"}`,
		`drains_total{result="interrupted"}`,
		`pods_total{action="evicted"}`, `pods_total{action="blocked"}`,
		`pods_forced_total{reason="deadline"}`, `pods_forced_total{reason="unhealthy"}`,
		`evictions_refused_total{reason="blocked"}`, `evictions_refused_total{reason="deferred"}`,
		`evictions_refused_total{reason="refused"}`, `evictions_refused_total{reason="denied"}`,
		`pods_waiting{reason="blocked-by-budget"}`, `pods_waiting{reason="misconfigured-budget"}`, `pods_waiting{reason="opted-out"}`,
		`pods_waiting{reason="waited-for"}`, `pods_waiting{reason="backing-off"}`, `pods_waiting{reason="later-tier"}`,
		`pods_waiting{reason="volumes-attached"}`, `pods_waiting{reason="deregistering"}`,
		"eviction_wait_seconds_count", "drain_duration_seconds_count",
		`api_errors_total{api="sqs"}`, `api_errors_total{api="autoscaling"}`, `api_errors_total{api="kubernetes"}`,
		"launches_active", "launch_duration_seconds_count",
	}
	for _, o := range queue.Outcomes() {
		want = append(want, fmt.Sprintf("messages_total{outcome=%q}", o))
	}
	for _, o := range launch.Outcomes() {
		want = append(want, fmt.Sprintf("launches_total{outcome=%q}", o))
	}
	for _, r := range event.Reasons() {
		want = append(want, fmt.Sprintf("messages_refused_total{reason=%q}", r))
	}
	for _, name := range want {
		if v, ok := samples[name]; !ok || v != 0 {
			t.Errorf("%s is %v at the start, there: %v", name, v, ok)
		}
	}
}

// status is what the pages for probes are to tell.
type status struct{ missing, ill error }

func (s status) Ready() (string, error) { return "standing by; b leads", s.missing }
func (s status) Healthy() error         { return s.ill }

func TestHandler(t *testing.T) {
	for _, tt := range []struct {
		name, path string
		status     status
		code       int
		body       string
	}{
		{"the metrics", "/metrics", status{}, 200, "node_drainer_terminations_active 0"},
		{"those of the process", "/metrics", status{}, 200, "go_goroutines"},
		{"alive", "/healthz", status{}, 200, "ok\n"},
		{"alive, though not ready", "/healthz", status{missing: errOutage}, 200, "ok\n"},
		{"stuck, with the reason", "/healthz", status{ill: errOutage}, 503, "no answer\n"},
		{"ready, in its role", "/readyz", status{}, 200, "ready: standing by; b leads\n"},
		{"not ready, with the reason", "/readyz", status{missing: errOutage}, 503, "no answer\n"},
		{"nothing else", "/debug/pprof/", status{}, 404, "not found"},
	} {
		h := observe.Handler(newDesk("info").registry, tt.status)
		if code, body := get(t, h, tt.path); code != tt.code || !strings.Contains(body, tt.body) {
			t.Errorf("%s: %s is %d: %s", tt.name, tt.path, code, body)
		}
	}
}

func TestConfig(t *testing.T) {
	for _, level := range []string{"debug", "info", "warn", "error"} {
		for _, format := range []string{"json", "console"} {
			if err := (observe.Config{Level: level, Format: format}).Validate(); err != nil {
				t.Error(err)
			}
		}
	}
	err := observe.Config{Level: "trace", Format: "xml"}.Validate()
	if err == nil || !strings.Contains(err.Error(), `LOG_LEVEL is "trace"`) || !strings.Contains(err.Error(), `LOG_FORMAT is "xml"`) {
		t.Errorf("the mistakes are %v", err)
	}
}

func TestLogger(t *testing.T) {
	t.Setenv("NO_COLOR", "1")
	for _, tt := range []struct {
		name       string
		cfg        observe.Config
		has, lacks string
	}{
		{"a level lets through what is as severe", observe.Config{Level: "warn", Format: "json"}, `"level":"warn"`, `"level":"info"`},
		{"the form for people has no braces, and no colours where none are wanted", observe.Config{Level: "info", Format: "console"}, "INF hello a=1", "\x1b["},
		{"an unknown level is info", observe.Config{Level: "loud", Format: "json"}, `"level":"info"`, `"level":"debug"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var b bytes.Buffer
			log := observe.NewLogger(tt.cfg, &b)
			log.Debug().Msg("hello")
			log.Info().Int("a", 1).Msg("hello")
			log.Warn().Msg("hello")
			if !strings.Contains(b.String(), tt.has) || strings.Contains(b.String(), tt.lacks) {
				t.Errorf("logged %q, want %q and no %q", b.String(), tt.has, tt.lacks)
			}
		})
	}
}
