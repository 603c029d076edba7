package refresh

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/node-drainer/node-drainer/internal/text"
)

// Processes of Auto Scaling, in the API's words. Source: "Suspend and resume processes" in the user guide.
const (
	ProcessInstanceRefresh = "InstanceRefresh"

	processLaunch      = "Launch"
	processTerminate   = "Terminate"
	processReplace     = "ReplaceUnhealthy"
	processHealthCheck = "HealthCheck"
	processRegister    = "AddToLoadBalancer"
	processRebalance   = "AZRebalance"
)

func checkManagedBy(g Group, _ Facts) (Level, string) {
	if g.Operator != "" {
		return Refuse, fmt.Sprintf("%s manages the group, and AWS lets no other client change it: replace the "+
			"instances there", g.Operator)
	}
	return OK, "no other service manages the group"
}

func checkNodegroup(g Group, _ Facts) (Level, string) {
	name := g.ManagedNodegroup()
	if name == "" {
		return OK, "the group belongs to no EKS managed node group"
	}
	return Refuse, fmt.Sprintf("the group belongs to the EKS managed node group %s, and a rollout would bypass the node "+
		"group's own update: use --nodegroup, or --allow managed-nodegroup", name)
}

func checkTarget(_ Group, f Facts) (Level, string) {
	if f.Target.Problem != "" {
		return Refuse, f.Target.Problem + ": no instance can be launched from it; correct the group, or the " +
			"requested version"
	}
	return OK, "new instances are launched from " + f.Target.Text
}

// Halted are the suspended processes of the group without which no rollout continues, in whatever mode.
func (g Group) Halted() []string {
	return g.suspendedOf(processLaunch, processTerminate, ProcessInstanceRefresh, processReplace)
}

// suspendedOf are those of the processes that are suspended.
func (g Group) suspendedOf(processes ...string) []string {
	return slices.DeleteFunc(processes, func(p string) bool { return !slices.Contains(g.Suspended, p) })
}

func checkSuspended(g Group, f Facts) (Level, string) {
	needed := []string{processLaunch, processTerminate}
	switch f.Mode {
	case ModeRefresh:
		needed = append(needed, ProcessInstanceRefresh)
	case ModeUnhealthy:
		needed = append(needed, processReplace)
	case ModeStandby, ModeNodegroup:
	}
	missing := g.suspendedOf(needed...)
	switch {
	case len(missing) > 0:
		return Refuse, fmt.Sprintf("suspended: %s; no instance is replaced without it: resume it first",
			strings.Join(missing, ", "))
	case g.LoadBalanced && slices.Contains(g.Suspended, processRegister):
		return Refuse, "suspended: AddToLoadBalancer; instances that are launched meanwhile are never registered with the " +
			"group's load balancers, not even when it is resumed, so that the last old one would leave them empty: " +
			"resume it first"
	case slices.Contains(g.Suspended, processHealthCheck):
		return Warn, "suspended: HealthCheck; new instances that fail are not detected: resume it first"
	default:
		return OK, "no process that is needed is suspended"
	}
}

func checkActiveRefresh(_ Group, f Facts) (Level, string) {
	if f.Active == nil {
		return OK, "no instance refresh is active"
	}
	refresh := fmt.Sprintf("instance refresh %s is %s", f.Active.ID, f.Active.Status)
	switch {
	case f.Mode.InBatches():
		return Refuse, refresh + ", and both would replace instances at the same time: wait for it, or cancel it"
	case f.Active.HasTarget(f.Target):
		return OK, refresh + ", and has the same target"
	default:
		return Warn, refresh + ", and has another target: --on-conflict decides what happens to it"
	}
}

// longestHook is the terminating hook that can hold an instance for the longest time, or zero.
func longestHook(hooks []Hook) (longest Hook) {
	for _, h := range hooks {
		if h.Terminating && (!longest.Terminating || h.GlobalTimeout > longest.GlobalTimeout) {
			longest = h
		}
	}
	return longest
}

// shortHold is the global timeout below which the preflight warns: one blocked disruption budget may need as
// long.
const shortHold = time.Hour

// drainTimeout is the default of the agent's DRAIN_TIMEOUT, the longest time that it gives a drain.
const drainTimeout = time.Hour

func checkHookTimeout(_ Group, f Facts) (Level, string) {
	h := longestHook(f.ownHooks())
	holds := fmt.Sprintf("the terminating hook %s holds an instance for at most %s", h.Name, h.GlobalTimeout)
	raise := func(d time.Duration) string {
		beat := (min(d, maxGlobalTimeout) + heartbeatsPerTimeout - 1) / heartbeatsPerTimeout
		return fmt.Sprintf("raise its heartbeat timeout above %s", max(beat, MinHeartbeatTimeout).Round(time.Second))
	}
	switch {
	case h.GlobalTimeout <= f.LongestGrace && f.LongestGrace >= maxGlobalTimeout:
		return Refuse, fmt.Sprintf("%s, and a pod has a grace period of %s, for which no hook waits: shorten it",
			holds, f.LongestGrace)
	case h.GlobalTimeout <= f.LongestGrace:
		return Refuse, fmt.Sprintf("%s, and would cut the grace period of a pod, %s: %s",
			holds, f.LongestGrace, raise(f.LongestGrace))
	case f.LongestGrace >= drainTimeout:
		return Warn, fmt.Sprintf("%s, and a pod has a grace period of %s: the agent cuts it to its DRAIN_TIMEOUT, %s "+
			"by default", holds, f.LongestGrace, drainTimeout)
	case h.GlobalTimeout < shortHold:
		return Warn, fmt.Sprintf("%s: longer drains are cut; %s", holds, raise(shortHold))
	default:
		return OK, holds
	}
}

func checkWarmPool(g Group, f Facts) (Level, string) {
	if f.Mode.InBatches() {
		return Warn, "the group has a warm pool, whose instances this mode does not replace: outdated ones may enter " +
			"service later; --mode refresh replaces them too"
	}
	outdated := g.InstanceIDs(func(i Instance) bool { return i.Pooled() && f.Verdicts[i.ID].Outdated })
	return OK, fmt.Sprintf("the instances of the warm pool are replaced too: %d outdated", len(outdated))
}

func checkBudgets(_ Group, f Facts) (Level, string) {
	if len(f.Cluster.Blocking) > 0 {
		return Warn, fmt.Sprintf("%s: drains wait until they do, or until the hook times out: %s",
			noDisruption(f.Cluster.Blocking), list(f.Cluster.Blocking))
	}
	return OK, "every disruption budget allows a disruption"
}

// noDisruption says that so many budgets block.
func noDisruption(budgets []string) string {
	return text.Plural(len(budgets), "disruption budget allows", "disruption budgets allow") + " no disruption now"
}

func checkNodes(g Group, f Facts) (Level, string) {
	missing := f.Cluster.Missing
	found := fmt.Sprintf("%s no ready node, so that less capacity is in service than AWS reports: %s",
		text.Plural(len(missing), "instance has", "instances have"), list(missing))
	switch {
	case len(missing) == 0:
		return OK, "every instance in service has a ready node"
	case len(missing) == len(g.InstanceIDs(Instance.InService)):
		return Warn, found + "; if this is not the cluster of the group, name that with --kubeconfig and --context"
	default:
		return Warn, found
	}
}

func checkSelf(g Group, f Facts) (Level, string) {
	runs := func(i Instance) bool { return f.Self != "" && i.ID == f.Self && f.isReplaced(i) }
	if slices.ContainsFunc(g.Instances, runs) {
		return Warn, fmt.Sprintf("the trigger runs on %s, which is to be replaced, and would end with it: run it "+
			"elsewhere, or use --no-wait", f.Self)
	}
	return OK, "the trigger runs on none of the instances that are to be replaced"
}

func checkOutdated(g Group, f Facts) (Level, string) {
	switch {
	case g.Desired == 0 && f.Outdated == 0 && g.Nodegroup == nil:
		return OK, "the desired capacity is 0: there is nothing to replace"
	case f.Outdated == 0 && g.Nodegroup != nil && !g.Nodegroup.IsUpdated():
		return OK, "the node group is outdated, and has no node to be replaced"
	case f.Outdated == 0:
		return OK, "no instance is outdated"
	default:
		return OK, text.Plural(f.Outdated, "instance is outdated", "instances are outdated")
	}
}

func checkProtected(g Group, f Facts) (Level, string) {
	ids := g.InstanceIDs(func(i Instance) bool { return f.isReplaced(i) && i.Protected && !i.Terminating() })
	return f.checkPreference(ids, f.Preferences.Protected, "protected from scale in",
		"remove the protection, or use --protected")
}

func checkStandby(g Group, f Facts) (Level, string) {
	record := StandbyOf(g)
	ids := g.InstanceIDs(func(i Instance) bool {
		_, ours := record[i.ID]
		return f.isReplaced(i) && i.Standby() && (!ours || f.Mode != ModeStandby)
	})
	return f.checkPreference(ids, f.Preferences.Standby, "in standby", "return them to service, or use --standby")
}

// RefreshPreferences' words for what happens to instances that are protected or in standby.
const (
	preferWait   = "Wait"
	preferIgnore = "Ignore"
)

// checkPreference reports what happens to instances that a refresh replaces only if its preferences say so.
// The API's default is Wait.
func (f Facts) checkPreference(ids []string, preference, are, todo string) (Level, string) {
	found := fmt.Sprintf("%s %s: %s", text.Plural(len(ids), "instance is", "instances are"), are, list(ids))
	switch {
	case len(ids) == 0:
		return OK, "no instance that is to be replaced is " + are
	case f.Mode.InBatches() || preference == preferIgnore:
		return Warn, found + "; these are not replaced"
	case cmp.Or(preference, preferWait) == preferWait:
		return Warn, found + "; the refresh waits for them, and fails after an hour: " + todo
	default:
		return OK, found + "; these are replaced too"
	}
}

// checkKept reports outdated instances that are not replaced, for reasons that have no check of their own.
func checkKept(g Group, f Facts) (Level, string) {
	excluded, retained := f.keptFor(g, CodeExcluded), f.keptFor(g, CodeRetained)
	if len(excluded)+len(retained) > 0 {
		return Warn, "outdated, and not replaced: " + list(slices.Concat(excluded, retained))
	}
	return OK, "no outdated instance is left out"
}

// keptFor are the instances that are kept for the reason of the code, with that reason.
func (f Facts) keptFor(g Group, code Code) []string {
	var kept []string
	for _, i := range g.Instances {
		for _, r := range f.Verdicts[i.ID].Kept {
			if r.Code == code {
				kept = append(kept, i.ID+" ("+r.Text+")")
			}
		}
	}
	return kept
}

// isReplaced reports whether the instance is outdated, or would be replaced although it is not.
func (f Facts) isReplaced(i Instance) bool {
	return f.Verdicts == nil || f.Verdicts[i.ID].Outdated || f.Mode == ModeRefresh && !f.Preferences.SkipMatching
}

// list names the first five, and how many more there are.
func list(names []string) string { return text.First(names, 5) }

func checkWave(g Group, _ Facts) (Level, string) {
	wave, err := WaveOf(g)
	if err != nil {
		return Refuse, err.Error()
	}
	return OK, fmt.Sprintf("the group is in wave %d, which begins when all earlier ones ended well", wave)
}
