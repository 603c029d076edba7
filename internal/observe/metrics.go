package observe

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/rs/zerolog"

	"github.com/node-drainer/node-drainer/pkg/drain"
	"github.com/node-drainer/node-drainer/pkg/event"
	"github.com/node-drainer/node-drainer/pkg/queue"
)

// metrics have no label for a node, a pod or an instance: the number of series must not grow with the
// cluster.
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
	lost         prometheus.Counter
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

// New returns an Observer that logs to log, records Kubernetes Events with events, writes conditions of Nodes
// with conditions, and registers its metrics with registry. outcomes lists the outcomes of terminations.
func New(
	log zerolog.Logger, registry *prometheus.Registry, events Events, conditions Conditions, outcomes []string,
) *Observer {
	m := newMetrics()
	registry.MustRegister(
		m.messages, m.refused, m.events, m.terminations, m.active, m.drains, m.results, m.pods, m.forced,
		m.refusals, m.waits, m.waiting, m.heartbeats, m.lost, m.retries, m.apiErrors, m.leader, m.transitions,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	m.startAtZero(outcomes)
	m.launches.register(registry)
	return &Observer{
		log: log, metrics: m, events: events, conditions: conditions, drains: drains{byUID: map[string]*recordedDrain{}},
	}
}

func newMetrics() metrics {
	return metrics{
		messages:     counters("messages_total", "Deliveries of SQS messages, by outcome.", "outcome"),
		refused:      counters("messages_refused_total", "Messages that the agent cannot handle, by reason.", "reason"),
		events:       counters("events_total", "Events received, by kind.", "kind"),
		terminations: counters("terminations_total", "Terminations, by outcome.", "outcome"),
		active: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: namespace, Name: "terminations_active", Help: "Terminations in progress.",
		}),
		drains: histogram("drain_duration_seconds", "Time to drain a node.",
			1, 5, 15, 30, 60, 120, 300, 600, 1800, 3600, 4*3600, 12*3600, 48*3600),
		results:  counters("drains_total", "Drains of nodes, by result.", "result"),
		pods:     counters("pods_total", "Pods that were evicted, or whose eviction was blocked.", "action"),
		forced:   counters("pods_forced_total", "Pods deleted despite their budget or their opt-out, by reason.", "reason"),
		refusals: counters("evictions_refused_total", "Evictions and deletions that the API server refused, by reason.", "reason"),
		waits: histogram("eviction_wait_seconds", "Time from the start of a drain to the eviction of a pod.",
			0.1, 0.5, 1, 5, 15, 30, 60, 300, 900, 3600, 4*3600, 12*3600, 48*3600),
		waiting: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: namespace, Name: "pods_waiting",
			Help: "Pods on draining nodes that wait, by reason; for volumes-attached the number of volumes.",
		}, []string{"reason"}),
		heartbeats: counter("heartbeats_total", "Heartbeats that Auto Scaling accepted."),
		lost: counter("messages_lost_total",
			"Lifecycle actions that a resync found, and that ended without a message."),
		retries: counter("step_retries_total",
			"Failed steps of terminations and launches, which are retried."),
		apiErrors: counters("api_errors_total", "Failed calls, which are retried, by API.", "api"),
		launches:  newLaunchMetrics(),
		leader: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: namespace, Name: "leader", Help: "1 if this replica is the leader, else 0.",
		}),
		transitions: counter("leader_transitions_total", "Changes of the leader that this replica has observed."),
	}
}

// startAtZero creates each series, so that rate() sees its first increase.
func (m metrics) startAtZero(outcomes []string) {
	for _, r := range drain.WaitReasons() {
		m.waiting.WithLabelValues(string(r))
	}
	create(m.messages, queue.Outcomes())
	create(m.events, event.Kinds())
	create(m.refused, event.Reasons())
	create(m.terminations, outcomes)
	create(m.results, drain.Results())
	create(m.pods, []string{"evicted", "blocked"})
	create(m.forced, drain.ForceReasons())
	create(m.refusals, []drain.Outcome{drain.Blocked, drain.Deferred, drain.Refused, drain.Denied})
	create(m.apiErrors, []string{"sqs", "autoscaling", "kubernetes"})
}

func create[L ~string](c *prometheus.CounterVec, labels []L) {
	for _, l := range labels {
		c.WithLabelValues(string(l))
	}
}
