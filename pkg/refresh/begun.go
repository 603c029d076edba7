package refresh

import (
	"slices"
	"strings"
	"time"
)

// BegunTag is a tag of a group: its Begun.
const BegunTag = "node-drainer.io/rollout"

// Begun says when a rollout to a target began, in the modes that replace in batches. It stays until a rollout of the
// group succeeds, or begins for another target, so that one that was stopped or killed continues with it.
type Begun struct {
	Target string    // The Key of the target.
	At     time.Time // To the millisecond: an instance may have been launched in the same second.
}

// String is the beginning as its tag has it: "TARGET TIME".
func (b Begun) String() string {
	return b.Target + " " + b.At.UTC().Format("2006-01-02T15:04:05.000Z07:00")
}

// Precedes reports whether an instance that was launched then may have been launched after the rollout began. EC2's
// times have whole seconds.
func (b Begun) Precedes(launched time.Time) bool { return !launched.Before(b.At.Truncate(time.Second)) }

// BegunOf reads the beginning from the group's tags. A tag that cannot be read is none.
func BegunOf(g Group) (b Begun, ok bool) {
	target, text, _ := strings.Cut(g.Tags[BegunTag], " ")
	at, err := time.Parse(time.RFC3339, text)
	if target == "" || err != nil {
		return Begun{}, false
	}
	return Begun{target, at}, true
}

// ByComparison returns the reason for which the instance is outdated if that is what the group has launched it from,
// and not its age or a request: another one that is launched now should not be outdated for this reason. An instance
// whose source is unknown may have been attached to the group: it counts unless the caller takes it for that.
func (v Verdict) ByComparison(attached bool) (r Reason, ok bool) {
	codes := []Code{CodeSource, CodeConfiguration, CodeTemplate, CodeVersion, CodeType, CodeImage}
	if !attached {
		codes = append(codes, CodeUnknown)
	}
	n := slices.IndexFunc(v.Reasons, func(r Reason) bool { return slices.Contains(codes, r.Code) })
	if !v.Outdated || n < 0 {
		return Reason{}, false
	}
	return v.Reasons[n], true
}
