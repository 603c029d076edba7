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

// HoldRule is what becomes of a hold of a kind, where that is not the same for all: whichever it is, it is recorded
// before it is taken, and given back when the rollout ends. If AWS goes on without the trigger it stays, and where
// another trigger has the lease it is left to that one.
type HoldRule struct {
	Kind     HoldKind
	Record   string // Where it is recorded, so that another process finds it.
	Expires  string // When its owner counts as dead without that anything was given back.
	Ends     string // What gives it back after its owner was killed, beside the next run.
	Attached bool   // It is also taken when the trigger follows a refresh that somebody else has started.
	OnNodes  bool   // It is on Nodes: nothing of AWS is needed to give it back.
	Reported bool   // That it cannot be given back makes a rollout that succeeds Incomplete.
}

// HoldRules are the rules of all kinds, in the order in which a rollout takes them.
func HoldRules() []HoldRule {
	lease, never, resume := "with the lease", "never", "`trigger resume`"
	return []HoldRule{
		{Kind: HoldLease, Record: tag(LeaseTag), Expires: "after 15 s to 2 min without a renewal", Ends: resume},
		{
			Kind: HoldAutoscaler, Record: "annotation `node-drainer.io/paused` of its Deployment",
			Expires: "after 2 min without a renewal", Ends: "the agent, or " + resume + " with the flag",
			Reported: true,
		},
		{
			Kind: HoldProcesses, Record: tag(SuspendedTag), Expires: lease, Ends: resume + ", `cancel` or `rollback`",
			Reported: true,
		},
		{Kind: HoldMax, Record: tag(MaxTag), Expires: lease, Ends: resume, Reported: true},
		{Kind: HoldProtection, Record: tag(ProtectedTag), Expires: lease, Ends: resume, Reported: true},
		{
			Kind: HoldScaleDown, Record: "annotation of the Node", Expires: lease, Ends: resume + ", or the agent",
			Attached: true, OnNodes: true,
		},
		{
			Kind: HoldTaint, Record: "the taint of the Node", Expires: lease, Ends: resume,
			Attached: true, OnNodes: true, Reported: true,
		},
		{Kind: HoldSurge, Record: tag(SurgeTag), Expires: never, Ends: resume},
		{
			Kind: HoldStandby, Record: fmt.Sprintf("tags `%s1` to `-%d`", StandbyTag, MaxStandbyTags), Expires: never,
			Ends: "`trigger rollback`",
		},
	}
}

func tag(key string) string { return "tag `" + key + "`" }

// RuleOf returns the rule of a kind.
func RuleOf(kind HoldKind) HoldRule {
	rules := HoldRules()
	return rules[slices.IndexFunc(rules, func(r HoldRule) bool { return r.Kind == kind })]
}

// ShownWithin is for how long after a change AWS may describe a group as it was before. It documents no time.
const ShownWithin = 30 * time.Second

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
