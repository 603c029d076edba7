package refresh

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Hold is something of a group that a trigger has changed for a rollout, and that is given back.
type Hold struct {
	Kind    HoldKind  `json:"kind"`
	Text    string    `json:"text"`             // What is held.
	Owner   string    `json:"owner,omitempty"`  // The trigger that holds it; empty if none does any more.
	Expires time.Time `json:"expires,omitzero"` // When the owner counts as dead, unless it renews its lease.
}

// HoldKind is what is held.
type HoldKind string

// The kinds.
const (
	HoldLease      HoldKind = "lease"
	HoldSurge      HoldKind = "surge"
	HoldProcesses  HoldKind = "processes"
	HoldMax        HoldKind = "max-size"
	HoldProtection HoldKind = "protection"
	HoldAutoscaler HoldKind = "autoscaler"
	HoldStandby    HoldKind = "standby"
	HoldTaint      HoldKind = "taint"
	HoldScaleDown  HoldKind = "scale-down"
)

// IsRecord reports whether the key is that of a tag by which the trigger records what it has changed, or that it works
// on the group.
func IsRecord(key string) bool {
	records := []string{LeaseTag, SurgeTag, SuspendedTag, MaxTag, BegunTag}
	return slices.Contains(records, key) || strings.HasPrefix(key, ProtectedTag) || strings.HasPrefix(key, StandbyTag)
}

// HoldsOf returns what the group's tags say is held. All of it has the holder of the lease as its owner.
func HoldsOf(g Group) []Hold {
	lease, leased := LeaseOf(g)
	var all []Hold
	add := func(kind HoldKind, format string, args ...any) {
		all = append(all, Hold{Kind: kind, Text: fmt.Sprintf(format, args...), Owner: lease.Holder, Expires: lease.Expires})
	}
	if leased {
		add(HoldLease, "lease of the group")
	}
	if s, ok := SurgeOf(g); ok {
		add(HoldSurge, "desired capacity raised from %d to %d", s.From, s.To)
	}
	if ours := SuspendedBy(g); len(ours) > 0 {
		add(HoldProcesses, "suspended: %s", strings.Join(ours, ", "))
	}
	if m, ok := RaisedMaxOf(g); ok {
		add(HoldMax, "maximum size raised from %d to %d", m.From, m.To[len(m.To)-1])
	}
	if ours := ProtectedBy(g); len(ours) > 0 {
		add(HoldProtection, "protected from scale in: %s", strings.Join(ours, ", "))
	}
	if text := StandbyOf(g).Held(g).describe(); text != "" {
		add(HoldStandby, "%s", text)
	}
	return all
}
