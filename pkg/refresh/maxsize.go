package refresh

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// MaxTag is a tag of a group that says by how much the trigger has raised its maximum size: a RaisedMax.
const MaxTag = "node-drainer.io/max"

// RaisedMax is the maximum size of a group before and after the trigger has raised it. The tag is written first, so
// that the last value may not have been set.
type RaisedMax struct {
	From int
	To   []int // Each value that the trigger may have set, and nobody else since.
}

// String is the RaisedMax as its tag has it: "FROM-TO", or "FROM-TO-TO" if it was raised twice.
func (m RaisedMax) String() string {
	var text []string
	for _, n := range slices.Concat([]int{m.From}, m.To) {
		text = append(text, strconv.Itoa(n))
	}
	return strings.Join(text, "-")
}

// mostRaised is to how much the trigger raises a maximum at most: a surge is no more than the desired capacity.
func mostRaised(from int) int { return max(2*from, from+1) }

// RaisedMaxOf reads the RaisedMax from the group's tags. A tag that cannot be read is none, and so is one with a
// maximum that the trigger does not set: whoever may tag the group could else have it lowered to anything.
func RaisedMaxOf(g Group) (m RaisedMax, ok bool) {
	var numbers []int
	for part := range strings.SplitSeq(g.Tags[MaxTag], "-") {
		n, err := strconv.ParseUint(part, 10, 31)
		if err != nil {
			return RaisedMax{}, false
		}
		numbers = append(numbers, int(n))
	}
	if len(numbers) < 2 || slices.Max(numbers) > mostRaised(numbers[0]) {
		return RaisedMax{}, false
	}
	return RaisedMax{From: numbers[0], To: numbers[1:]}, true
}

// RaiseMax returns what the tag says before the maximum of the group is raised to a higher one. If a killed run has
// raised it before, the group gets back what it had before that run, or half of the highest.
func RaiseMax(g Group, to int) RaisedMax {
	before, ok := RaisedMaxOf(g)
	if ok && slices.Contains(before.To, g.Max) {
		from := before.From
		if to > mostRaised(from) {
			from = (to + 1) / 2
		}
		return RaisedMax{From: from, To: []int{g.Max, to}}
	}
	return RaisedMax{From: g.Max, To: []int{to}}
}

// IsRaised reports whether the maximum of the group is one that the trigger has set.
func (m RaisedMax) IsRaised(g Group) bool { return slices.Contains(m.To, g.Max) }

// Kept returns why the group cannot have its maximum back now, or empty if it can: Auto Scaling lowers the desired
// capacity to a maximum that is below it. Source: UpdateAutoScalingGroup in the API reference. The maximum is the
// desired capacity then, so that no autoscaler goes further.
func (m RaisedMax) Kept(g Group) string {
	if !m.IsRaised(g) || g.Desired <= m.From {
		return ""
	}
	return fmt.Sprintf("the maximum stays raised from %d to %d, which is the desired capacity", m.From, g.Desired)
}
