package observe

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/node-drainer/node-drainer/pkg/drain"
	"github.com/node-drainer/node-drainer/pkg/handover"
)

type handOverMetrics struct {
	handOvers    *prometheus.CounterVec
	handOverTook prometheus.Histogram
}

// unknownKind is the label of hand-overs whose kind is none of ours: users write it.
const unknownKind = "unknown"

func newHandOverMetrics(r promauto.Factory) handOverMetrics {
	m := handOverMetrics{
		handOvers: r.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Name: "hand_overs_total",
			Help: "Pods that were asked before their eviction, or should have been, by kind and result.",
		}, []string{"kind", "outcome"}),
		handOverTook: histogram(r, "hand_over_seconds", "Time from the first call to a pod until its eviction.",
			0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900, 1800),
	}
	for _, kind := range append(handover.Kinds(), handover.Restart) {
		for _, outcome := range drain.HandOverOutcomes() {
			m.handOvers.WithLabelValues(kind, string(outcome))
		}
	}
	m.handOvers.WithLabelValues(unknownKind, string(handover.Invalid))
	return m
}

// handOverWords are the words for what happens before a pod of some kind is evicted.
type handOverWords struct {
	putOff, ended        string // messages of the log
	putOffEvent, failure string // reasons of Events
	without              string // what a pod leaves its node without
}

func wordsFor(kind string) handOverWords {
	if kind == handover.Restart {
		return handOverWords{
			"waiting for a rolling restart", "rolling restart ended", reasonRollingRestart, reasonRestartFailed,
			"having been replaced by a rolling restart",
		}
	}
	return handOverWords{
		"hand-over put off", "hand-over ended", reasonHandOverPutOff, reasonHandOverFailed, "having handed over",
	}
}

// HandOverPutOff records that a pod may not be evicted yet, according to the answer when it was asked.
func (o *Observer) HandOverPutOff(t drain.Target, h drain.HandOverResult) {
	words := wordsFor(h.Pod.HandOver.Kind)
	o.log.Info().Str("node", t.Name).Str("pod", nameOf(h.Pod)).Str("outcome", string(h.Outcome)).
		Str("reason", h.Message).Msg(words.putOff)
	o.events.OnPod(h.Pod.Namespace, h.Pod.Name, h.Pod.UID, words.putOffEvent, fmt.Sprintf(
		"Node %s is being drained until %s; the pod is not evicted yet (%s)%s",
		t.Name, stamp(t.Deadline), h.Outcome, because(h.Message)), false)
}

// HandOverEnded records what has become of the hand-over of a pod, which is removed now, or was replaced.
func (o *Observer) HandOverEnded(t drain.Target, h drain.HandOverResult) {
	kind := cmp.Or(h.Pod.HandOver.Kind, unknownKind)
	words := wordsFor(kind)
	o.metrics.handOvers.WithLabelValues(kind, string(h.Outcome)).Inc()
	if h.Took > 0 {
		o.metrics.handOverTook.Observe(h.Took.Seconds())
	}
	released := slices.Contains([]handover.Outcome{handover.NotLeading, handover.HandedOver, handover.Replaced}, h.Outcome)
	l := o.log.Info()
	if !released {
		l = o.log.Warn()
	}
	l.Str("node", t.Name).Str("pod", nameOf(h.Pod)).Str("kind", kind).Str("outcome", string(h.Outcome)).
		Str("leader", h.Leader).Str("reason", h.Message).Dur("took", h.Took).Msg(words.ended)
	switch {
	case h.Outcome == handover.HandedOver:
		o.events.OnPod(h.Pod.Namespace, h.Pod.Name, h.Pod.UID, reasonHandedOver, fmt.Sprintf(
			"Handed over%s before it leaves node %s%s", to(h.Leader), t.Name, because(h.Message)), false)
	case !released:
		why := fmt.Sprintf("leaves node %s without %s (%s)%s", t.Name, words.without, h.Outcome, because(h.Message))
		o.events.OnPod(h.Pod.Namespace, h.Pod.Name, h.Pod.UID, words.failure, "The pod "+why, true)
		o.events.OnNode(t.Name, t.UID, words.failure, fmt.Sprintf("Pod %s %s", nameOf(h.Pod), why), true)
	}
}

func to(leader string) string {
	if leader == "" {
		return ""
	}
	return " to pod " + leader
}
