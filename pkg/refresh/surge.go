package refresh

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
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

	// While Raising it is not certain that the capacity was raised: the trigger may have ended before.
	Raising bool
	Before  int       // To what it was raised before, in an earlier step; From if there was none.
	Since   time.Time // Just before the call that raises it, to the second; zero if it is not known.

	// Terminating is an instance that is being terminated together with a part of the surge. SurgeOf does not return it.
	Terminating string
}

// raising begins the tag of a Surge that may not have been raised.
const raising = "raising "

// Left is how much of the surge is left in the desired capacity of the group, and can be taken back. If another client
// has lowered the capacity, or raised the minimum size, it is less than the trigger raised it by. Of a surge that
// InDoubt reports, it is what was raised without doubt.
func (s Surge) Left(g Group) int { return min(s.raisedBy(g.Desired), max(g.Desired-g.Min, 0)) }

// keptByMinimum reports whether some of the surge cannot be taken back, because the minimum size was raised.
func (s Surge) keptByMinimum(g Group) bool { return s.Left(g) < s.raisedBy(g.Desired) }

// raisedBy is Left, whatever the minimum size is.
func (s Surge) raisedBy(desired int) int {
	to := s.To
	if s.Raising && (desired != s.To || s.InDoubt(desired)) {
		to = s.Before
	}
	return min(max(desired-s.From, 0), to-s.From)
}

// String is the surge as its tag has it: "FROM-TO", "raising FROM-TO", "raising FROM-TO BEFORE SINCE" or
// "FROM-TO INSTANCE".
func (s Surge) String() string {
	text := fmt.Sprintf("%d-%d", s.From, s.To)
	switch {
	case s.Raising && !s.Since.IsZero():
		return fmt.Sprintf("%s%s %d %s", raising, text, s.Before, s.Since.UTC().Format(time.RFC3339))
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
	text, more, _ := strings.Cut(text, " ")
	from, to, _ := strings.Cut(text, "-")
	least, errFrom := strconv.ParseUint(from, 10, 31)
	most, errTo := strconv.ParseUint(to, 10, 31)
	if errFrom != nil || errTo != nil || least >= most {
		return Surge{}, false
	}
	s = Surge{From: int(least), To: int(most), Raising: begun}
	if begun {
		return s.raisedFrom(cmp.Or(more, from))
	}
	stays := func(i Instance) bool { return i.ID == more && !i.Terminating() }
	if more != "" && !slices.ContainsFunc(g.Instances, stays) {
		s.To--
	}
	return s, true
}

// raisedFrom adds to what the capacity was raised before, and since when if the tag says so.
func (s Surge) raisedFrom(text string) (Surge, bool) {
	before, since, timed := strings.Cut(text, " ")
	n, err := strconv.ParseUint(before, 10, 31)
	if s.Before = int(n); err != nil || s.Before < s.From || s.Before >= s.To {
		return Surge{}, false
	}
	if !timed {
		return s, true
	}
	if s.Since, err = time.Parse(time.RFC3339, since); err != nil {
		return Surge{}, false
	}
	return s, true
}

// RaisedBy returns the surge of the group when its desired capacity is raised by so many now, on top of what is left of
// an earlier surge.
func RaisedBy(g Group, by int, now time.Time) Surge {
	s, _ := SurgeOf(g)
	return Surge{
		From: g.Desired - s.Left(g), To: g.Desired + by, Raising: true, Before: g.Desired,
		Since: now.Truncate(time.Second),
	}
}

// DesiredWithoutSurge is the desired capacity of the group without what is left of a surge, which a forged tag may say.
// A surge adds no more than there was.
func DesiredWithoutSurge(g Group) int {
	s, _ := SurgeOf(g)
	return max(g.Desired-s.Left(g), (g.Desired+1)/2)
}

// NotServing are the instances of the group that do not serve yet, and that nobody has protected: they are being
// launched, or their nodes are not ready. Those that were launched last are first.
func NotServing(g Group, notReady map[string]bool) (ids []string) {
	byAge := func(a, b Instance) int {
		return cmp.Or(trueFirst(a.Launched.IsZero(), b.Launched.IsZero()), b.Launched.Compare(a.Launched),
			cmp.Compare(b.ID, a.ID))
	}
	for _, i := range slices.SortedFunc(slices.Values(g.Instances), byAge) {
		if (i.Pending() || i.InService() && notReady[i.ID]) && !i.Protected {
			ids = append(ids, i.ID)
		}
	}
	return ids
}

// Suspendable are the processes that replace or terminate instances by themselves, and that a rollout can do
// without: they would have nodes drained that are not outdated. Source: "Suspend and resume processes" in the
// user guide.
func Suspendable() []string { return []string{"AZRebalance", "AlarmNotification", "ScheduledActions"} }

// SuspendedBy are the processes that the trigger has suspended, by the group's tag. Others that the tag names are not
// those that the trigger suspends: it does not resume them.
func SuspendedBy(g Group) (processes []string) {
	ours := append(Suspendable(), ProcessInstanceRefresh)
	for p := range strings.FieldsSeq(g.Tags[SuspendedTag]) {
		if slices.Contains(ours, p) {
			processes = append(processes, p)
		}
	}
	return processes
}
