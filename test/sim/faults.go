package sim

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/node-drainer/node-drainer/internal/retry"
	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/sim/kube"
)

// faults are what fails.
type faults struct{ *world }

// runFaults runs all faults of the Spec, and returns when they have ended.
func (w faults) runFaults(ctx context.Context) {
	var running sync.WaitGroup
	for _, f := range w.spec.Faults {
		running.Go(func() {
			if !retry.Sleep(ctx, time.Until(w.began.Add(f.From))) {
				return
			}
			w.log.add("fault", f.Do, "on", f.On, "what", f.What, "n", f.N, "for", f.For)
			end := w.begin(ctx, f)
			retry.Sleep(ctx, f.For)
			end()
			w.log.add("fault", f.Do+" ended", "on", f.On, "what", f.What)
		})
	}
	running.Wait()
}

// begin lets a fault begin, and returns what ends it. Faults that last in an API server are those of injectFaults.
func (w faults) begin(ctx context.Context, f Fault) (end func()) {
	switch f.Do {
	case "stop":
		for _, a := range w.agentsOf(f.On) {
			a.stopAfter(f.N, func() {
				w.work.Go(func() {
					if retry.Sleep(ctx, stopDuring(a.cluster.Timing)) {
						a.terminate(ctx)
					}
				})
			})
		}
	case "crash":
		for _, a := range w.agentsOf(f.On) {
			a.crashAfter(f.N)
		}
	case "kube-break", "kube-expire":
		for _, c := range w.named(f.On) {
			if f.Do == "kube-expire" {
				c.server.Expire()
			}
			c.server.BreakWatches()
		}
	case "queue-delay", "queue-duplicate", "queue-reorder":
		if len(w.agentsOf(f.On)) > 0 { // The install may have been left out.
			return w.disturb(f)
		}
	default:
		return w.beginAWS(f)
	}
	return func() {}
}

// stopDuring is how long after a write an agent is told to stop, so that its answer, or what the API server does before
// it, often comes later.
func stopDuring(t Timing) time.Duration { return t.Latency * 3 / 10 }

// beginAWS lets a fault of AWS begin, and returns what ends it.
func (w faults) beginAWS(f Fault) (end func()) {
	switch f.Do {
	case "aws-down":
		return w.aws.Inject(awsim.Fault{Service: f.What, Status: http.StatusServiceUnavailable, Code: "ServiceUnavailable"})
	case "aws-throttle":
		return w.aws.Inject(awsim.Fault{Service: f.What, Code: "ThrottlingException", Message: "Rate exceeded"})
	case "aws-drop":
		return w.aws.Inject(awsim.Fault{Service: f.What, Drop: true, AfterApply: true, Times: 3})
	case "aws-fail":
		return w.aws.Inject(awsim.Fault{Action: f.What, Status: http.StatusInternalServerError, Times: f.N})
	case "aws-deny":
		return w.aws.Inject(awsim.Fault{Action: f.What, Code: "AccessDenied", Status: http.StatusForbidden})
	}
	return func() {}
}

// disturb has a queue delay, repeat or reorder its messages.
func (w faults) disturb(f Fault) (end func()) {
	switch f.Do {
	case "queue-delay":
		w.aws.Delay(queueURL(f.On), 30*time.Second)
		return func() { w.aws.Delay(queueURL(f.On), 0) }
	case "queue-duplicate":
		w.aws.Duplicate(queueURL(f.On), 5)
	case "queue-reorder":
		w.aws.Reorder(queueURL(f.On), true)
		return func() { w.aws.Reorder(queueURL(f.On), false) }
	}
	return func() {}
}

// of returns the webhook as the API server calls it between two times.
func (h *Webhook) of(from, to time.Time) kube.Webhook {
	out := kube.Webhook{
		Name: "admission.example.com", From: from, To: to, Deletions: h.Deletions, NoEvictions: !h.Evictions,
		Allows: h.Code == 0, Code: h.Code, Reason: metav1.StatusReason(h.Reason), Message: "not now",
		Answers: h.Answers, Timeout: h.Timeout, Ignores: h.Ignores,
	}
	if h.Workload != "" {
		out.Labels = map[string]string{"app": h.Workload}
	}
	return out
}

// injectFaults has the API servers fail as the Spec says, each fault at its time.
func (w faults) injectFaults() {
	effects := map[string]kube.Fault{
		"kube-down": {Effect: kube.Refused}, "kube-hang": {Effect: kube.Unanswered}, "kube-fail": {Effect: kube.Failing},
		"kube-slow": {Effect: kube.Slow, Delay: 2 * time.Second}, "kube-lag": {Effect: kube.Stale, Delay: 20 * time.Second},
		"kube-throttle": {Effect: kube.Throttled, Every: 2, Delay: time.Second}, "kube-lose": {Effect: kube.Lost, Every: 3},
		"kube-conflict": {Effect: kube.Conflicting, Every: 2}, "kube-deny": {Effect: kube.Denied},
	}
	for _, f := range w.spec.Faults {
		for _, c := range w.named(f.On) {
			if fault, ok := effects[f.Do]; ok {
				fault.From, fault.To = w.began.Add(f.From), w.began.Add(f.From+f.For)
				fault.Verb, fault.Resource, _ = strings.Cut(f.What, " ")
				c.server.Inject(fault)
			}
		}
	}
	for _, c := range w.clusters {
		c.server.Webhooks(w.webhooks(c)...)
	}
}

// webhooks returns the webhooks of a cluster.
func (w faults) webhooks(c *cluster) (out []kube.Webhook) {
	for _, f := range w.spec.Faults {
		from, to := w.began.Add(f.From), w.began.Add(f.From+f.For)
		switch {
		case f.On != "" && f.On != c.Name:
		case f.Do == "kube-admission":
			out = append(out, f.Webhook.of(from, to))
		case f.Do == "kube-webhook" && f.What == "slow":
			out = append(out, kube.Webhook{Name: "pods.example.com", From: from, To: to, Timeout: 10 * time.Second})
		case f.Do == "kube-webhook":
			out = append(out, kube.Webhook{Name: "pods.example.com", From: from, To: to})
		}
	}
	return out
}
