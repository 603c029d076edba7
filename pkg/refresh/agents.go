package refresh

import (
	"fmt"
	"slices"
	"strings"
	"time"
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
	foreign := func(h Hook) bool { return !slices.Contains(f.Agents.Answered, h.Name) }
	return slices.DeleteFunc(slices.Clone(f.Hooks), foreign)
}

// LaunchHook reports whether the group has a launch hook that an agent may answer.
func (f Facts) LaunchHook() bool {
	return slices.ContainsFunc(f.ownHooks(), func(h Hook) bool { return !h.Terminating })
}

// Held is how long a terminating hook can hold an instance that an agent may answer; 0 if there is none.
func (f Facts) Held() time.Duration { return longestHook(f.ownHooks()).GlobalTimeout }

// terminating are the names of the terminating hooks.
func terminating(hooks []Hook) (names []string) {
	for _, h := range hooks {
		if h.Terminating {
			names = append(names, h.Name)
		}
	}
	return names
}

// ownName is a part of the names that the documentation gives hooks of agents.
const ownName = "drain"

func checkTerminatingHook(_ Group, f Facts) (Level, string) {
	names := terminating(f.Hooks)
	own, unknown := longestHook(f.ownHooks()), f.Agents == nil || f.Agents.Unknown != nil
	isOwn := func(name string) bool { return strings.Contains(name, ownName) }
	staysThere := f.Mode == ModeStandby && f.Then != ThenTerminate && f.Then != ""
	switch {
	case len(names) == 0 && staysThere:
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
	level := Refuse
	if len(f.Agents.Live)+len(f.Agents.Stopped) == 0 { // An agent without leader election has no Lease.
		level = Warn
	}
	return level, fmt.Sprintf("no agent is known to answer %s, and without one pods would be killed: %s",
		hooksOf(names), f.Agents.whyUnanswered())
}

// hooksOf names the terminating hooks.
func hooksOf(names []string) string {
	if len(names) == 1 {
		return "the terminating hook " + names[0]
	}
	return "the terminating hooks " + list(names)
}

// whyUnanswered is why no agent answers the hooks, and what to do.
func (a AgentFacts) whyUnanswered() string {
	switch {
	case len(a.Live) > 0:
		return "set HOOK_NAMES of an agent, or the target of the hooks; these agents run: " + list(a.Live)
	case len(a.Stopped) > 0:
		return "start the agent whose Lease was not renewed lately: " + list(a.Stopped)
	default:
		return "none in the cluster has a Lease; start one, unless it runs without leader election"
	}
}
