package observe_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/node-drainer/node-drainer/internal/autoscaling"
	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/internal/node"
	"github.com/node-drainer/node-drainer/internal/notify"
	"github.com/node-drainer/node-drainer/internal/observe"
	"github.com/node-drainer/node-drainer/pkg/drain"
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
	notified   []string
	full       bool // too many drains wait for a message
}

// newRecorder must not be called in parallel: NewLogger sets a time format for the whole process.
func newRecorder(level string) *recorder {
	r := &recorder{registry: prometheus.NewRegistry()}
	log := observe.NewLogger(observe.Config{Level: level, Format: "json"}, &r.log)
	r.Observer = observe.New(log, r.registry, r, r, []string{"drained", "unconfirmed"})
	r.NotifyWith(r)
	return r
}

func (r *recorder) OnNode(name, uid, reason, message string, warning bool) {
	r.events = append(r.events, fmt.Sprintf("event node %s (%s) %s warning=%v: %s", name, uid, reason, warning, message))
}

func (r *recorder) OnPod(namespace, name, uid, reason, message string, warning bool) {
	r.events = append(r.events, fmt.Sprintf("event pod %s/%s (%s) %s warning=%v: %s", namespace, name, uid, reason, warning, message))
}

func (r *recorder) Report(name, uid string, c node.Condition) {
	r.conditions = append(r.conditions, fmt.Sprintf("condition %s (%s) drained=%v final=%v %s: %s", name, uid, c.Drained, c.Final, c.Reason, c.Message))
}

func (r *recorder) Add(d notify.Drain) bool {
	r.notified = append(r.notified, fmt.Sprintf("notification %s event=%s group=%s pods=%d forced=%d left=%q: %s",
		d.Status, d.Event, d.Group, d.Pods, d.Forced, d.Left, d))
	return !r.full
}

// scrape returns the agent's own samples as a monitoring system reads them, by name and labels.
func (r *recorder) scrape(t *testing.T) map[string]float64 {
	t.Helper()
	_, body := get(t, observe.Handler(r.registry, status{}), "/metrics")
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
		message: queue.Message{ID: fmt.Sprintf("m-%d", i), Body: []byte(private), Receives: 2, Sender: "AROAEXAMPLE:session"},
		event: event.Event{
			Kind: event.LifecycleTerminating, ID: fmt.Sprintf("e-%d", i), InstanceID: id, Sender: "AROAEXAMPLE:session",
			Hook: event.Hook{Group: a.Group, Name: a.Hook, Metadata: private},
		},
		action: a,
		node: node.Node{
			Name: fmt.Sprintf("node-%d", i), UID: fmt.Sprintf("uid-%d", i), InstanceID: id,
			Mark: node.Mark{Since: time.Now().Add(-5 * time.Minute), Deadline: time.Now().Add(time.Hour)},
		},
		target: drain.Target{
			Name: fmt.Sprintf("node-%d", i), UID: fmt.Sprintf("uid-%d", i),
			Since: time.Now().UTC().Add(-5 * time.Minute), Deadline: time.Now().Add(time.Hour),
		},
		pod: drain.Pod{
			Namespace: "web", Name: fmt.Sprintf("pod-%d", i), UID: fmt.Sprintf("pod-uid-%d", i),
			Budgets: []string{fmt.Sprintf("web/budget-%d", i)}, Grace: 90 * time.Second,
		},
	}
}

var update = flag.Bool("update", false, "write testdata/facts.txt again")

// TestFacts: testdata/facts.txt has for each fact its log line, the growth of its metrics, its Events and conditions.
func TestFacts(t *testing.T) {
	const golden = "testdata/facts.txt"
	var all strings.Builder
	for _, f := range facts() {
		r := newRecorder("debug")
		before := r.scrape(t)
		synctest.Test(t, func(*testing.T) { f.record(r, newSubject(1)) }) // on 2000-01-01
		fmt.Fprintf(&all, "# %s\n%s", f.name, timeField.ReplaceAllString(r.log.String(), ""))
		grown := growth(before, r.scrape(t))
		for _, name := range slices.Sorted(maps.Keys(grown)) {
			fmt.Fprintf(&all, "metric %s %+v\n", name, grown[name])
		}
		for _, line := range slices.Concat(r.events, r.conditions, r.notified) {
			fmt.Fprintln(&all, line)
		}
		fmt.Fprintln(&all)
	}
	got := masked(all.String())
	if strings.Contains(got, "wJalrXUtnFEMI") {
		t.Error("the body of a message was recorded")
	}
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(strings.Split(read(t, golden), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("go test ./internal/observe -run TestFacts -update writes %s again (-want +got):\n%s", golden, diff)
	}
}

// timeField is that of each log line.
var timeField = regexp.MustCompile(`"time":"[^"]*",`)

// growth returns the differences of all samples that have changed, without buckets.
func growth(before, after map[string]float64) map[string]float64 {
	out := map[string]float64{}
	for name, v := range after {
		if v != before[name] && !strings.Contains(name, "_bucket{") {
			out[name] = v - before[name]
		}
	}
	return out
}

// TestSeries: all series exist from the start, as zero, and no label names an object of the cluster.
func TestSeries(t *testing.T) {
	r := newRecorder("error")
	atStart := r.scrape(t)
	for name, value := range atStart {
		if value != 0 {
			t.Errorf("%s is %v at the start", name, value)
		}
	}
	for i := range 100 {
		for _, f := range facts() {
			f.record(r, newSubject(i))
		}
		for _, o := range []drain.Outcome{drain.Blocked, drain.Deferred, drain.Refused, drain.Denied} {
			r.EvictionRefused(newSubject(i).target, newSubject(i).pod, o)
		}
	}
	if diff := cmp.Diff(sorted(atStart), sorted(r.scrape(t))); diff != "" || len(atStart) == 0 {
		t.Errorf("the series at the start, and after all facts about a hundred nodes:\n%s", diff)
	}
	if r.log.Len() > 0 {
		t.Errorf("logged at level error: %s", r.log.String())
	}
}

func sorted(samples map[string]float64) []string { return slices.Sorted(maps.Keys(samples)) }

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

func TestLogger(t *testing.T) {
	t.Setenv("NO_COLOR", "1")
	for _, tt := range []struct {
		name       string
		cfg        observe.Config
		has, lacks string
	}{
		{"level", observe.Config{Level: "warn", Format: "json"}, `"level":"warn"`, `"level":"info"`},
		{"text of others", observe.Config{Level: "info", Format: "json"}, `"why":"a\u009b\u202eb"`, "\u202e"},
		{"text of others on a console", observe.Config{Level: "info", Format: "console"}, `why="a\u009b\u202eb"`, "\u202e"},
		{"console format without colors", observe.Config{Level: "info", Format: "console"}, "INF hello a=1 why=", "\x1b["},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var b bytes.Buffer
			log := observe.NewLogger(tt.cfg, &b)
			log.Debug().Msg("hello")
			log.Info().Int("a", 1).Str("why", "a\u009b\u202eb").Msg("hello")
			log.Warn().Msg("hello")
			if !strings.Contains(b.String(), tt.has) || strings.Contains(b.String(), tt.lacks) {
				t.Errorf("logged %q, want %q and no %q", b.String(), tt.has, tt.lacks)
			}
		})
	}
}
