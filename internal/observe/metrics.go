package observe

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/rs/zerolog"

	"github.com/node-drainer/node-drainer/pkg/drain"
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
	results      *prometheus.CounterVec
	pods         *prometheus.CounterVec
	forced       *prometheus.CounterVec
	refusals     *prometheus.CounterVec
	waits        prometheus.Histogram
	waiting      *prometheus.GaugeVec
	heartbeats   prometheus.Counter
	swept        prometheus.Counter
	retries      prometheus.Counter
	apiErrors    *prometheus.CounterVec
	launches     launchMetrics
	leader       prometheus.Gauge
	transitions  prometheus.Counter
}

const namespace = "node_drainer"

func counters(name, help, label string) *prometheus.CounterVec {
	opts := prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}
	return prometheus.NewCounterVec(opts, []string{label})
}

func counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help})
}

func histogram(name, help string, buckets ...float64) prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{
		Namespace: namespace, Name: name, Help: help, Buckets: buckets,
	})
}

// New returns an Observer that logs to log, records Kubernetes Events with events, has Nodes show conditions,
// and registers its metrics with registry. outcomes are those that a termination can have.
func New(
	log zerolog.Logger, registry *prometheus.Registry, events Events, conditions Conditions, outcomes []string,
) *Observer {
	m := newMetrics()
	registry.MustRegister(
		m.messages, m.refused, m.events, m.terminations, m.active, m.drains, m.results, m.pods, m.forced,
		m.refusals, m.waits, m.waiting, m.heartbeats, m.swept, m.retries, m.apiErrors, m.leader, m.transitions,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	m.start(outcomes)
	m.launches.register(registry)
	return &Observer{
		log: log, metrics: m, events: events, conditions: conditions, drains: drains{by: map[string]*telling{}},
	}
}

func newMetrics() metrics {
	return metrics{
		messages:     counters("messages_total", "Deliveries of SQS messages, by what became of them.", "outcome"),
		refused:      counters("messages_refused_total", "Messages that the agent could not act upon.", "reason"),
		events:       counters("events_total", "Events received.", "kind"),
		terminations: counters("terminations_total", "Terminations, by how they ended.", "outcome"),
		active: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: namespace, Name: "terminations_active", Help: "Terminations in hand.",
		}),
		drains: histogram("drain_duration_seconds", "Time to drain a node.",
			1, 5, 15, 30, 60, 120, 300, 600, 1800, 3600, 4*3600, 12*3600, 48*3600),
		results:  counters("drains_total", "Drains of nodes, by how they ended.", "result"),
		pods:     counters("pods_total", "Pods that were evicted, or that had to wait for that.", "action"),
		forced:   counters("pods_forced_total", "Pods deleted past their budget or their own wish.", "reason"),
		refusals: counters("evictions_refused_total", "Attempts to move a pod that came to nothing.", "reason"),
		waits: histogram("eviction_wait_seconds", "Time from the beginning of a drain to a pod's eviction.",
			0.1, 0.5, 1, 5, 15, 30, 60, 300, 900, 3600, 4*3600, 12*3600, 48*3600),
		waiting: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: namespace, Name: "pods_waiting",
			Help: "Pods on draining nodes that wait, by what for; volumes, where those are waited for.",
		}, []string{"reason"}),
		heartbeats: counter("heartbeats_total", "Heartbeats that Auto Scaling accepted."),
		swept: counter("messages_lost_total",
			"Lifecycle actions that were taken up and ended, and no message had told of them."),
		retries: counter("step_retries_total",
			"Steps of terminations and launches that failed and were tried again, whoever failed them."),
		apiErrors: counters("api_errors_total", "Calls that failed and were tried again.", "api"),
		launches:  newLaunchMetrics(),
		leader: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: namespace, Name: "leader", Help: "Whether this replica leads: 1, or stands by: 0.",
		}),
		transitions: counter("leader_transitions_total", "Changes of the leader that this replica has seen."),
	}
}

// start has each counter begin at zero, so that the first increase shows as one.
func (m metrics) start(outcomes []string) {
	for _, r := range drain.WaitReasons() {
		m.waiting.WithLabelValues(string(r))
	}
	begin(m.messages, queue.Outcomes())
	begin(m.events, event.Kinds())
	begin(m.refused, event.Reasons())
	begin(m.terminations, outcomes)
	begin(m.results, drain.Results())
	begin(m.pods, []string{"evicted", "blocked"})
	begin(m.forced, drain.ForceReasons())
	begin(m.refusals, []drain.Outcome{drain.Blocked, drain.Deferred, drain.Refused, drain.Denied})
	begin(m.apiErrors, []string{"sqs", "autoscaling", "kubernetes"})
}

func begin[L ~string](c *prometheus.CounterVec, labels []L) {
	for _, l := range labels {
		c.WithLabelValues(string(l))
	}
}
