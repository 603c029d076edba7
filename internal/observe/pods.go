package observe

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/node-drainer/node-drainer/pkg/drain"
)

func nameOf(p drain.Pod) string { return p.Namespace + "/" + p.Name }

// PodEvicted records that the API server accepted the eviction of a pod.
func (o *Observer) PodEvicted(t drain.Target, r drain.Removal, waited time.Duration) {
	o.metrics.pods.WithLabelValues("evicted").Inc()
	o.countUncoordinated(r.Pod)
	o.metrics.waits.Observe(waited.Seconds())
	o.log.Debug().Str("node", t.Name).Str("pod", nameOf(r.Pod)).Dur("waited", waited).Msg("pod evicted")
	if !r.CutsGrace() {
		return
	}
	o.graceCut(t, r)
	o.events.OnPod(r.Pod.Namespace, r.Pod.Name, r.Pod.UID, reasonGraceCut, fmt.Sprintf(
		"Evicted with a grace period of %s: node %s must be empty by %s", graceOf(r), t.Name, stamp(t.Deadline)), true)
}

// countUncoordinated counts a removal that nothing coordinates although something should.
func (o *Observer) countUncoordinated(p drain.Pod) {
	for _, with := range p.Coordination.With() {
		o.metrics.uncoordinated.WithLabelValues(with).Inc()
	}
}

// graceCut records that a pod got less than its own grace period.
func (o *Observer) graceCut(t drain.Target, r drain.Removal) {
	o.metrics.graceCuts.Inc()
	o.log.Warn().Str("node", t.Name).Str("pod", nameOf(r.Pod)).Dur("requested", r.Pod.Grace).Dur("given", r.Grace).
		Msg("grace period cut")
}

// graceOf names the grace period that a pod got, and its own if that is longer.
func graceOf(r drain.Removal) string {
	if r.CutsGrace() {
		return fmt.Sprintf("%v instead of %v", r.Grace, r.Pod.Grace)
	}
	return cmp.Or(r.Grace, r.Pod.Grace).String()
}

// PodBlocked records what the eviction of a pod waits for. The pod gets an Event each time, its node one for
// each reason and budget.
func (o *Observer) PodBlocked(t drain.Target, w drain.Waiting) {
	o.metrics.pods.WithLabelValues("blocked").Inc()
	level := zerolog.InfoLevel
	if w.Reason == drain.Misconfigured {
		level = zerolog.WarnLevel
	}
	o.log.WithLevel(level).Str("node", t.Name).Str("pod", nameOf(w.Pod)).Str("because", string(w.Reason)).
		Strs("budgets", w.Pod.Budgets).Str("reason", w.Message).Time("since", w.Since).Msg("eviction blocked")
	reason, what := obstacle(w)
	warning := reason != reasonPostponed
	o.events.OnPod(w.Pod.Namespace, w.Pod.Name, w.Pod.UID, reason, fmt.Sprintf(
		"Node %s is being drained until %s; the pod %s", t.Name, stamp(t.Deadline), what), warning)
	if o.drains.addObstacle(t.UID, w) {
		o.events.OnNode(t.Name, t.UID, reason, fmt.Sprintf("Pod %s %s", nameOf(w.Pod), what), warning)
	}
}

// obstacle returns the reason of the Event for a pod that waits, and the predicate of a sentence about the
// pod.
func obstacle(w drain.Waiting) (reason, what string) {
	since, why := " since "+stamp(w.Since), because(w.Message)
	budgets := cmp.Or(w.Budget, strings.Join(w.Pod.Budgets, " and "))
	switch {
	case w.Reason == drain.OptedOut:
		return reasonPostponed, "has been waiting" + since + ", because its annotation forbids the eviction" + why
	case w.Reason == drain.WaitedFor:
		return reasonPostponed, "has been waiting" + since + ", because the agent is configured to wait" + why
	case w.Reason == drain.Misconfigured:
		return reasonBudget, "cannot be evicted because of PodDisruptionBudget " + budgets + why + remedy(w)
	case w.Reason == drain.RefusedByWebhook:
		return reasonEvictionBlocked, "has been waiting" + since + ", because admission webhook " + w.Webhook +
			" refuses the eviction" + why
	case budgets == "":
		return reasonEvictionBlocked, "has been waiting" + since + why
	}
	return reasonEvictionBlocked, "has been waiting for PodDisruptionBudget " + budgets + since + why
}

// remedy returns what the user can change so that the pod can be evicted.
func remedy(w drain.Waiting) string {
	if len(w.Pod.Budgets) > 1 {
		return ". Change their selectors so that only one of them selects the pod"
	}
	if strings.Contains(w.Message, "cannot be calculated") {
		return ". Give it minAvailable as a number: maxUnavailable and percentages need a controller with a scale subresource"
	}
	return ". Run more pods, lower its minAvailable, or raise its maxUnavailable"
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func because(message string) string {
	if message == "" {
		return ""
	}
	return ": " + message
}

// PodForced records that a pod was removed despite its budget or its opt-out.
func (o *Observer) PodForced(t drain.Target, r drain.Removal) {
	o.metrics.forced.WithLabelValues(string(r.Reason)).Inc()
	if r.Kind != drain.LastEviction { // else PodEvicted has counted it
		o.countUncoordinated(r.Pod)
	}
	grace := cmp.Or(r.Grace, r.Pod.Grace)
	e := o.log.Warn().Str("node", t.Name).Str("pod", nameOf(r.Pod)).Str("reason", string(r.Reason)).
		Strs("budgets", r.Pod.Budgets).Dur("grace", grace)
	reason, verb := forcedReason(r)
	why := fmt.Sprintf("node %s must be empty by %s and has been draining for %v",
		t.Name, stamp(t.Deadline), time.Since(t.Since).Round(time.Second))
	switch {
	case r.Reason == drain.Unhealthy:
		why = fmt.Sprintf(
			"node %s is being drained, and the pod has not been Ready for so long that its budget does not protect it",
			t.Name)
		e.Msg("unhealthy pod deleted")
	case r.Reason == drain.OthersLeft:
		why = fmt.Sprintf("all other pods have left node %s, and the pod would return", t.Name)
		e.Msg("pod deleted after the others")
	case r.Kind == drain.LastEviction:
		e.Msg("pod evicted at the deadline")
	default:
		e.Msg("pod deleted at the deadline")
	}
	if o.drains.addForced(t.UID, r) {
		o.events.OnPod(r.Pod.Namespace, r.Pod.Name, r.Pod.UID, reason,
			fmt.Sprintf("%s with a grace period of %s: %s", verb, graceOf(r), why), true)
	}
	if r.CutsGrace() && r.Kind != drain.LastEviction { // of an eviction, PodEvicted records it
		o.graceCut(t, r)
	}
}

// EvictionRefused records that the API server refused an eviction or a deletion.
func (o *Observer) EvictionRefused(t drain.Target, p drain.Pod, outcome drain.Outcome) {
	o.metrics.refusals.WithLabelValues(string(outcome)).Inc()
	o.log.Debug().Str("node", t.Name).Str("pod", nameOf(p)).Str("outcome", string(outcome)).
		Msg("eviction refused")
}
