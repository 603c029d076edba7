package refresh

import (
	"slices"
	"time"
)

// CapacityChange is a change of the desired capacity of a group by a call of SetDesiredCapacity, as Auto Scaling names
// it among the causes of an activity.
type CapacityChange struct {
	At       time.Time // To the second, by the clock of AWS.
	From, To int
}

const (
	// raiseTakes is how long the call may take that raises the capacity, with its retries.
	raiseTakes = time.Minute
	// raiseSkew is by how much the clock of the trigger may differ from that of AWS. If it differs by more, a surge may
	// stay; the longer this is, the longer a change of another client is mistaken for that of the trigger.
	raiseSkew = time.Minute
)

// InDoubt reports whether it is not known who has raised the desired capacity to what it is: a trigger that ended
// before it recorded that, or another client.
func (s Surge) InDoubt(desired int) bool { return s.Raising && !s.Since.IsZero() && desired > s.Before }

// Confirm returns what is left of a surge in doubt, by the changes of the capacity since then. Only the change that the
// trigger meant to make counts as its own, and only if it was made when the trigger made its call. Where the capacity
// is what the trigger meant it to be, and no change is known, the trigger has made it.
//
// The changes must be all that Auto Scaling has reacted to, and it must have reacted to the last one: see Launched.
func (s Surge) Confirm(desired int, changes []CapacityChange) Surge {
	ours := func(c CapacityChange) bool {
		return c.From == s.Before && c.To == s.To && !c.At.Before(s.Since.Add(-raiseSkew)) &&
			!c.At.After(s.Since.Add(raiseTakes+raiseSkew))
	}
	later := func(c CapacityChange) bool { return !c.At.Before(s.Since) }
	if slices.ContainsFunc(changes, ours) || desired == s.To && !slices.ContainsFunc(changes, later) {
		return Surge{From: s.From, To: s.To}
	}
	return Surge{From: s.From, To: s.Before}
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
