package refresh

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/node-drainer/node-drainer/internal/text"
)

// Processes of Auto Scaling, in the API's words. What the suspension of each means is told in "Suspend and
// resume processes" in the user guide.
const (
	processLaunch      = "Launch"
	processTerminate   = "Terminate"
	processRefresh     = "InstanceRefresh"
	processReplace     = "ReplaceUnhealthy"
	processHealthCheck = "HealthCheck"
)

func operated(g Group, _ Facts) (Level, string) {
	if g.Operator != "" {
		return Refuse, fmt.Sprintf("%s manages the group, and AWS lets nobody else change it: replace its "+
			"instances there", g.Operator)
	}
	return OK, "no other service manages the group"
}

func managed(g Group, f Facts) (Level, string) {
	name := g.ManagedNodegroup()
	switch {
	case name == "":
		return OK, "the group belongs to no EKS managed node group"
	case f.AllowManaged:
		return Warn, fmt.Sprintf("the group belongs to the EKS managed node group %s: EKS may change it meanwhile",
			name)
	default:
		return Refuse, fmt.Sprintf("the group belongs to the EKS managed node group %s, whose own update would "+
			"be undermined: update the node group, or say --allow-managed-nodegroup", name)
	}
}

func aimed(_ Group, f Facts) (Level, string) {
	if f.Target.Problem != "" {
		return Refuse, f.Target.Problem + ": nothing can be launched from that; correct the group, or the " +
			"version asked for"
	}
	return OK, "new instances are launched from " + f.Target.Text
}

// Halted are the suspended processes of the group without which a rollout, of whatever mode, does not go on.
func (g Group) Halted() []string {
	return g.suspended(processLaunch, processTerminate, processRefresh, processReplace)
}

// suspended are those of the processes that are.
func (g Group) suspended(processes ...string) []string {
	return slices.DeleteFunc(processes, func(p string) bool { return !slices.Contains(g.Suspended, p) })
}

func suspended(g Group, f Facts) (Level, string) {
	needed := []string{processLaunch, processTerminate, processRefresh}
	if f.Mode == ModeUnhealthy {
		needed = []string{processLaunch, processTerminate, processReplace}
	}
	missing := g.suspended(needed...)
	switch {
	case len(missing) > 0:
		return Refuse, fmt.Sprintf("suspended: %s; without that no instance is replaced: resume it first",
			strings.Join(missing, ", "))
	case slices.Contains(g.Suspended, processHealthCheck):
		return Warn, "suspended: HealthCheck; new instances that fail are not noticed: resume it first"
	default:
		return OK, "no process is suspended that is needed"
	}
}

func active(_ Group, f Facts) (Level, string) {
	switch {
	case f.Active == nil:
		return OK, "no instance refresh is under way"
	case f.Mode == ModeUnhealthy:
		return Refuse, fmt.Sprintf("instance refresh %s is %s, and both would replace instances at the same "+
			"time: wait for it, or cancel it", f.Active.ID, f.Active.Status)
	case f.Active.HasTarget(f.Target):
		return OK, fmt.Sprintf("instance refresh %s is %s, and goes to the same target",
			f.Active.ID, f.Active.Status)
	default:
		return Warn, fmt.Sprintf("instance refresh %s is %s, and has another target: --on-conflict says what to do",
			f.Active.ID, f.Active.Status)
	}
}

func hooked(_ Group, f Facts) (Level, string) {
	if h, ok := longest(f.Hooks); ok {
		return OK, fmt.Sprintf("the terminating hook %s waits for nodes to be drained", h.Name)
	}
	return Refuse, "the group has no terminating hook: instances would be ended with their pods on them; add " +
		"one to autoscaling:EC2_INSTANCE_TERMINATING"
}

// longest is the terminating hook that can hold an instance for the longest time.
func longest(hooks []Hook) (longest Hook, ok bool) {
	for _, h := range hooks {
		if h.Terminating && (!ok || h.GlobalTimeout > longest.GlobalTimeout) {
			longest, ok = h, true
		}
	}
	return longest, ok
}

// shortHold is the time below which a hook is warned of: a single budget that has to wait may need as long.
const shortHold = time.Hour

func holdsLong(_ Group, f Facts) (Level, string) {
	h, ok := longest(f.Hooks)
	if !ok {
		return "", ""
	}
	holds := fmt.Sprintf("the terminating hook %s holds an instance for %s at most", h.Name, h.GlobalTimeout)
	raise := func(d time.Duration) string {
		beat := (min(d, longestHold) + holdPerBeat - 1) / holdPerBeat
		return fmt.Sprintf("raise its heartbeat timeout above %s", max(beat, leastBeat).Round(time.Second))
	}
	switch {
	case h.GlobalTimeout <= f.LongestGrace && f.LongestGrace >= longestHold:
		return Refuse, fmt.Sprintf("%s, and a pod has a grace period of %s, for which no hook waits: shorten that",
			holds, f.LongestGrace)
	case h.GlobalTimeout <= f.LongestGrace:
		return Refuse, fmt.Sprintf("%s, and a pod has a grace period of %s, which would be cut: %s",
			holds, f.LongestGrace, raise(f.LongestGrace))
	case h.GlobalTimeout < shortHold:
		return Warn, fmt.Sprintf("%s: a drain that takes longer is cut; %s", holds, raise(shortHold))
	default:
		return OK, holds
	}
}

func pooled(g Group, f Facts) (Level, string) {
	switch {
	case !g.WarmPool:
		return "", ""
	case f.Mode == ModeUnhealthy:
		return Warn, "the group has a warm pool, whose instances this mode does not replace: old ones may come " +
			"into service later; --mode refresh replaces them too"
	default:
		return OK, "the instances of the warm pool are replaced too"
	}
}

func budgeted(_ Group, f Facts) (Level, string) {
	switch {
	case f.Cluster == nil:
		return "", ""
	case len(f.Cluster.Blocking) > 0:
		return Warn, fmt.Sprintf("%s nothing now: drains wait until they do, or the hook's time is over: %s",
			text.Plural(len(f.Cluster.Blocking), "disruption budget allows", "disruption budgets allow"),
			listed(f.Cluster.Blocking))
	default:
		return OK, "no disruption budget forbids to move a pod"
	}
}

func joined(_ Group, f Facts) (Level, string) {
	switch {
	case f.Cluster == nil:
		return "", ""
	case len(f.Cluster.Missing) > 0:
		return Warn, fmt.Sprintf("%s no node that is ready, so that less is in service than AWS believes: %s",
			text.Plural(len(f.Cluster.Missing), "instance has", "instances have"), listed(f.Cluster.Missing))
	default:
		return OK, "every instance in service is a node that is ready"
	}
}

func selfish(g Group, f Facts) (Level, string) {
	runs := func(i Instance) bool { return f.Self != "" && i.ID == f.Self && f.replaces(i) }
	if slices.ContainsFunc(g.Instances, runs) {
		return Warn, fmt.Sprintf("the trigger runs on %s, which is to be replaced, and ends with it: run it "+
			"elsewhere, or say --no-wait", f.Self)
	}
	return OK, "the trigger runs on none of the instances that are to be replaced"
}

func outdated(g Group, f Facts) (Level, string) {
	switch {
	case g.Desired == 0:
		return OK, "the desired capacity is 0: there is nothing to replace"
	case f.Outdated == 0:
		return OK, "no instance is outdated"
	default:
		return OK, text.Plural(f.Outdated, "instance is outdated", "instances are outdated")
	}
}

// replaces tells whether the instance is outdated, or would be replaced although it is not.
func (f Facts) replaces(i Instance) bool {
	return f.Verdicts == nil || f.Verdicts[i.ID].Outdated || f.Mode == ModeRefresh && !f.Preferences.SkipMatching
}

// named are the ids of those of the group's instances that are to be replaced and are such.
func (f Facts) named(g Group, such func(Instance) bool) []string {
	var ids []string
	for _, i := range g.Instances {
		if f.replaces(i) && such(i) {
			ids = append(ids, i.ID)
		}
	}
	return ids
}
