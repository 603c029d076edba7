package refresh

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/node-drainer/node-drainer/internal/text"
)

// Pace is how ModeUnhealthy goes about it.
type Pace struct {
	Batch   Amount
	Between time.Duration // From the end of a batch to the next.
	Order   Order
	Surge   int // By how much the desired capacity is raised meanwhile; 0 is not at all.
}

// Order is which instances go first.
type Order string

// The orders.
const (
	ByAge  Order = "age"  // The oldest first.
	ByZone Order = "zone" // One Availability Zone after the other.
)

// Snapshot is what is known of a group at one time. It comes from AWS and Kubernetes alone, so that a trigger
// that was killed goes on where it was.
type Snapshot struct {
	Now            time.Time
	Group          Group
	Outdated       []string        // To be replaced, and those of them that are going; not those kept otherwise.
	NotReady       map[string]bool // Serving, and the Node is missing or not Ready; nil if nobody asked.
	Marked         map[string]bool // What this run has marked or terminated already.
	LastBatchEnded time.Time       // When the last batch of this run was seen to be over; zero if there was none.
}

// Step is what is to be done next.
type Step struct {
	Raise        int           // Raise the desired capacity by so many.
	Mark         []string      // Mark these unhealthy.
	Terminate    []string      // Terminate these, and let the desired capacity fall with each.
	Lower        bool          // Give the desired capacity back.
	InFlight     bool          // A batch is on its way: nothing is marked meanwhile.
	Done         bool          // Nothing is left to do.
	Waiting      string        // What is waited for, in words that change only with it; empty if something is done.
	RecheckAfter time.Duration // Look again after this time at the latest; 0 is whenever something changes.
}

// Next says what is to be done in a group. While a batch is in flight nothing is done: while an old instance
// is unhealthy, or on its way out, or a new one on its way in, or fewer serve than are desired. An old
// instance whose node is not ready is not waited for: it goes first. A retained instance holds nothing up.
//
// With a surge the desired capacity is raised first. The last of the old instances, as many as that was, are
// terminated with nothing in their place, so that it falls back to where it was; it is lowered only if too
// few were left for that.
func Next(m Snapshot, p Pace) Step {
	f := m.look()
	surge, raised := SurgeOf(m.Group)
	spare := 0 // What is left of the surge.
	if raised {
		spare = min(max(m.Group.Desired-surge.From, 0), surge.To-surge.From)
	}
	switch rest := m.LastBatchEnded.Add(p.Between).Sub(m.Now); {
	case f.waiting() != "":
		return Step{Waiting: f.waiting(), InFlight: true}
	case len(f.old) == 0 && raised:
		return Step{Lower: true}
	case len(f.old) == 0:
		return Step{Done: true}
	case p.Surge > 0 && spare == 0:
		return Step{Raise: min(p.Surge, len(f.old))}
	case !m.LastBatchEnded.IsZero() && rest > 0:
		return Step{Waiting: "waiting " + p.Between.String() + " between two batches", RecheckAfter: rest}
	default:
		return p.take(m.inOrder(f.old, p.Order), m.Group.Desired-spare, spare)
	}
}

// take is the next batch of the old instances, which are in their order. The capacity falls by no more than
// the batch exceeds the surge, also when a part of the surge is given back already.
func (p Pace) take(old []Instance, desired, spare int) Step {
	n := min(max(p.Batch.Of(desired), 1), len(old))
	if len(old) > spare {
		n = min(n, len(old)-spare, spare+max(n-p.Surge, 0))
	}
	batch := make([]string, 0, n)
	for _, i := range old[:n] {
		if p.Order == ByZone && i.Zone != old[0].Zone {
			break
		}
		batch = append(batch, i.ID)
	}
	if len(old) > spare {
		return Step{Mark: batch}
	}
	return Step{Terminate: batch}
}

// inOrder puts first what goes first.
func (m Snapshot) inOrder(old []Instance, o Order) []Instance {
	return slices.SortedFunc(slices.Values(old), func(a, b Instance) int {
		zones := 0
		if o == ByZone {
			zones = cmp.Compare(a.Zone, b.Zone)
		}
		return cmp.Or(zones, trueFirst(m.NotReady[a.ID], m.NotReady[b.ID]), oldest(a, b), cmp.Compare(a.ID, b.ID))
	})
}

// oldest puts those last whose age is not known.
func oldest(a, b Instance) int {
	return cmp.Or(trueFirst(!a.Launched.IsZero(), !b.Launched.IsZero()), a.Launched.Compare(b.Launched))
}

func trueFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	default:
		return 1
	}
}

// flight is how a group's replacement stands.
type flight struct {
	desired int
	serving int        // In service and healthy; the new ones with a ready node.
	old     []Instance // Those of them that may be marked next.
	going   []string   // Old ones that are not gone yet, and those that Auto Scaling replaces by itself.
	coming  []string
	unready []string // New ones in service whose node is not ready.
}

// look sorts the group's instances.
func (m Snapshot) look() flight {
	f := flight{desired: m.Group.Desired}
	outdated := make(map[string]bool, len(m.Outdated))
	for _, id := range m.Outdated {
		outdated[id] = true
	}
	for _, i := range m.Group.Instances {
		switch old := outdated[i.ID]; {
		case m.leaves(i, old):
			f.going = append(f.going, i.told())
		case i.Pending():
			f.coming = append(f.coming, i.told())
		case i.InService():
			f.serves(i, old, m.NotReady[i.ID])
		}
	}
	return f
}

// serves sorts an instance that is in service and stays for now.
func (f *flight) serves(i Instance, old, notReady bool) {
	switch {
	case old:
		f.old = append(f.old, i)
		f.serving++
	case notReady:
		f.unready = append(f.unready, i.ID)
	default:
		f.serving++
	}
}

// leaves tells whether the instance is being replaced: it was marked, also if that does not show yet, is
// unhealthy, or is an old one on its way out. Others that go, as the group shrinks, concern nobody here.
func (m Snapshot) leaves(i Instance, old bool) bool {
	if i.Retained() || !i.InService() && !i.Terminating() {
		return false
	}
	return !i.Healthy || m.Marked[i.ID] || i.Terminating() && old
}

func (i Instance) told() string {
	if i.InService() && !i.Healthy {
		return i.ID + " (" + i.State + ", unhealthy)"
	}
	return i.ID + " (" + i.State + ")"
}

// waiting is what must end before the next batch, in words; or empty.
func (f flight) waiting() string {
	var parts []string
	if n := len(f.going); n > 0 {
		parts = append(parts, fmt.Sprintf("%s to go: %s", text.Count(n, "old instance"), listed(f.going)))
	}
	if n := len(f.coming); n > 0 {
		parts = append(parts, fmt.Sprintf("%s to come: %s", text.Count(n, "new instance"), listed(f.coming)))
	}
	short := f.desired - f.serving
	if n := len(f.unready); n > 0 && short > 0 {
		parts = append(parts, fmt.Sprintf("%s to be ready: %s", text.Count(n, "node"), listed(f.unready)))
	}
	if n := short - len(f.coming) - len(f.unready); n > 0 {
		parts = append(parts, fmt.Sprintf("%d of the %d desired instances to be launched", n, f.desired))
	}
	if len(parts) == 0 {
		return ""
	}
	return "waiting for " + strings.Join(parts, "; ")
}
