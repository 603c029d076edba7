package check

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/node-drainer/node-drainer/internal/autoscaling"
	"github.com/node-drainer/node-drainer/internal/cloud"
	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/internal/text"
	"github.com/node-drainer/node-drainer/pkg/queue"
)

// The permissions that are tried with EC2 and CloudWatch.
const (
	ActionInstances = "ec2:DescribeInstances"
	ActionStatus    = "ec2:DescribeInstanceStatus"
	ActionSpot      = "ec2:DescribeSpotInstanceRequests"
	ActionAlarms    = "cloudwatch:DescribeAlarms"
)

// neededTrials returns the calls to make, each because the configuration needs its permission. Permissions on groups
// depend on their tags, so one group for each set of cluster tags is tried. Without write only calls that read are
// made.
func neededTrials(f Facts, write bool) (all []Trial) {
	add := func(needed bool, action, group string) {
		if needed {
			all = append(all, Trial{Action: action, Group: group})
		}
	}
	events := f.Config.Event
	add(events.ScheduledChange != event.Ignore, ActionStatus, "")
	add(events.SpotInterruption != event.Ignore, ActionSpot, "")
	add(events.Alarm != event.Ignore, ActionAlarms, "")
	for _, action := range []string{queue.ActionReceive, queue.ActionDelete, queue.ActionRenew} {
		add(write && f.QueueErr == nil, action, "")
	}
	if len(f.Groups) == 0 {
		return all
	}
	first, launches := f.Groups[0].Name, false
	for _, g := range f.Groups {
		launches = launches || len(ownHooks(f, g, autoscaling.Launching)) > 0
	}
	add(true, autoscaling.ActionTags, first)
	add(true, autoscaling.ActionInstances, first)
	add(slices.ContainsFunc(f.Groups, func(g Group) bool { return g.WarmPool }), autoscaling.ActionPool, first)
	add(launches, autoscaling.ActionRefreshes, first)
	for _, group := range groupPerTags(f) {
		add(write, autoscaling.ActionHeartbeat, group)
		add(write, autoscaling.ActionComplete, group)
	}
	return all
}

// groupPerTags returns one group for each set of tags that name a cluster.
func groupPerTags(f Facts) (names []string) {
	seen := map[string]bool{}
	for _, g := range f.Groups {
		if key := clusterTags(g.Tags); !seen[key] {
			seen[key] = true
			names = append(names, g.Name)
		}
	}
	return names
}

// clusterTags returns the tags that name a cluster as one text.
func clusterTags(tags map[string]string) string {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		if strings.Contains(key, "cluster") {
			all = append(all, key+"="+tags[key])
		}
	}
	return strings.Join(all, " ")
}

// optional judges a missing permission that only events of one kind need. The agent handles them by default, and
// without an EventBridge rule there are none.
func optional(f Facts, action, events, ignore string) (s Status, found, fix string) {
	return Warning, "AWS denies " + action + ", which the agent needs to verify " + events,
		grant(f, action) + "; without a rule for them: " + helm(f, ignore)
}

// judgePermissions judges the trials.
func judgePermissions(f Facts) (results []Result) {
	var allowed []string
	for _, t := range f.Trials {
		if !cloud.IsDenied(t.Err) {
			allowed = append(allowed, t.Action)
			continue
		}
		status, found, fix := Failed, "AWS denies "+t.Action, grant(f, t.Action)
		switch {
		case t.Action == ActionStatus:
			status, found, fix = optional(f, t.Action, "maintenance", "config.event.scheduledChange=ignore")
		case t.Action == ActionSpot:
			status, found, fix = optional(f, t.Action, "Spot interruptions", "config.event.spotInterruption=ignore")
		case strings.HasPrefix(t.Action, "sqs:"):
			found, fix = found+" on the queue", grantQueue(f, strings.TrimPrefix(t.Action, "sqs:"))
		case t.Action == autoscaling.ActionHeartbeat || t.Action == autoscaling.ActionComplete:
			found, fix = found+" on group "+t.Group, grantGroup(f, t.Action, t.Group)
		}
		results = append(results, Result{checkPermissions, status, found, fix})
	}
	if len(allowed) == 0 {
		return results
	}
	slices.Sort(allowed)
	allowed = slices.Compact(allowed)
	return append(results, Result{
		checkPermissions, OK, fmt.Sprintf("AWS allows %s: %s", text.Count(len(allowed), "action"),
			strings.Join(allowed, ", ")), "",
	})
}
