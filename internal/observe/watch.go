package observe

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// The reasons of the Events of a watch.
const (
	reasonRolloutStarted  = "RolloutStarted"
	reasonRolloutFinished = "RolloutFinished"
	reasonRolloutFailed   = "RolloutFailed"
)

// Watch records what trigger watch finds and does: in metrics, and rollouts as Kubernetes Events. Make it with
// NewWatch.
type Watch struct {
	metrics  watchMetrics
	outcomes []string
	event    func(reason, message string, warning bool)
}

// watchMetrics have a label for the group: a watch looks at few.
type watchMetrics struct {
	leader      prometheus.Gauge
	rounds      *prometheus.CounterVec
	lastSuccess prometheus.Gauge
	open        prometheus.Gauge
	active      prometheus.Gauge
	rollouts    *prometheus.CounterVec
	outdated    *prometheus.GaugeVec
	failed      *prometheus.GaugeVec
	refused     *prometheus.GaugeVec
}

// The results of a round.
const (
	roundCompleted = "completed"
	roundFailed    = "failed"
)

// NewWatch returns a Watch that registers its metrics with registry, and records Events with event. interval is the
// time between two rounds, and outcomes lists the outcomes of rollouts.
func NewWatch(
	registry *prometheus.Registry, interval time.Duration, outcomes []string,
	event func(reason, message string, warning bool),
) *Watch {
	registry.MustRegister(
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	r := promauto.With(registry)
	byGroup := func(name, help string) *prometheus.GaugeVec {
		return r.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help}, []string{"group"})
	}
	w := &Watch{outcomes: outcomes, event: event, metrics: watchMetrics{
		leader: gauge(r, "watch_leader", "Whether this replica of the watch leads: 1 or 0."),
		rounds: counters(r, "watch_rounds_total", "Rounds of the watch, by result.", "result",
			[]string{roundCompleted, roundFailed}),
		lastSuccess: gauge(r, "watch_last_success_timestamp_seconds",
			"When the watch has last read its groups, or completed a round; at first when it started."),
		open:     gauge(r, "watch_window_open", "Whether rollouts may begin now: 1 or 0."),
		active:   gauge(r, "watch_rollouts_active", "Rollouts of groups in progress."),
		outdated: byGroup("watch_outdated_instances", "Outdated instances that a rollout would replace, by group."),
		failed: byGroup("watch_failed_target",
			"Whether the target of the group has failed and is not tried again: 1 or 0."),
		refused: byGroup("watch_refused", "Whether the preflight refuses the rollout of the group: 1 or 0."),
		rollouts: r.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Name: "watch_rollouts_total", Help: "Rollouts that have ended, by group and outcome.",
		}, []string{"group", "outcome"}),
	}}
	w.metrics.lastSuccess.SetToCurrentTime()
	gauge(r, "watch_interval_seconds", "Time between two rounds of the watch.").Set(interval.Seconds())
	return w
}

// Looked records what a look at the groups has found, and whether a window is open.
func (w *Watch) Looked(groups []refresh.Watched, open bool) {
	w.forget()
	for _, g := range groups {
		w.metrics.outdated.WithLabelValues(g.Group).Set(float64(g.Outdated))
		w.metrics.failed.WithLabelValues(g.Group).Set(number(g.Failed))
		w.metrics.refused.WithLabelValues(g.Group).Set(number(g.Refused))
		for _, outcome := range w.outcomes {
			w.metrics.rollouts.WithLabelValues(g.Group, outcome)
		}
	}
	w.metrics.open.Set(number(open))
	w.metrics.lastSuccess.SetToCurrentTime()
}

func number(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// forget removes what is known of groups.
func (w *Watch) forget() {
	w.metrics.outdated.Reset()
	w.metrics.failed.Reset()
	w.metrics.refused.Reset()
}

// RoundEnded records the end of a round: of a look at the groups, and of the rollouts that it has found necessary.
func (w *Watch) RoundEnded(err error) {
	if err != nil {
		w.metrics.rounds.WithLabelValues(roundFailed).Inc()
		return
	}
	w.metrics.rounds.WithLabelValues(roundCompleted).Inc()
	w.metrics.lastSuccess.SetToCurrentTime()
}

// RolloutStarted records that instances of the group begin to be replaced.
func (w *Watch) RolloutStarted(group string, outdated int, target string) {
	w.metrics.active.Inc()
	message := fmt.Sprintf("%s: %d outdated instances are replaced: %s", group, outdated, target)
	w.event(reasonRolloutStarted, message, false)
}

// RolloutEnded records how a rollout ended. It records an Event if instances had begun to be replaced.
func (w *Watch) RolloutEnded(group, outcome, message string, started, failed bool) {
	w.metrics.rollouts.WithLabelValues(group, outcome).Inc()
	if !started {
		return
	}
	w.metrics.active.Dec()
	reason := reasonRolloutFinished
	if failed {
		reason = reasonRolloutFailed
	}
	w.event(reason, fmt.Sprintf("%s: %s: %s", group, outcome, message), failed)
}

// LeadershipStarted records that this replica leads.
func (w *Watch) LeadershipStarted() { w.metrics.leader.Set(1) }

// LeadershipEnded records that this replica leads no more: what it knows of groups is out of date from now on.
func (w *Watch) LeadershipEnded() {
	w.metrics.leader.Set(0)
	w.forget()
}
