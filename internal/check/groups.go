package check

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/node-drainer/node-drainer/internal/autoscaling"
	"github.com/node-drainer/node-drainer/internal/cloud"
	"github.com/node-drainer/node-drainer/internal/text"
)

const (
	// leastHeartbeat is how long a hook should hold an instance while no agent runs.
	leastHeartbeat = 2 * time.Minute
	// heartbeatsInAll is how many heartbeat timeouts the global timeout is. Source: "GlobalTimeout" of LifecycleHook in
	// the Amazon EC2 Auto Scaling API reference.
	heartbeatsInAll = 100
	// mostNames is how many names a result lists.
	mostNames = 5

	actionGroups = "autoscaling:DescribeAutoScalingGroups"
	actionHooks  = "autoscaling:DescribeLifecycleHooks"
)

// judgeGroups judges which groups have a tag of the cluster.
func judgeGroups(f Facts) []Result {
	cluster := f.Config.ClusterName
	switch err := f.GroupsErr; {
	case cloud.IsDenied(err):
		return one(checkGroups, Failed, "AWS denies "+actionGroups, grant(f, actionGroups))
	case err != nil:
		return one(checkGroups, Failed, err.Error(), reach(f, "autoscaling"))
	}
	var results []Result
	for _, g := range f.Others[:min(len(f.Others), mostNames)] {
		results = append(results, judgeOther(f, g))
	}
	switch {
	case len(f.Groups) > 0:
		names := make([]string, len(f.Groups))
		for i, g := range f.Groups {
			names[i] = g.Name
		}
		results = append(results, Result{checkGroups, OK, fmt.Sprintf("%s a tag of the cluster %s: %s",
			text.Plural(len(names), "group has", "groups have"), cluster, text.First(names, mostNames)), ""})
	case len(f.Others) == 0:
		results = append(results, Result{
			checkGroups, Failed, fmt.Sprintf("no Auto Scaling group in %s has a tag of the cluster %s", f.Region, cluster),
			tagGroup(f, "GROUP"),
		})
	}
	return append(results, othersUnread(f)...)
}

// othersUnread says that the groups of some Nodes could not be read.
func othersUnread(f Facts) []Result {
	switch err := f.OthersErr; {
	case cloud.IsDenied(err):
		return one(checkGroups, Failed, "AWS denies "+autoscaling.ActionInstances, grant(f, autoscaling.ActionInstances))
	case err != nil:
		return one(checkGroups, Failed, err.Error(), reach(f, "autoscaling"))
	}
	return nil
}

// judgeOther judges a group of Nodes whose tags do not name the cluster.
func judgeOther(f Facts, g autoscaling.InspectedGroup) Result {
	nodes := text.Plural(len(g.Instances), "node is", "nodes are")
	if len(g.Clusters) > 0 {
		return Result{
			checkGroups, Failed, fmt.Sprintf("%s in group %s, whose tags name the cluster %s, and CLUSTER_NAME is %s",
				nodes, g.Name, strings.Join(g.Clusters, ", "), f.Config.ClusterName),
			helm(f, "config.clusterName="+g.Clusters[0]),
		}
	}
	return Result{
		checkGroups, Failed, fmt.Sprintf("%s in group %s, which has no tag of the cluster %s",
			nodes, g.Name, f.Config.ClusterName), tagGroup(f, g.Name),
	}
}

// ownHooks returns the group's hooks for the transition that this agent answers: those of HOOK_NAMES; if that is empty,
// those that notify its queue or nobody.
func ownHooks(f Facts, g Group, t autoscaling.Transition) []autoscaling.InspectedHook {
	return slices.DeleteFunc(slices.Clone(g.Hooks), func(h autoscaling.InspectedHook) bool {
		names := f.Config.Hook.Names
		switch {
		case h.Transition != t:
			return true
		case len(names) > 0:
			return !slices.Contains(names, h.Name)
		}
		return h.Target != "" && !isOwnQueue(f, h.Target)
	})
}

// allOwnHooks returns those of both transitions.
func allOwnHooks(f Facts, g Group) []autoscaling.InspectedHook {
	return slices.Concat(ownHooks(f, g, autoscaling.Terminating), ownHooks(f, g, autoscaling.Launching))
}

// isOwnQueue reports whether the ARN is that of the agent's queue, which QUEUE_URL names by account and name.
func isOwnQueue(f Facts, arn string) bool {
	return strings.Contains(arn, ":sqs:") && strings.HasSuffix(arn, ":"+queueAccount(f)+":"+queueName(f))
}

// judgeHooks judges the hooks of each group.
func judgeHooks(f Facts) (results []Result) {
	fine := 0
	for _, g := range f.Groups {
		found := judgeHooksOf(f, g)
		if len(found) == 0 {
			fine++
		}
		results = append(results, found...)
		if cloud.IsDenied(g.HooksErr) {
			return results // for the others as well
		}
	}
	results = append(results, judgeLaunchHooks(f)...)
	if fine > 0 {
		results = append(results, Result{
			checkHooks, OK, text.Plural(fine, "group has", "groups have") + " a terminating hook that the agent answers", "",
		})
	}
	return results
}

// judgeHooksOf returns what is wrong with the terminating hooks of a group.
func judgeHooksOf(f Facts, g Group) (results []Result) {
	switch err := g.HooksErr; {
	case cloud.IsDenied(err):
		return one(checkHooks, Failed, "AWS denies "+actionHooks, grant(f, actionHooks))
	case err != nil:
		return one(checkHooks, Failed, err.Error(), reach(f, "autoscaling"))
	}
	own := ownHooks(f, g, autoscaling.Terminating)
	if len(own) == 0 {
		return []Result{noHook(f, g)}
	}
	for _, h := range own {
		results = append(results, judgeHook(f, g, h)...)
	}
	return results
}

// noHook judges a group without a terminating hook that the agent answers.
func noHook(f Facts, g Group) Result {
	var names, unlisted []string
	for _, h := range g.Hooks {
		if h.Transition != autoscaling.Terminating {
			continue
		}
		names = append(names, h.Name)
		if isOwnQueue(f, h.Target) {
			unlisted = append(unlisted, h.Name)
		}
	}
	if len(unlisted) > 0 {
		listed, more := strings.Join(f.Config.Hook.Names, ","), strings.Join(unlisted, ",")
		return Result{
			checkHooks, Failed, fmt.Sprintf("the hook %s of group %s sends to the queue, and HOOK_NAMES (%s) does not "+
				"list it", more, g.Name, listed), helm(f, "config.hook.names={"+listed+","+more+"}"),
		}
	}
	found := fmt.Sprintf("group %s has no terminating lifecycle hook", g.Name)
	switch {
	case len(names) > 0 && len(f.Config.Hook.Names) > 0:
		found += fmt.Sprintf(" of HOOK_NAMES (%s); it has %s", strings.Join(f.Config.Hook.Names, ","),
			strings.Join(names, ", "))
	case len(names) > 0:
		found += fmt.Sprintf(" that sends to the queue; it has %s", strings.Join(names, ", "))
	}
	return Result{checkHooks, Failed, found, putHook(f, g.Name, hookNameOf(f), autoscaling.Terminating)}
}

// judgeHook judges one terminating hook.
func judgeHook(f Facts, g Group, h autoscaling.InspectedHook) (results []Result) {
	name := fmt.Sprintf("the hook %s of group %s", h.Name, g.Name)
	if h.Target != "" && !isOwnQueue(f, h.Target) && strings.Contains(h.Target, ":sqs:") {
		results = append(results, Result{
			checkHooks, Failed, fmt.Sprintf("%s sends to %s, and not to the agent's queue", name, h.Target),
			directHook(f, g.Name, h.Name),
		})
	}
	longest := f.Config.Drain.Timeout
	if h.Timing.Heartbeat < leastHeartbeat || h.Timing.Global < longest {
		wanted := max(leastHeartbeat, (longest+f.Config.Hook.Margin)/heartbeatsInAll).Round(time.Second)
		results = append(results, Result{
			checkHooks, Warning, fmt.Sprintf("%s holds an instance for %v without an agent, and for %v in all; "+
				"DRAIN_TIMEOUT is %v", name, h.Timing.Heartbeat, h.Timing.Global, longest),
			setHook(f, g.Name, h.Name, fmt.Sprintf("--heartbeat-timeout %d", int(wanted.Seconds()))),
		})
	}
	others := slices.ContainsFunc(g.Hooks, func(o autoscaling.InspectedHook) bool {
		return o.Transition == autoscaling.Terminating && o.Name != h.Name
	})
	if h.Default == autoscaling.Abandon && others {
		results = append(results, Result{
			checkHooks, Warning, name + " has the default result ABANDON: when it times out, it ends the other hooks",
			setHook(f, g.Name, h.Name, "--default-result CONTINUE"),
		})
	}
	return results
}

// judgeLaunchHooks judges groups without a launching hook while others have one.
func judgeLaunchHooks(f Facts) (results []Result) {
	var with autoscaling.InspectedHook
	var without []string
	for _, g := range f.Groups {
		if own := ownHooks(f, g, autoscaling.Launching); len(own) > 0 {
			with = own[0]
		} else if g.HooksErr == nil {
			without = append(without, g.Name)
		}
	}
	if with.Name == "" {
		return nil
	}
	for _, name := range without {
		results = append(results, Result{
			checkHooks, Warning, fmt.Sprintf("group %s has no launching hook, and others have %s", name, with.Name),
			putHook(f, name, with.Name, autoscaling.Launching),
		})
	}
	return results
}

// isLaunchName reports whether the name of a hook says that it is one for launches.
func isLaunchName(name string) bool { return strings.Contains(strings.ToLower(name), "launch") }
