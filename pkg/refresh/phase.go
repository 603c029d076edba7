package refresh

import "slices"

// Phase is a part of the rollout of a group.
type Phase int

// The phases, in their order.
const (
	NoPhase      Phase = iota
	PhaseCheck         // The preflight, and what is under way in the group. Nothing is changed.
	PhaseTaint         // The lease, what is suspended, and the taints on outdated nodes.
	PhaseSurge         // The desired capacity is raised, until the new nodes are ready. ModeUnhealthy only.
	PhaseReplace       // Outdated instances are terminated.
)

// Phases are the names of the phases that can be done for all groups before any begins the next, in their order. The
// first is of NoPhase.
func Phases() []string { return []string{"none", "check", "taint", "surge"} }

// ParsePhase returns the phase of one of the names.
func ParsePhase(name string) (p Phase, ok bool) {
	at := slices.Index(Phases(), name)
	return Phase(max(at, 0)), at >= 0
}
