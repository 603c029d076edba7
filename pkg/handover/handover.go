// Package handover describes how the agent asks a replicated workload whether a pod may leave, so that the pod hands
// its leadership over before it is evicted.
package handover

import (
	"context"
	"time"
)

// Releaser asks whether a pod may be evicted, for one kind of workload.
type Releaser interface {
	// Release has the pod made ready to leave, as far as that is possible within ctx, and answers whether it may be
	// evicted now. An error means that no answer could be had. It returns soon after ctx has ended. The caller repeats
	// the call later, and evicts the pod when its time is up, whatever the answers were.
	Release(ctx context.Context, r Request) (Answer, error)
}

// Request asks for the release of one pod.
type Request struct {
	Pod      Pod
	Deadline time.Time // of the drain
	Last     bool      // no other call follows
	Leaving  []string  // the nodes that are being drained or not Ready: no leadership is to move to their pods
}

// Pod is what a hand-over needs to know of a pod.
type Pod struct {
	Namespace     string
	Name          string
	UID           string
	Node          string
	Labels        map[string]string
	Controller    string            // KIND/NAME of what controls it; empty without one
	ControllerUID string            // empty without one
	Annotations   map[string]string // only those that begin with Prefix, HandedOverAnnotation and DrainAnnotation
}

// Answer is what a Releaser found out.
type Answer struct {
	Go      bool          // the pod may be evicted now
	Outcome Outcome       // why, or why not
	Message string        // the same in a sentence for an Event, without the final period; may be empty
	Leader  string        // NAME of the pod that leads now, if this call moved the leadership
	Again   time.Duration // when not to go: ask again after this time; zero leaves it to the caller. A change of the
	// pod's annotations is always a reason to ask again at once.
}

// Outcome classifies an Answer.
type Outcome string

// The outcomes of a call.
const (
	NotLeading  Outcome = "not-leading"  // the pod leads nothing, so it may go
	HandedOver  Outcome = "handed-over"  // another member leads now, so it may go
	NoReplica   Outcome = "no-replica"   // nobody could take over, so waiting would not help: it may go
	HandingOver Outcome = "handing-over" // ask again
	GroupBehind Outcome = "group-behind" // another member is missing, leaving or not in sync: ask again
	Refused     Outcome = "refused"      // the workload, or what it says, cannot be used: see the message; ask again
	Restarting  Outcome = "restarting"   // a rolling restart is to replace the pod: wait for that, or ask again
	Replaced    Outcome = "replaced"     // no answer: a rolling restart has replaced the pod
	Unfit       Outcome = "unfit"        // a rolling restart cannot replace the pod: it may go
	Invalid     Outcome = "invalid"      // an annotation of the pod is wrong: the message says what to write; it may go
)

// Prefix begins the names of all annotations on a pod that concern hand-overs. The annotation named Prefix selects the
// kind.
const Prefix = "node-drainer.io/hand-over"

// The annotations of a pod, on the template of its controller.
const (
	KindAnnotation    = Prefix                              // GateKind or HTTPKind
	ServiceAnnotation = "node-drainer.io/hand-over-service" // NAME or NAME:PORT of the Service to ask, for HTTPKind
)

// The values of KindAnnotation.
const (
	GateKind = "gate"
	HTTPKind = "http"
)

// Kinds lists every kind.
func Kinds() []string { return []string{GateKind, HTTPKind} }

// HandedOverAnnotation on a pod of the kind gate says that its owner is ready for its eviction. Its value does not
// matter.
const HandedOverAnnotation = "node-drainer.io/handed-over"

// DrainAnnotation on a pod says how a drain treats it. With Restart its Deployment is restarted.
const (
	DrainAnnotation = "node-drainer.io/drain"
	Restart         = "restart"
)
