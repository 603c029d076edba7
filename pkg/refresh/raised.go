package refresh

import (
	"slices"
	"time"
)

// CapacityChange is a change of the capacity of a group, as Auto Scaling names it among the causes of an activity.
type CapacityChange struct {
	At       time.Time // To the second, by the clock of AWS.
	From, To int
	By       ChangedBy
}

// ChangedBy is the call that has changed the capacity.
type ChangedBy string

// The calls by which a trigger adds to the capacity.
const (
	BySetDesired  ChangedBy = "SetDesiredCapacity"
	ByExitStandby ChangedBy = "ExitStandby"
)

const (
	// SurgeKept is for how long a surge that a trigger has left can be taken back by another one: the longer it is, the
	// more of what others have added to the capacity could a forged tag have taken back.
	SurgeKept = 14 * 24 * time.Hour

	// raiseTakes is how long the call may take that raises the capacity, with its retries.
	raiseTakes = time.Minute
	// raiseSkew is by how much the clock of the trigger may differ from that of AWS. If it differs by more, a surge may
	// stay; the longer this is, the longer a change of another client is mistaken for that of the trigger.
	raiseSkew = time.Minute
)

// InDoubt reports whether it is not known who has raised the desired capacity to what it is: a trigger that ended
// before it recorded that, or another client.
func (s Surge) InDoubt(desired int) bool { return s.Raising && !s.Since.IsZero() && desired > s.Before }

// Confirm returns what is left of a surge that another process has recorded, or that InDoubt reports, by the changes of
// the capacity since SurgeKept, the oldest first: whoever may tag the group can write any surge. It is as much of it as
// calls have added to the capacity, and nothing has taken away since. Of the last step of one that is in doubt only the
// call counts that the trigger meant to make, if it was made when the trigger made it.
//
// The changes are those that Auto Scaling has reacted to: until it has Launched what is desired, the last may be
// missing.
func (s Surge) Confirm(changes []CapacityChange) Surge {
	settled := s.To
	if s.Raising && !s.Since.IsZero() {
		settled = s.Before
	}
	added := addedWithin(span{s.From, settled}, changes, func(CapacityChange) bool { return true })
	added = append(added, addedWithin(span{settled, s.To}, changes, s.isOurs)...)
	if len(added) == 0 {
		return Surge{From: s.From, To: s.From}
	}
	left := Surge{From: s.To, To: s.To}
	for _, a := range added { // From the lowest on, so that another process confirms the same.
		left.From, left.To = min(left.From, a.from), left.To+a.to-a.from
	}
	left.To += left.From - s.To
	return left
}

// isOurs reports whether the change is the one that was about to be made.
func (s Surge) isOurs(c CapacityChange) bool {
	isSame := c.From == s.Before && c.To == s.To || c.By == ByExitStandby
	return isSame && !c.At.Before(s.Since.Add(-raiseSkew)) && !c.At.After(s.Since.Add(raiseTakes+raiseSkew))
}

// span is what is between two capacities.
type span struct{ from, to int }

// addedWithin returns which parts of a span were last added by calls that count.
func addedWithin(all span, changes []CapacityChange, counts func(CapacityChange) bool) (added []span) {
	left := []span{all}
	for _, c := range slices.Backward(changes) {
		isAdded := c.To > c.From && c.By != "" && counts(c)
		if !isAdded && c.To >= c.From {
			continue
		}
		var rest []span
		for _, s := range left {
			begin, end := max(s.from, min(c.From, c.To)), min(s.to, max(c.From, c.To))
			if begin >= end {
				rest = append(rest, s)
				continue
			}
			if isAdded {
				added = append(added, span{begin, end})
			}
			rest = append(rest, span{s.from, begin}, span{end, s.to})
		}
		left = slices.DeleteFunc(rest, func(s span) bool { return s.from >= s.to })
	}
	return added
}

// Launched reports whether Auto Scaling has launched as many instances as are desired, so that it has reacted to the
// last change of the desired capacity.
func Launched(g Group) bool {
	n := 0
	for _, i := range g.Instances {
		if i.InService() || i.Pending() {
			n++
		}
	}
	return n >= g.Desired
}
