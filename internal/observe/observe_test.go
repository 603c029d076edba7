package observe_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

// private is part of each message: no log line, metric or Event may show it.
const private = "AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI"

var errOutage = errors.New("no answer")

// recorder is an Observer and all that it writes.
type recorder struct {
	*observe.Observer
	registry   *prometheus.Registry
	log        bytes.Buffer
	events     []string
	conditions []string
}

// newRecorder must not be called in parallel: NewLogger sets a time format for the whole process.
func newRecorder(level string) *recorder {
	r := &recorder{registry: prometheus.NewRegistry()}
	log := observe.NewLogger(observe.Config{Level: level, Format: "json"}, &r.log)
	r.Observer = observe.New(log, r.registry, r, r, []string{"drained", "unconfirmed"})
	return r
}

func (r *recorder) OnNode(name, uid, reason, message string, warning bool) {
	r.events = append(r.events, fmt.Sprintf("node %s (%s) %s warning=%v: %s", name, uid, reason, warning, message))
}

func (r *recorder) OnPod(namespace, name, uid, reason, message string, warning bool) {
	r.events = append(r.events, fmt.Sprintf("pod %s/%s (%s) %s warning=%v: %s", namespace, name, uid, reason, warning, message))
}

func (r *recorder) Report(name, uid string, c node.Condition) {
	r.conditions = append(r.conditions, fmt.Sprintf("%s (%s) drained=%v final=%v %s: %s", name, uid, c.Drained, c.Final, c.Reason, c.Message))
}

// lines returns the fields of each log line.
func (r *recorder) lines(t *testing.T) []fields {
	t.Helper()
	var out []fields
	for line := range strings.Lines(r.log.String()) {
		var fields fields
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Fatalf("%v in the line %s", err, line)
		}
		out = append(out, fields)
	}
	return out
}

// scrape returns the agent's own samples as a monitoring system reads them, by name and labels.
func (r *recorder) scrape(t *testing.T) samples {
	t.Helper()
	_, body := get(t, observe.Handler(r.registry, status{}), "/metrics")
	out := samples{}
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

// subject is a termination.
type subject struct {
	message queue.Message
	event   event.Event
	action  autoscaling.Action
	node    node.Node
	target  drain.Target
	pod     drain.Pod
}

// progress returns the progress of a drain of five pods.
func (s subject) progress(left int, waiting ...drain.WaitCount) drain.Progress {
	return drain.Progress{Target: s.target, Total: 5, Left: left, Waiting: waiting}
}

// held returns that the pod has been waiting for a minute.
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

// TestFacts: each fact is one log line, changes its metrics and no others, and has its Events and conditions.
func TestFacts(t *testing.T) {
	for _, f := range facts() {
		t.Run(f.name, func(t *testing.T) {
			r := newRecorder("debug")
			before := r.scrape(t)
			synctest.Test(t, func(*testing.T) { f.record(r, newSubject(1)) }) // on 2000-01-01
			lines := r.lines(t)
			if len(lines) != 1 || lines[0]["message"] == "" || lines[0]["time"] == "" {
				t.Fatalf("logged in %d lines: %v", len(lines), lines)
			}
			for field, want := range f.line {
				if diff := cmp.Diff(want, lines[0][field]); diff != "" {
					t.Errorf("field %s of the line %v (-want +got):\n%s", field, lines[0], diff)
				}
			}
			if diff := cmp.Diff(f.metrics, growth(before, r.scrape(t))); diff != "" {
				t.Errorf("metrics (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(f.events, r.events); diff != "" {
				t.Errorf("Events (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(f.conditions, r.conditions); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
			if text := r.log.String() + strings.Join(r.events, ""); strings.Contains(text, "wJalrXUtnFEMI") {
				t.Errorf("the body of the message was recorded: %s", text)
			}
		})
	}
}

// growth returns the differences of all samples that have changed, without buckets.
func growth(before, after samples) samples {
	var out samples
	for name, v := range after {
		if v == before[name] || strings.Contains(name, "_bucket{") {
			continue
		}
		if out == nil {
			out = samples{}
		}
		out[name] = v - before[name]
	}
	return out
}

// TestSeriesDoNotGrow: no label names an object of the cluster.
func TestSeriesDoNotGrow(t *testing.T) {
	r := newRecorder("error")
	recordAll := func(i int) {
		for _, f := range facts() {
			f.record(r, newSubject(i))
		}
	}
	recordAll(0)
	want := len(r.scrape(t))
	for i := range 100 {
		recordAll(i)
	}
	if got := len(r.scrape(t)); got != want {
		t.Errorf("%d series for a hundred nodes, %d for one", got, want)
	}
	if r.log.Len() > 0 {
		t.Errorf("logged at level error: %s", r.log.String())
	}
}

func TestCountersStartAtZero(t *testing.T) {
	samples := newRecorder("info").scrape(t)
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
			t.Errorf("%s is %v at the start, exists: %v", name, v, ok)
		}
	}
}

type status struct{ unready, unhealthy error }

func (s status) Ready() (string, error) { return "standing by; b leads", s.unready }
func (s status) Healthy() error         { return s.unhealthy }

func TestHandler(t *testing.T) {
	for _, tt := range []struct {
		name, path string
		status     status
		code       int
		body       string
	}{
		{"metrics of the agent", "/metrics", status{}, 200, "node_drainer_terminations_active 0"},
		{"metrics of the process", "/metrics", status{}, 200, "go_goroutines"},
		{"healthy", "/healthz", status{}, 200, "ok\n"},
		{"healthy but not ready", "/healthz", status{unready: errOutage}, 200, "ok\n"},
		{"unhealthy, with the reason", "/healthz", status{unhealthy: errOutage}, 503, "no answer\n"},
		{"ready, with the role", "/readyz", status{}, 200, "ready: standing by; b leads\n"},
		{"not ready, with the reason", "/readyz", status{unready: errOutage}, 503, "no answer\n"},
		{"unknown path", "/debug/pprof/", status{}, 404, "not found"},
	} {
		h := observe.Handler(newRecorder("info").registry, tt.status)
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
		{"level", observe.Config{Level: "warn", Format: "json"}, `"level":"warn"`, `"level":"info"`},
		{"console format without colors", observe.Config{Level: "info", Format: "console"}, "INF hello a=1", "\x1b["},
		{"unknown level", observe.Config{Level: "loud", Format: "json"}, `"level":"info"`, `"level":"debug"`},
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
