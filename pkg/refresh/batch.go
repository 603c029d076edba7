package refresh

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/node-drainer/node-drainer/internal/text"
)

// Pace is how the modes that replace in batches do that.
type Pace struct {
	Batch   Amount
	Between time.Duration // From the end of a batch to the next.
	Order   Order
	Then    Then   // What happens to replaced instances, in ModeStandby.
	Surge   Amount // By how much the desired capacity is raised during the rollout; the zero value is not at all.
	Step    Amount // By how much it is raised at a time; the zero value is by all of the surge.
}

// SurgeOf is the surge of the group in instances: a share is of the desired capacity without a surge.
func (p Pace) SurgeOf(g Group) int { return p.surge(DesiredWithoutSurge(g)) }

func (p Pace) surge(desired int) int {
	if p.Surge == (Amount{}) {
		return 0
	}
	return p.Surge.Of(desired)
}

// Order is the order in which instances are replaced.
type Order string

// The orders.
const (
	ByAge  Order = "age"  // The oldest first.
	ByZone Order = "zone" // One Availability Zone after the other.
)

// Snapshot is what is known of a group at one time. It comes from AWS and Kubernetes alone, so that a trigger
// that was killed continues where it was.
type Snapshot struct {
	Now            time.Time
	Group          Group
	Outdated       []string        // To be replaced, also those already terminating; not those kept for another reason.
	NotReady       map[string]bool // In service, and the Node is missing or not Ready; nil without Kubernetes.
	Marked         map[string]bool // What this run has marked unhealthy, moved or terminated already.
	Left           map[string]bool // What it has terminated a moment ago, in Standby.
	Drains         map[string]DrainState
	LastBatchEnded time.Time // When the last batch of this run was seen to have ended; zero if there was none.
	SurgeInDoubt   bool      // The tag of the surge is not of this process, or Surge.InDoubt reports it.
}

// DrainState is how far the drain of the node of an instance in Standby is.
type DrainState struct {
	Requested bool // The agent was asked for it.
	Done      bool // No pod is left that had to leave, or there is no node.
}

// Step is what to do next.
type Step struct {
	Confirm      bool          // Find out how much of the surge is one, by Surge.Confirm.
	Raise        int           // Raise the desired capacity by so many.
	Mark         []string      // Mark these unhealthy.
	Terminate    []string      // Terminate these, and lower the desired capacity with each.
	Standby      []string      // Record these, and move them into Standby.
	Leave        []string      // Terminate these, which are in Standby.
	Drain        []string      // Ask the agent to drain the nodes of these.
	Keep         []string      // Stop these if Pace.Then says so, and record that they are replaced.
	Forget       bool          // Remove from the record what is not in Standby.
	Lower        bool          // Lower the desired capacity to what it was.
	InFlight     bool          // A batch is being replaced: nothing is marked until it has ended.
	Done         bool          // Nothing is left to do.
	Waiting      string        // What the rollout waits for; it changes only with that. Empty if there is something to do.
	RecheckAfter time.Duration // Decide again after this time at the latest; 0 is whenever something changes.
}

// Begins reports whether the step begins a batch.
func (s Step) Begins() bool { return len(s.Mark)+len(s.Terminate)+len(s.Standby) > 0 }

// Replaces reports whether the step changes instances.
func (s Step) Replaces() bool { return s.Begins() || len(s.Leave)+len(s.Drain)+len(s.Keep) > 0 }

// Resizes reports whether the step changes the desired capacity, or what is known of it.
func (s Step) Resizes() bool { return s.Confirm || s.Lower || s.Raise > 0 }

// Next decides what to do in a group in ModeUnhealthy. Nothing is marked while a batch is in flight: while an outdated
// instance is unhealthy or terminating, or fewer are in service than are desired. A new one that is not needed
// for that may be pending, as when Auto Scaling rebalances the zones. An outdated instance whose node is not
// ready is not waited for, but replaced first. A retained instance is not waited for either.
//
// With a surge the desired capacity is raised first. As many of the last outdated instances are terminated
// without replacement, so that the capacity falls back to what it was. They are of the Availability Zones that have
// the most instances then, so that the zones stay balanced. If too few were left for that, new ones follow: unlike a
// new desired capacity, that does not undo what an autoscaler sets at the same time.
func Next(m Snapshot, p Pace) Step {
	f := m.classify()
	surge, _ := SurgeOf(m.Group)
	spare := surge.Left(m.Group)
	switch rest := m.LastBatchEnded.Add(p.Between).Sub(m.Now); {
	case f.waitReason() != "":
		return Step{Waiting: f.waitReason(), InFlight: true}
	case m.SurgeInDoubt:
		return Step{Confirm: true}
	case len(f.outdated) == 0:
		return m.takeBack(f.current, p.Batch)
	case p.toRaise(m.Group, len(f.outdated)) > 0:
		return Step{Raise: p.toRaise(m.Group, len(f.outdated))}
	case !m.LastBatchEnded.IsZero() && rest > 0:
		return Step{Waiting: "waiting " + p.Between.String() + " between two batches", RecheckAfter: rest}
	default:
		return p.nextBatch(m.keepForLast(m.sorted(f.outdated, p.Order), spare), m.Group.Desired-spare, spare)
	}
}

// toRaise is by how much the desired capacity is to be raised next, up to the surge, but by no more than are outdated.
// In steps it is raised until all of the surge is there. An autoscaler that has asked for more meanwhile may have left
// no room for the rest; then the surge is what is there. Where the minimum size was raised, what it keeps of the surge
// is the capacity that the owner wants from now on, and the surge comes on top of it if the maximum allows that.
func (p Pace) toRaise(g Group, outdated int) int {
	surge, _ := SurgeOf(g)
	spare := surge.Left(g)
	n := min(p.SurgeOf(g), outdated) - spare
	switch {
	case p.Surge == Amount{}:
		return 0
	case spare > 0 && p.Step == Amount{}:
		return 0
	case spare > 0 || surge.keptByMinimum(g):
		n = min(n, g.Max-g.Desired)
	}
	if p.Step != (Amount{}) {
		n = min(n, p.Step.Of(g.Desired-spare))
	}
	return max(n, 0)
}

// nextBatch takes the next batch from the sorted outdated instances. The capacity falls by no more than the
// batch exceeds the surge, also when a part of the surge is undone already.
func (p Pace) nextBatch(outdated []Instance, desired, spare int) Step {
	n := min(max(p.Batch.Of(desired), 1), len(outdated))
	if len(outdated) > spare {
		n = min(n, len(outdated)-spare, spare+max(n-p.surge(desired), 0))
	}
	batch := make([]string, 0, n)
	for _, i := range outdated[:n] {
		if p.Order == ByZone && i.Zone != outdated[0].Zone {
			break
		}
		batch = append(batch, i.ID)
	}
	if len(outdated) > spare {
		return Step{Mark: batch}
	}
	return Step{Terminate: batch}
}

// takeBack terminates instances of the zones that have the most with what is left of the surge.
func (m Snapshot) takeBack(current []Instance, batch Amount) Step {
	surge, raised := SurgeOf(m.Group)
	n := min(surge.Left(m.Group), max(batch.Of(m.Group.Desired), 1), len(current))
	switch {
	case !raised:
		return Step{Done: true}
	case n == 0:
		return Step{Lower: true}
	}
	var s Step
	for _, i := range m.keepForLast(current, n)[len(current)-n:] {
		s.Terminate = append(s.Terminate, i.ID)
	}
	return s
}

// sorted puts those that are replaced first at the beginning: the oldest first, and those whose age is unknown
// last.
func (m Snapshot) sorted(outdated []Instance, o Order) []Instance {
	return slices.SortedFunc(slices.Values(outdated), func(a, b Instance) int {
		zones := 0
		if o == ByZone {
			zones = cmp.Compare(a.Zone, b.Zone)
		}
		return cmp.Or(zones, trueFirst(m.NotReady[a.ID], m.NotReady[b.ID]),
			trueFirst(!a.Launched.IsZero(), !b.Launched.IsZero()), a.Launched.Compare(b.Launched), cmp.Compare(a.ID, b.ID))
	})
}

// Sequence returns the group's instances in the order in which Next and NextStandby replace them, as far as their nodes
// do not matter.
func Sequence(g Group, o Order) (ids []string) {
	for _, i := range (Snapshot{}).sorted(g.Instances, o) {
		ids = append(ids, i.ID)
	}
	return ids
}

// keepForLast moves so many of the sorted outdated instances to the end, to be terminated without replacement: each is
// of the zone that has the most instances without those before it, and of these the last.
func (m Snapshot) keepForLast(sorted []Instance, spare int) []Instance {
	size := map[string]int{}
	for _, i := range m.Group.Instances {
		if i.InService() || i.Pending() {
			size[i.Zone]++
		}
	}
	kept := map[string]bool{}
	for range min(spare, len(sorted)) {
		var fullest Instance
		for _, i := range sorted {
			if !kept[i.ID] && size[i.Zone] >= size[fullest.Zone] {
				fullest = i
			}
		}
		size[fullest.Zone]--
		kept[fullest.ID] = true
	}
	return slices.SortedStableFunc(slices.Values(sorted), func(a, b Instance) int {
		return trueFirst(!kept[a.ID], !kept[b.ID])
	})
}

func trueFirst(a, b bool) int {
	order := []bool{true, false}
	return slices.Index(order, a) - slices.Index(order, b)
}

// batchState is how far the replacement of a batch is.
type batchState struct {
	desired     int
	inService   int        // In service and healthy; the new ones with a ready node.
	outdated    []Instance // Those of them that may be marked next.
	current     []Instance // Those of them that are not outdated, nor protected from scale in.
	terminating []string   // Outdated ones that are not gone yet, and unhealthy ones, which Auto Scaling replaces.
	pending     []string
	notReady    []string // New ones in service whose node is not ready.
}

func (m Snapshot) classify() batchState {
	f := batchState{desired: m.Group.Desired}
	for _, i := range m.Group.Instances {
		switch outdated := slices.Contains(m.Outdated, i.ID); {
		case m.isLeaving(i, outdated):
			f.terminating = append(f.terminating, i.describe())
		case i.Pending():
			f.pending = append(f.pending, i.describe())
		case i.InService() && outdated:
			f.outdated = append(f.outdated, i)
			f.inService++
		case i.InService() && m.NotReady[i.ID]:
			f.notReady = append(f.notReady, i.ID)
		case i.InService():
			f.inService++
			if !i.Protected {
				f.current = append(f.current, i)
			}
		}
	}
	return f
}

// isLeaving reports whether the instance is being replaced: it was marked (which its description may not show
// yet), is unhealthy, or is outdated and terminating. Others that terminate as the group shrinks do not
// count.
func (m Snapshot) isLeaving(i Instance, outdated bool) bool {
	if i.Retained() || !i.InService() && !i.Terminating() {
		return false
	}
	return !i.Healthy || m.Marked[i.ID] || i.Terminating() && outdated
}

func (i Instance) describe() string {
	if i.InService() && !i.Healthy {
		return i.ID + " (" + i.State + ", unhealthy)"
	}
	return i.ID + " (" + i.State + ")"
}

// waitReason is what must happen before the next batch, or empty.
func (f batchState) waitReason() string {
	var parts []string
	if n := len(f.terminating); n > 0 {
		parts = append(parts, fmt.Sprintf("%s to terminate: %s", text.Count(n, "old instance"), list(f.terminating)))
	}
	short := f.desired - f.inService
	if n := len(f.pending); n > 0 && short > 0 {
		parts = append(parts, fmt.Sprintf("%s to enter service: %s", text.Count(n, "new instance"), list(f.pending)))
	}
	if n := len(f.notReady); n > 0 && short > 0 {
		parts = append(parts, fmt.Sprintf("%s to become ready: %s", text.Count(n, "node"), list(f.notReady)))
	}
	if n := short - len(f.pending) - len(f.notReady); n > 0 {
		parts = append(parts, fmt.Sprintf("%d of the %d desired instances to be launched", n, f.desired))
	}
	if len(parts) == 0 {
		return ""
	}
	return "waiting for " + strings.Join(parts, "; ")
}
