package refresh

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Tags of a group that say what the trigger has changed, so that a later run can undo it after an
// interruption.
const (
	SurgeTag     = "node-drainer.io/surge"     // The Surge that is left, by Surge.String.
	SuspendedTag = "node-drainer.io/suspended" // The processes that it suspended, separated by spaces.
)

// Surge is by how much the trigger raised a group's desired capacity. What other clients add to the capacity is not
// part of it, and is not taken back.
type Surge struct {
	From, To int
	Raising  bool // It is not certain that the capacity was raised: the trigger may have ended before.

	// Terminating is an instance that is being terminated together with a part of the surge. SurgeOf does not return it.
	Terminating string
}

// raising begins the tag of a Surge that may not have been raised.
const raising = "raising "

// Left is how much of the surge is left in the desired capacity. If another client has lowered that, it is less than
// the trigger raised it by.
func (s Surge) Left(desired int) int {
	if s.Raising && desired != s.To {
		return 0
	}
	return min(max(desired-s.From, 0), s.To-s.From)
}

// String is the surge as its tag has it: "FROM-TO", "raising FROM-TO" or "FROM-TO INSTANCE".
func (s Surge) String() string {
	text := fmt.Sprintf("%d-%d", s.From, s.To)
	switch {
	case s.Raising:
		return raising + text
	case s.Terminating != "":
		return text + " " + s.Terminating
	}
	return text
}

// SurgeOf reads the surge from the group's tags. A tag that cannot be read is none. If the instance that the tag names
// is terminating or gone, its part of the surge is, too, so that nothing may be left.
func SurgeOf(g Group) (s Surge, ok bool) {
	text, begun := strings.CutPrefix(g.Tags[SurgeTag], raising)
	text, id, _ := strings.Cut(text, " ")
	from, to, _ := strings.Cut(text, "-")
	least, errFrom := strconv.ParseUint(from, 10, 31)
	most, errTo := strconv.ParseUint(to, 10, 31)
	if errFrom != nil || errTo != nil || least >= most {
		return Surge{}, false
	}
	s = Surge{From: int(least), To: int(most), Raising: begun}
	stays := func(i Instance) bool { return i.ID == id && !i.Terminating() }
	if id != "" && !slices.ContainsFunc(g.Instances, stays) {
		s.To--
	}
	return s, true
}

// DesiredWithoutSurge is the desired capacity of the group without what is left of a surge.
func DesiredWithoutSurge(g Group) int {
	s, _ := SurgeOf(g)
	return g.Desired - s.Left(g.Desired)
}

// Suspendable are the processes that replace or terminate instances by themselves, and that a rollout can do
// without: they would have nodes drained that are not outdated. Source: "Suspend and resume processes" in the
// user guide.
func Suspendable() []string { return []string{"AZRebalance", "AlarmNotification", "ScheduledActions"} }

// SuspendedBy are the processes that the trigger has suspended, by the group's tag.
func SuspendedBy(g Group) []string { return strings.Fields(g.Tags[SuspendedTag]) }
