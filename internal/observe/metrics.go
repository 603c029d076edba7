package observe

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/rs/zerolog"

	"github.com/node-drainer/node-drainer/pkg/event"
	"github.com/node-drainer/node-drainer/pkg/queue"
)

// metrics never carry the name of a node, a pod or an instance: their number must not grow with the cluster.
type metrics struct {
	messages     *prometheus.CounterVec
	refused      *prometheus.CounterVec
	events       *prometheus.CounterVec
	terminations *prometheus.CounterVec
	active       prometheus.Gauge
	drains       prometheus.Histogram
	pods         *prometheus.CounterVec
	heartbeats   prometheus.Counter
	apiErrors    *prometheus.CounterVec
}

const namespace = "node_drainer"

func counters(name, help, label string) *prometheus.CounterVec {
	opts := prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}
	return prometheus.NewCounterVec(opts, []string{label})
}

// New returns an Observer that logs to log, records Kubernetes Events with events, and registers its metrics
// with registry. outcomes are those that a termination can have.
func New(log zerolog.Logger, registry *prometheus.Registry, events Events, outcomes []string) *Observer {
	m := metrics{
		messages:     counters("messages_total", "Deliveries of SQS messages, by what became of them.", "outcome"),
		refused:      counters("messages_refused_total", "Messages that the agent could not act upon.", "reason"),
		events:       counters("events_total", "Events received.", "kind"),
		terminations: counters("terminations_total", "Lifecycle actions, by how they ended.", "outcome"),
		active: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: namespace, Name: "terminations_active", Help: "Lifecycle actions in hand.",
		}),
		drains: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: namespace, Name: "drain_duration_seconds", Help: "Time to drain a node.",
			Buckets: []float64{1, 5, 15, 30, 60, 120, 300, 600, 1800, 3600, 4 * 3600, 12 * 3600, 48 * 3600},
		}),
		pods: counters("pods_total", "Pods evicted, blocked by a budget, or deleted at the deadline.", "action"),
		heartbeats: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: namespace, Name: "heartbeats_total", Help: "Heartbeats that Auto Scaling accepted.",
		}),
		apiErrors: counters("api_errors_total", "Calls that failed and were tried again.", "api"),
	}
	registry.MustRegister(
		m.messages, m.refused, m.events, m.terminations, m.active, m.drains, m.pods, m.heartbeats, m.apiErrors,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	m.start(outcomes)
	return &Observer{log: log, metrics: m, events: events}
}

// start has each counter begin at zero, so that the first increase shows as one.
func (m metrics) start(outcomes []string) {
	for _, o := range queue.Outcomes() {
		m.messages.WithLabelValues(string(o))
	}
	for _, r := range append(event.Reasons(), "unsupported") {
		m.refused.WithLabelValues(r)
	}
	for _, o := range outcomes {
		m.terminations.WithLabelValues(o)
	}
	for _, a := range []string{"evicted", "blocked", "forced"} {
		m.pods.WithLabelValues(a)
	}
	for _, a := range []string{"sqs", "autoscaling", "kubernetes"} {
		m.apiErrors.WithLabelValues(a)
	}
}

// Handler serves /metrics of registry, /healthz (the process runs) and /readyz (ready says so).
func Handler(registry *prometheus.Registry, ready func() error) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("ok\n"))
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := ready(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte("ok\n"))
	})
	return mux
}
