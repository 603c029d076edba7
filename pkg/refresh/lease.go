package refresh

import (
	"strings"
	"time"
)

// LeaseTag is a tag of a group: its Lease.
const LeaseTag = "node-drainer.io/lease"

// Lease says which trigger replaces instances of a group by itself, so that no other one does at the same time. It is
// renewed until the trigger ends, and expires if the trigger is killed. AWS excludes a second Instance Refresh without
// it.
type Lease struct {
	Holder  string    // The host and the process, without spaces.
	Expires time.Time // To the second.
}

// String is the lease as its tag has it: "HOLDER TIME".
func (l Lease) String() string { return l.Holder + " " + l.Expires.UTC().Format(time.RFC3339) }

// LeaseOf reads the lease from the group's tags. A tag that cannot be read is none.
func LeaseOf(g Group) (l Lease, ok bool) {
	holder, text, _ := strings.Cut(g.Tags[LeaseTag], " ")
	expires, err := time.Parse(time.RFC3339, text)
	if holder == "" || err != nil {
		return Lease{}, false
	}
	return Lease{Holder: holder, Expires: expires}, true
}

// ClockSkew is by how much the clocks of two hosts may differ: AWS refuses requests beyond.
const ClockSkew = 5 * time.Minute

// Expired reports whether the lease has expired, also by the clock of its holder.
func (l Lease) Expired(now time.Time) bool { return now.After(l.Expires.Add(ClockSkew)) }

// HeldByOther returns the lease of the group if another holder has it and it has not expired.
func HeldByOther(g Group, holder string, now time.Time) (l Lease, held bool) {
	l, ok := LeaseOf(g)
	return l, ok && l.Holder != holder && now.Before(l.Expires)
}
