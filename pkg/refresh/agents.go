package refresh

import (
	"fmt"
	"slices"
	"strings"
)

// AgentFacts are what is known of the agents of the cluster.
type AgentFacts struct {
	Unknown  error    // Why nothing is known.
	Answered []string // The hooks of the group that a live agent answers.
	Live     []string // The Leases of the agents that run: namespace/name.
	Stopped  []string // Those that were not renewed lately.
}

// ownHooks are the hooks that an agent answers. Where that is not known, any may be an agent's.
func (f Facts) ownHooks() []Hook {
	if f.Agents == nil || f.Agents.Unknown != nil {
		return f.Hooks
	}
	return slices.DeleteFunc(slices.Clone(f.Hooks), func(h Hook) bool { return !slices.Contains(f.Agents.Answered, h.Name) })
}

// LaunchHook reports whether the group has a launch hook that an agent may answer.
func (f Facts) LaunchHook() bool {
	return slices.ContainsFunc(f.ownHooks(), func(h Hook) bool { return !h.Terminating })
}

// ownName is a part of the names that the documentation gives hooks of agents.
const ownName = "drain"

func checkTerminatingHook(_ Group, f Facts) (Level, string) {
	var names []string
	for _, h := range f.Hooks {
		if h.Terminating {
			names = append(names, h.Name)
		}
	}
	own, unknown := longestHook(f.ownHooks()), f.Agents == nil || f.Agents.Unknown != nil
	isOwn := func(name string) bool { return strings.Contains(name, ownName) }
	switch {
	case len(names) == 0 && f.Mode == ModeStandby && (f.Then == ThenStop || f.Then == ThenKeep):
		return Warn, fmt.Sprintf("the group has no terminating hook: --then %s terminates nothing, but trigger rollback "+
			"would terminate new instances with their pods on them", f.Then)
	case len(names) == 0:
		return Refuse, "the group has no terminating hook: instances would be terminated with their pods on them; add " +
			"one for autoscaling:EC2_INSTANCE_TERMINATING"
	case own.Terminating && unknown && !slices.ContainsFunc(names, isOwn):
		return Warn, "whether an agent answers the terminating hooks is not known without access to the Leases of the " +
			"cluster, and their names are not those of an agent's: " + list(names)
	case own.Terminating:
		return OK, fmt.Sprintf("the terminating hook %s waits until nodes are drained", own.Name)
	}
	const lost = "they would time out, and pods be killed: "
	switch a := f.Agents; {
	case len(a.Live) > 0:
		return Refuse, fmt.Sprintf("no agent answers the terminating hooks %s; %sset HOOK_NAMES, or the target of the "+
			"hooks; these agents run: %s", list(names), lost, list(a.Live))
	case len(a.Stopped) > 0:
		return Refuse, fmt.Sprintf("no agent runs that answers the terminating hooks %s; %sits Lease was not renewed lately: %s",
			list(names), lost, list(a.Stopped))
	default:
		return Refuse, fmt.Sprintf("no agent in the cluster has a Lease, so that nobody answers the terminating hooks %s; %s"+
			"start one, or allow this check for one without leader election", list(names), lost)
	}
}
