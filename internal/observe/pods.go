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

// PodEvicted tells that the eviction of a pod was accepted.
func (o *Observer) PodEvicted(t drain.Target, p drain.Pod, waited time.Duration) {
	o.metrics.pods.WithLabelValues("evicted").Inc()
	o.metrics.waits.Observe(waited.Seconds())
	o.log.Debug().Str("node", t.Name).Str("pod", nameOf(p)).Dur("waited", waited).Msg("pod evicted")
}

// PodBlocked tells that a pod must wait, and for what: on the pod each time, on the node once for each thing
// that pods of it wait for.
func (o *Observer) PodBlocked(t drain.Target, w drain.Waiting) {
	o.metrics.pods.WithLabelValues("blocked").Inc()
	level := zerolog.InfoLevel
	if w.Reason == drain.Misconfigured {
		level = zerolog.WarnLevel
	}
	o.log.WithLevel(level).Str("node", t.Name).Str("pod", nameOf(w.Pod)).Str("because", string(w.Reason)).
		Strs("budgets", w.Pod.Budgets).Str("reason", w.Message).Time("since", w.Since).Msg("eviction blocked")
	reason, what := obstacle(w)
	o.events.OnPod(w.Pod.Namespace, w.Pod.Name, w.Pod.UID, reason, fmt.Sprintf(
		"Node %s is being drained until %s; the pod %s", t.Name, stamp(t.Deadline), what), reason != reasonPutOff)
	if o.drains.isNews(t.UID, w) {
		o.events.OnNode(t.Name, t.UID, reason,
			fmt.Sprintf("Pod %s %s", nameOf(w.Pod), what), reason != reasonPutOff)
	}
}

// obstacle is the reason of the Event that a pod must wait, and how a sentence about the pod goes on.
func obstacle(w drain.Waiting) (reason, what string) {
	since := " since " + stamp(w.Since)
	budgets := cmp.Or(w.Budget, strings.Join(w.Pod.Budgets, " and "))
	switch {
	case w.Reason == drain.OptedOut:
		return reasonPutOff, "is waited for" + since + ", as an annotation asks" + because(w)
	case w.Reason == drain.WaitedFor:
		return reasonPutOff, "is waited for" + since + ", as the agent is configured" + because(w)
	case w.Reason == drain.Misconfigured:
		return reasonMisconfigured, "is not let go by PodDisruptionBudget " + budgets + because(w) + remedy(w)
	case budgets == "":
		return reasonHeld, "waits" + since + because(w)
	}
	return reasonHeld, "waits for PodDisruptionBudget " + budgets + since + because(w)
}

// remedy is what to change for the pod to be evicted at all.
func remedy(w drain.Waiting) string {
	if len(w.Pod.Budgets) > 1 {
		return ". Have only one of them select the pod"
	}
	return ". Run more pods, lower its minAvailable, or raise its maxUnavailable"
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func because(w drain.Waiting) string {
	if w.Message == "" {
		return ""
	}
	return ": " + w.Message
}

// PodForced tells that a pod was deleted past its budget, or past its own wish to stay.
func (o *Observer) PodForced(t drain.Target, r drain.Removal) {
	o.metrics.forced.WithLabelValues(string(r.Reason)).Inc()
	grace := cmp.Or(r.Grace, r.Pod.Grace)
	e := o.log.Warn().Str("node", t.Name).Str("pod", nameOf(r.Pod)).Str("reason", string(r.Reason)).
		Strs("budgets", r.Pod.Budgets).Dur("grace", grace)
	reason, why := reasonAtDeadline, fmt.Sprintf("node %s must be empty by %s and has been draining for %v",
		t.Name, stamp(t.Deadline), time.Since(t.Since).Round(time.Second))
	if r.Reason == drain.Unhealthy {
		reason, why = reasonUnhealthy, fmt.Sprintf(
			"node %s is being drained, and the pod has not been Ready for so long that its budget protects nothing",
			t.Name)
		e.Msg("unhealthy pod deleted")
	} else {
		e.Msg("pod deleted at the deadline")
	}
	o.events.OnPod(r.Pod.Namespace, r.Pod.Name, r.Pod.UID, reason,
		fmt.Sprintf("Deleted with a grace of %v: %s", grace, why), true)
}

// EvictionRefused tells that an attempt to move a pod came to nothing.
func (o *Observer) EvictionRefused(t drain.Target, p drain.Pod, outcome drain.Outcome) {
	o.metrics.refusals.WithLabelValues(string(outcome)).Inc()
	o.log.Debug().Str("node", t.Name).Str("pod", nameOf(p)).Str("outcome", string(outcome)).
		Msg("eviction refused")
}
