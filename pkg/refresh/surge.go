package refresh

import (
	"fmt"
	"strconv"
	"strings"
)

// Tags of a group that say what the trigger has changed, so that a later run can undo it after an
// interruption.
const (
	SurgeTag     = "node-drainer.io/surge"     // The Surge: "FROM-TO".
	SuspendedTag = "node-drainer.io/suspended" // The processes that it suspended, separated by spaces.
)

// Surge is by how much the trigger raised a group's desired capacity.
type Surge struct{ From, To int }

// String is the surge as its tag has it.
func (s Surge) String() string { return fmt.Sprintf("%d-%d", s.From, s.To) }

// SurgeOf reads the surge from the group's tags. A tag that cannot be read is none.
func SurgeOf(g Group) (s Surge, ok bool) {
	from, to, _ := strings.Cut(g.Tags[SurgeTag], "-")
	least, errFrom := strconv.ParseUint(from, 10, 31)
	most, errTo := strconv.ParseUint(to, 10, 31)
	if errFrom != nil || errTo != nil || least >= most {
		return Surge{}, false
	}
	return Surge{From: int(least), To: int(most)}, true
}

// Suspendable are the processes that replace or terminate instances by themselves, and that a rollout can do
// without: they would have nodes drained that are not outdated. Source: "Suspend and resume processes" in the
// user guide.
func Suspendable() []string { return []string{"AZRebalance", "AlarmNotification", "ScheduledActions"} }

// SuspendedBy are the processes that the trigger has suspended, by the group's tag.
func SuspendedBy(g Group) []string { return strings.Fields(g.Tags[SuspendedTag]) }
