package workload

import (
	"context"
	"time"

	"github.com/node-drainer/node-drainer/pkg/handover"
)

// SurgeAnnotation on a pod of a StatefulSet, with the value "true", permits that the StatefulSet gets one more pod
// while this one leads without a replica and is to leave.
const SurgeAnnotation = "node-drainer.io/hand-over-surge"

// Surge is one more pod of a StatefulSet, for the time in which another pod of it moves to another node.
type Surge struct {
	Namespace   string    `json:"-"`
	StatefulSet string    `json:"-"`
	UID         string    `json:"uid"`      // of the StatefulSet
	Replicas    int32     `json:"replicas"` // of the StatefulSet without the surge
	Pod         string    `json:"pod"`      // the additional one
	For         string    `json:"for"`      // the pod that leaves
	ForUID      string    `json:"forUID"`
	Since       time.Time `json:"since"`
	Scaled      bool      `json:"scaled"` // The StatefulSet had the additional replica.
}

// SurgePhase is how far a surge is, by the replicas of its StatefulSet.
type SurgePhase int

// The phases of a surge.
const (
	SurgeOver    SurgePhase = iota // The StatefulSet is another one, or has a number of replicas that a user chose since.
	SurgePresent                   // It has one replica more.
	SurgeAbsent                    // It has as many replicas as without the surge, which has not begun or ended.
)

// Scaler starts and ends surges, and keeps a record of each, which survives the end of the process at any moment.
type Scaler interface {
	// Surges returns all surges that are recorded.
	Surges(ctx context.Context) ([]Surge, error)
	// Start starts a surge for a pod, unless there is one of its StatefulSet, which it returns: it may be for another
	// pod. An error is a NoSurge if to call again would not help.
	Start(ctx context.Context, pod Pod) (Surge, error)
	// Phase reads how far the surge is.
	Phase(ctx context.Context, s Surge) (SurgePhase, error)
	// Shrink removes the additional replica again, if nobody has changed the number of replicas since.
	Shrink(ctx context.Context, s Surge) error
	// Forget removes the record. The reason says what has become of the surge.
	Forget(ctx context.Context, s Surge, reason string) error
}

// NoSurge is an error that says why no surge is possible for a pod.
type NoSurge string

func (n NoSurge) Error() string { return string(n) }

// Surger ends surges that its Releaser has started.
type Surger interface {
	// Surges returns all surges that have not ended. It is called only by who leads.
	Surges(ctx context.Context) ([]Surge, error)
	// EndSurge does what can be done now to end a surge. The pods are those of its namespace, as a list from the API
	// server has just shown them. Answer.Go says that nothing is left of the surge; otherwise the caller repeats the
	// call later, for as long as the surge is recorded.
	EndSurge(ctx context.Context, s Surge, pods []Pod) (handover.Answer, error)
}
