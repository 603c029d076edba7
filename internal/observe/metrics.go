package observe

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/rs/zerolog"

	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/internal/launch"
	"github.com/node-drainer/node-drainer/internal/node"
	"github.com/node-drainer/node-drainer/pkg/drain"
	"github.com/node-drainer/node-drainer/pkg/queue"
)

// metrics have no label for a node, a pod or an instance: the number of series must not grow with the
// cluster.
type metrics struct {
	messages      *prometheus.CounterVec
	eventsDropped *prometheus.CounterVec
	refused       *prometheus.CounterVec
	events        *prometheus.CounterVec
	terminations  *prometheus.CounterVec
	active        prometheus.Gauge
	drains        prometheus.Histogram
	forecasts     prometheus.Histogram
	results       *prometheus.CounterVec
	managed       *prometheus.GaugeVec
	heartbeats    prometheus.Counter
	lost          prometheus.Counter
	unannounced   prometheus.Counter
	retries       prometheus.Counter
	spotStatuses  *prometheus.CounterVec
	apiErrors     *prometheus.CounterVec
	unanswered    prometheus.Gauge
	leader        prometheus.Gauge
	transitions   prometheus.Counter
	podMetrics
	launchMetrics
	handOverMetrics
	installationMetrics
}

// podMetrics are about the pods of nodes that are drained.
type podMetrics struct {
	pods          *prometheus.CounterVec
	forced        *prometheus.CounterVec
	left          *prometheus.CounterVec
	graceCuts     prometheus.Counter
	uncoordinated *prometheus.CounterVec
	refusals      *prometheus.CounterVec
	waits         prometheus.Histogram
	waiting       *prometheus.GaugeVec
}

type launchMetrics struct {
	launches       *prometheus.CounterVec
	activeLaunches prometheus.Gauge
	launchTook     prometheus.Histogram
}

const namespace = "node_drainer"

// counters returns a counter with a label. It creates the series of each value, so that rate() sees its first
// increase.
func counters[L ~string](r promauto.Factory, name, help, label string, values []L) *prometheus.CounterVec {
	c := r.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, []string{label})
	for _, v := range values {
		c.WithLabelValues(string(v))
	}
	return c
}

// gauges returns a gauge with a label, and also creates the series.
func gauges[L ~string](r promauto.Factory, name, help, label string, values []L) *prometheus.GaugeVec {
	g := r.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help}, []string{label})
	for _, v := range values {
		g.WithLabelValues(string(v))
	}
	return g
}

func gauge(r promauto.Factory, name, help string) prometheus.Gauge {
	return r.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help})
}

func counter(r promauto.Factory, name, help string) prometheus.Counter {
	return r.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help})
}

func histogram(r promauto.Factory, name, help string, buckets ...float64) prometheus.Histogram {
	return r.NewHistogram(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: buckets})
}

// New returns an Observer that logs to log, records Kubernetes Events with events, writes conditions of Nodes
// with conditions, and registers its metrics with registry. outcomes lists the outcomes of terminations.
func New(
	log zerolog.Logger, registry *prometheus.Registry, events Events, conditions Conditions, outcomes []string,
) *Observer {
	registry.MustRegister(
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m := newMetrics(promauto.With(registry), outcomes)
	m.installationMetrics = newInstallationMetrics(promauto.With(registry))
	o := &Observer{
		log: log, metrics: m, events: events, conditions: conditions, drains: drains{byUID: map[string]*recordedDrain{}},
		history: noHistory{}, notifier: Silence{}, notified: newNotified(promauto.With(registry)),
	}
	o.registerDeadlines(promauto.With(registry))
	return o
}

// registerDeadlines registers metrics that are computed whenever they are read.
func (o *Observer) registerDeadlines(r promauto.Factory) {
	nearest := func(name, help string, of func(*recordedDrain) time.Time) {
		r.NewGaugeFunc(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help}, func() float64 {
			return o.drains.nearest(of)
		})
	}
	nearest("nearest_deadline_timestamp_seconds", "The earliest deadline of the running drains; 0 if none runs.",
		func(d *recordedDrain) time.Time { return d.deadline })
	nearest("forced_removal_timestamp_seconds",
		"When the first pod that waits for a budget or a webhook is removed in spite of it, or left; 0 if none waits.",
		func(d *recordedDrain) time.Time { return d.forcedAt })
}

func newMetrics(r promauto.Factory, outcomes []string) metrics {
	return metrics{
		messages: counters(r, "messages_total", "Deliveries of SQS messages, by outcome.", "outcome", queue.Outcomes()),
		refused: counters(r, "messages_refused_total", "Messages that the agent refused, by reason.",
			"reason", event.Reasons()),
		events:       counters(r, "events_total", "Events received, by kind.", "kind", event.Kinds()),
		terminations: counters(r, "terminations_total", "Terminations, by outcome.", "outcome", outcomes),
		active:       gauge(r, "terminations_active", "Terminations in progress."),
		drains: histogram(r, "drain_duration_seconds", "Time to drain a node.",
			1, 5, 15, 30, 60, 120, 300, 600, 1800, 3600, 4*3600, 12*3600, 48*3600),
		forecasts: histogram(r, "drain_forecast_ratio",
			"Time to drain a node that had pods, divided by the time that was expected when the drain began.",
			0.25, 0.5, 0.8, 1, 1.2, 1.5, 2, 4, 10),
		results:    counters(r, "drains_total", "Drains of nodes, by result.", "result", drain.Results()),
		managed:    gauges(r, "managed_nodes", "Nodes that another program drains, by manager.", "manager", node.Managers()),
		heartbeats: counter(r, "heartbeats_total", "Heartbeats that Auto Scaling accepted."),
		unannounced: counter(r, "unannounced_terminations_total",
			"Instances that left their group without an event, although a hook of this agent should have held them."),
		lost: counter(r, "messages_lost_total", "Lifecycle actions that a resync found, and that had no message."),
		retries: counter(r, "step_retries_total",
			"Failed steps of terminations and launches, and failed resyncs, which are retried."),
		spotStatuses: counters(r, "spot_statuses_total",
			"Status codes of Spot Instance requests that EC2 gave for interruption warnings.",
			"code", []string{"fulfilled", "marked-for-termination", "none", "no-answer"}),
		apiErrors: counters(r, "api_errors_total", "Failed calls, which are retried, by API.",
			"api", []string{"sqs", "autoscaling", "kubernetes"}),
		eventsDropped: counters(r, "events_dropped_total", "Kubernetes Events that were not written, by what they are about.",
			"object", []string{"node", "pod"}),
		unanswered: gauge(r, "kubernetes_unanswered_seconds",
			"Time for which the API server has not answered any request; 0 while it answers."),
		leader:      gauge(r, "leader", "1 if this replica is the leader, else 0."),
		transitions: counter(r, "leader_transitions_total", "Changes of the leader that this replica has observed."),

		podMetrics:      newPodMetrics(r),
		launchMetrics:   newLaunchMetrics(r),
		handOverMetrics: newHandOverMetrics(r),
	}
}

func newPodMetrics(r promauto.Factory) podMetrics {
	return podMetrics{
		pods: counters(r, "pods_total", "Pods that were evicted, or whose eviction was blocked.",
			"action", []string{"evicted", "blocked"}),
		forced: counters(r, "pods_forced_total", "Pods removed despite a budget or opt-out, by reason.",
			"reason", drain.ForceReasons()),
		left: counters(r, "pods_left_total",
			"Pods on nodes whose drain has ended, by what kept them; put-back: by their controllers.",
			"reason", drain.LeftReasons()),
		uncoordinated: counters(r, "pods_uncoordinated_total",
			"Pods removed without asking their responders, or apart from their PodGroup.", "with", drain.Coordinations()),
		graceCuts: counter(r, "grace_periods_cut_total",
			"Pods that were evicted or deleted with less than their own grace period."),
		refusals: counters(r, "evictions_refused_total", "Evictions that failed, by reason.",
			"reason", []drain.Outcome{drain.Blocked, drain.Deferred, drain.Refused, drain.Denied}),
		waits: histogram(r, "eviction_wait_seconds", "Time from the start of a drain to the eviction of a pod.",
			0.1, 0.5, 1, 5, 15, 30, 60, 300, 900, 3600, 4*3600, 12*3600, 48*3600),
		waiting: gauges(r, "pods_waiting",
			"Pods on draining nodes that wait, by reason; for volumes-attached the number of volumes.",
			"reason", drain.WaitReasons()),
	}
}

func newLaunchMetrics(r promauto.Factory) launchMetrics {
	return launchMetrics{
		launches:       counters(r, "launches_total", "Launches, by outcome.", "outcome", launch.Outcomes()),
		activeLaunches: gauge(r, "launches_active", "Launches in progress."),
		launchTook: histogram(r, "launch_duration_seconds", "Time until the node of a launching instance was ready.",
			1, 5, 15, 30, 60, 120, 180, 300, 600, 900, 1800, 3600),
	}
}
