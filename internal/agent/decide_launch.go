package agent

import (
	"time"

	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/internal/node"
)

// This file decides about a launch until its node is ready, or its time is over. Its functions are pure.

const (
	// recovery is the time that a node gets after an outage of the API server during which its time ran out, and after
	// the agent has uncordoned it. A watch reconnects within a minute (the reflector's backoff in client-go). Then the
	// kubelet has to report, and the controllers to remove their taints.
	recovery = 3 * time.Minute
	// lastCheck is how long before the end of the hook's timeout the API server is asked at the latest.
	lastCheck = 10 * time.Second
)

// decideLaunch waits for the node. Only the API server can say that it is not ready.
func (s *state) decideLaunch(r *reason, p policy, out *plan) {
	if r.limit.known.IsZero() {
		out.do(readLimit, r)
		return
	}
	if r.limit.stale {
		out.do(readLimit, r)
	}
	switch due := s.dueAt(r, p); {
	case s.mustUncordon(r):
		s.uncordonEarlier(r, out)
		return
	case !s.now.Before(due):
		out.do(askReady, r)
		return
	case !r.done.has(register), !s.registered, s.node.AwaitsBoot():
		out.do(register, r)
		out.at(due)
	default:
		out.do(awaitReady, r)
		out.at(due)
	}
}

// dueAt returns when the node must be ready. One that was cordoned because it was not in time gets no more time from
// another process.
func (s *state) dueAt(r *reason, p policy) time.Time {
	if isOverdue(s.node) && r.recovers.IsZero() {
		return s.now
	}
	latest := r.latestDue()
	due := earlier(laterOf(r.startsAt, r.limit.earliest).Add(p.launch.Timeout), latest)
	return laterOf(due, earlier(r.recovers, latest))
}

// latestDue is until when the node of a launch may be waited for at most.
func (r *reason) latestDue() time.Time { return r.limit.hook.Add(-lastCheck) }

// isOverdue reports whether the node was cordoned because it was not ready in time.
func isOverdue(n node.Node) bool { return n.Mark.Reason == string(event.LifecycleLaunching) }

// mustUncordon reports whether the node has a mark from before its instance went into the warm pool, or before its root
// volume was replaced. A mark that is younger than the launch belongs to a termination that is in progress, and so does
// one that says when EC2 terminates the instance.
func (s *state) mustUncordon(r *reason) bool {
	since := s.node.Mark.Since
	return s.registered && r.done.has(register) && !r.done.has(uncordon) && !s.node.AwaitsBoot() &&
		!since.IsZero() && since.Before(r.At) && !isOverdue(s.node) && !isAnnounced(s.node)
}

// uncordonEarlier uncordons the node once the drains of the time before the launch have ended.
func (s *state) uncordonEarlier(r *reason, out *plan) {
	isEnding := false
	for _, q := range s.reasons {
		if !q.canceled && !q.isLaunch() && q.At.Before(r.At) {
			out.cancel(q)
			isEnding = true
		}
		isEnding = isEnding || q.canceled
	}
	if !isEnding {
		out.do(uncordon, r)
	}
}
