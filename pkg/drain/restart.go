package drain

import (
	"time"

	"github.com/node-drainer/node-drainer/pkg/handover"
)

// A pod that is to be replaced by a rolling restart is not evicted before its latest deletion: the rollout ends it.
// This file holds when its Deployment is restarted.

// mustRestart reports whether a rolling restart is to replace the pod. One that no restart can replace, or of which
// there was no answer for DRAIN_HAND_OVER_TIMEOUT, is evicted as others are, and so is one whose time is over.
func (p pendingHandOver) mustRestart() bool {
	h := p.pod.HandOver
	if h.Kind != handover.Restart || h.Last == handover.Unfit || !p.schedule.now.Before(p.schedule.latestRemoval(p.pod)) {
		return false
	}
	end := p.restartEnd()
	return end.IsZero() || p.schedule.now.Before(end)
}

// restartEnd is when a pod that is not replaced is evicted as others are; zero is at its latest deletion. An annotation
// counts for a time only, the configuration for the whole drain.
func (p pendingHandOver) restartEnd() time.Time {
	h := p.pod.HandOver
	if h.Pod != nil && h.Pod.Annotations[handover.DrainAnnotation] == handover.Restart {
		return p.askEnd()
	}
	return p.schedule.handOverEnd(h)
}

// restart restarts the Deployment of the pod, or looks at its rollout again, unless the time for that has not come.
// Neither budgets nor turns matter: the rollout keeps its own bounds.
func (p pendingHandOver) restart() {
	t, h := &p.schedule, p.pod.HandOver
	if t.now.Before(h.Next) {
		p.wait(p.pod, Restarting, h.Next, p.restartEnd(), p.earliestDeletion(p.pod), t.latestDeletion(p.pod))
		return
	}
	p.step.Release = append(p.step.Release, Release{
		Removal: Removal{Pod: p.pod}, Until: earliest(t.now.Add(writeTimeout), t.latestRemoval(p.pod)),
	})
	p.decideAgain(t.latestRemoval(p.pod))
}
