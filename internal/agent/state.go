package agent

import (
	"slices"
	"time"

	"github.com/node-drainer/node-drainer/internal/autoscaling"
	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/internal/node"
	"github.com/node-drainer/node-drainer/internal/retry"
	"github.com/node-drainer/node-drainer/pkg/drain"
)

// policy is what users configure of decisions.
type policy struct {
	events                       event.Config
	drainTimeout, confirmTimeout time.Duration
	resyncInterval               time.Duration
	launch                       LaunchConfig
	dryRun                       bool
}

// of returns the policy for the Node, which may have one of its own.
func (p policy) of(n node.Node) policy {
	if n.Policy.Timeout > 0 {
		p.drainTimeout = n.Policy.Timeout
	}
	return p
}

// state is what is known of an instance.
type state struct {
	id         string
	now        time.Time
	node       node.Node // with the mark that it is known to have
	nodeSince  time.Time // since when this process knows the Node
	registered bool
	reasons    []*reason
	running    map[step]time.Time // since when, with the attempts before
	failing    map[step]time.Time // since when steps have failed that are not being done

	// The drain of the node.
	finished      finishedDrain
	tried         string    // the UID of the Node whose drain has begun, and not ended
	before        time.Time // since when the node was cordoned before the last cordon
	left          bool      // the name of the drained Node is another instance's
	notBefore     time.Time // no drain begins before, since the last one failed
	cordonAgainAt time.Time // when the node may be cordoned again if somebody has uncordoned it

	// Pods that come late.
	lateNext time.Time // the node is not watched for them before
	lates    retry.Pauses

	// The drain for what can wait.
	hasTurn    bool      // it may begin
	refusal    refusal   // why not
	beganMaint time.Time // when the last drain for announced maintenance began

	// The annotation that asks for a drain.
	requested    bool      // that drain has begun
	removed      bool      // it was removed since
	refuted      string    // the reason in the mark that is not true, and whose mark only the annotation has kept
	withdrawn    bool      // nothing is left of an annotation that was removed
	nextWithdraw time.Time // when the node is uncordoned, if its instance stays
	withdraws    retry.Pauses

	// A mark that nothing is known of.
	mustJudge bool                // a resync asks whether the node must still be cordoned
	nextJudge time.Time           // when that is asked
	member    *autoscaling.Member // what the resync has just heard of the instance; nil if it must be asked
	healthy   time.Time           // since when the instance is healthy; zero if it is not
	mustPut   bool                // it has been healthy for long enough: the node is uncordoned
}

// isRunning reports whether a step for the reason is being done.
func (s *state) isRunning(v verb, k key) bool { return hasStep(s.running, v, k) }

// isFailing reports whether the last attempt at a step for the reason has failed.
func (s *state) isFailing(v verb, k key) bool { return hasStep(s.failing, v, k) }

// hasStep reports whether one of the steps is of this kind, for the reason.
func hasStep[V any](steps map[step]V, v verb, k key) bool {
	for st := range steps {
		if st.do == v && st.key == k {
			return true
		}
	}
	return false
}

// triedSince returns since when the step is being done, or fails; now if it is new.
func (s *state) triedSince(st step) time.Time {
	if since, ok := s.running[st]; ok {
		return since
	}
	if since, ok := s.failing[st]; ok {
		return since
	}
	return s.now
}

// isDraining reports whether a Node of the instance is being drained. It may have been deleted.
func (s *state) isDraining() bool { return s.isRunning(drainNode, key{}) }

// isBeingDrained reports whether the Node is being drained, and not one that it has replaced.
func (s *state) isBeingDrained() bool {
	_, ok := s.running[step{do: drainNode, uid: s.node.UID}]
	return ok
}

// ofKind returns a reason of the kind; nil if there is none.
func (s *state) ofKind(k event.Kind) *reason {
	if i := slices.IndexFunc(s.reasons, func(r *reason) bool { return r.Kind == k }); i >= 0 {
		return s.reasons[i]
	}
	return nil
}

// isOnlyDrainedFor reports whether the node is being drained for this reason alone.
func (s *state) isOnlyDrainedFor(r *reason) bool {
	return s.isDraining() && s.awaitsDrain(r) && !s.isNeeded(r)
}

// isNeeded reports whether another reason needs the node cordoned.
func (s *state) isNeeded(except *reason) bool {
	return slices.ContainsFunc(s.reasons, func(r *reason) bool {
		return r != except && !r.canceled && !r.gone && !r.confirmed.IsZero() && r.limitBegan() &&
			r.Kind != event.ScheduledChangeCanceled && (!r.isLaunch() || !r.holdEnds.IsZero())
	})
}

// limitBegan reports whether the node is to be drained for the reason: nothing is left to wait for before.
func (r *reason) limitBegan() bool { return !r.limit.known.IsZero() || r.markedUID != "" }

// isMarked reports whether the Node is cordoned, and has the deadline of the reason.
func (s *state) isMarked(r *reason, p policy) bool {
	isCordoned := p.dryRun || !s.isUncordoned() || s.now.Before(s.cordonAgainAt)
	return isCordoned && r.markedUID == s.node.UID && !r.deadline.IsZero() && !r.deadline.After(r.drainBy(p))
}

// isUncordoned reports whether the node has no mark, or somebody has uncordoned it.
func (s *state) isUncordoned() bool { return s.node.Uncordoned || s.node.Mark.Since.IsZero() }

// isRecorded reports whether the mark of the Node says all that the messages of the reason did: they are not needed.
// That of a hook is, if nothing else says which one holds the instance should the Node be deleted.
func (s *state) isRecorded(r *reason, p policy) bool {
	isMarked := s.isMarked(r, p) && s.node.Mark.InstanceID != "" && !r.limit.stale
	return !r.isLaunch() && !r.confirmed.IsZero() && isMarked && !p.dryRun &&
		(r.Kind != event.SpotInterruption || r.spot.decided) &&
		(r.Hook.Name == "" || r.findable && s.node.Mark.Hook == hookOf(r.Event))
}

// reportFor returns the report of the drain that the reason needs; nil if there is none.
func (s *state) reportFor(r *reason) *drain.Report {
	switch f := s.finished; {
	case s.hasReport(r):
		return r.report
	case !s.registered, f.repeat, f.uid != s.node.UID, !f.since.Equal(s.node.Mark.Since), s.mustRepeat(r):
		return nil
	case r.markedUID != s.node.UID:
		return nil // the reason's deadline is not on the Node yet
	default:
		return &f.report
	}
}

// hasReport reports whether a drain for the reason has ended: of the Node that the instance has now, if it has one.
func (s *state) hasReport(r *reason) bool {
	return r.report != nil && (r.reportUID == s.node.UID || !s.registered || s.left)
}

// awaitsDrain reports whether the reason waits for the end of the node's drain, which has begun for it.
func (s *state) awaitsDrain(r *reason) bool { return r.draining && !s.hasReport(r) }

// mustRepeat reports whether the drain of a node, which has ended, is to begin again for the reason: for a hook or for
// another event than the first one, because a pod may have been bound since; and on a node that failed and is back. One
// hook, which may hold the instance by one action after another, has no more time after the deadline.
func (s *state) mustRepeat(r *reason) bool {
	n := s.node
	if r.Hook.Name != "" && s.finished.hook == hookOf(r.Event) && !s.now.Before(n.Mark.Deadline) {
		return false
	}
	return r.Hook.Name != "" || n.Mark.Reason != string(r.Kind) || s.hasReturned()
}

// hasReturned reports whether pods were left on the node because its machine or its kubelet had failed, and the node is
// Ready now.
func (s *state) hasReturned() bool { return s.isDrained() && s.finished.report.Lost && s.node.Ready }

// isDrained reports whether the last drain of the node was for its mark.
func (s *state) isDrained() bool {
	f := s.finished
	return f.uid == s.node.UID && f.uid != "" && !f.repeat && f.since.Equal(s.node.Mark.Since)
}

// hasOtherDeadline reports whether the node has a deadline by another event. Acting on a warning that EC2 contradicts
// would bring that deadline forward for good.
func (s *state) hasOtherDeadline(r *reason) bool {
	return !s.node.Mark.Deadline.IsZero() && s.node.Mark.Reason != string(r.Kind)
}
