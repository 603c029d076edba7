package sim

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	corev1 "k8s.io/api/core/v1"

	nodes "github.com/node-drainer/node-drainer/internal/cluster"
	"github.com/node-drainer/node-drainer/internal/config"
	"github.com/node-drainer/node-drainer/internal/node"
	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/pkg/refresh"
	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/rollouts"
	"github.com/node-drainer/node-drainer/test/sim/kube"
)

// judgeLeft checks that nothing of a trigger is left in the end, and that nothing is outdated.
func (f *rolloutFacts) judgeLeft(ctx context.Context) {
	if f.isCutShort() {
		return
	}
	f.autoscalersRestored()
	for name, g := range f.groups {
		if !slices.ContainsFunc(f.spec.Triggers, func(t Trigger) bool { return t.Cluster == g.cluster.Name }) {
			continue
		}
		now, err := f.describe(name) //nolint:contextcheck // A call of the judge does not end with the process.
		if err != nil || ctx.Err() != nil {
			f.violate("nothing left", "%v", err)
			continue
		}
		outcome := f.outcomes[name]
		f.sizesRestored(g, now)
		f.tagsRemoved(g, now, isReached(outcome))
		for _, s := range now.SuspendedProcesses {
			f.violate("nothing left", "%s has the process %s suspended", name, *s.ProcessName)
		}
		for _, i := range now.Instances {
			f.instanceRestored(g, i, now.Tags)
		}
		f.nodesRestored(g, isReached(outcome))
		f.rolledOut(g, outcome)
	}
}

func isReached(o report.Outcome) bool { return o == report.Done || o == report.Nothing }

// rolledOut checks that the last trigger has replaced what is outdated, unless it was refused, or another group was, or
// no agent drains the nodes that are to be drained in Standby.
func (f *rolloutFacts) rolledOut(g *rolledGroup, outcome report.Outcome) {
	left := slices.ContainsFunc(f.aws.Instances(g.Name), func(i awsim.Instance) bool {
		return f.isToBeReplaced(g, i) && f.isOutdated(g, i, 0)
	})
	excused := f.waitsForever(g) || g.Managed && outcome == report.Failed || // EKS could not evict pods in time.
		outcome == report.Skipped && f.isSkippedForOthers(g)
	if left && outcome != report.Refused && !excused || outcome == "" {
		f.violate("rollouts end", "%s is %q in the end; something is outdated: %t", g.Name, outcome, left)
	}
}

// isSkippedForOthers reports whether another group of the cluster was refused, or has ended in a way for which a group
// is skipped: by --fail-fast, or since it has taken the whole window.
func (f *rolloutFacts) isSkippedForOthers(g *rolledGroup) bool {
	o := f.optionsOf(g)
	return slices.ContainsFunc(g.cluster.Groups, func(other Group) bool {
		end := f.outcomes[other.Name]
		return end == report.Refused || (o.FailFast || o.Windows) && end != report.Skipped && !isReached(end)
	})
}

// waitsForever reports whether instances are to be drained in Standby, and no agent manages their nodes, or it leaves
// pods on them: then the trigger waits for ever.
func (f *rolloutFacts) waitsForever(g *rolledGroup) bool {
	manager := g.cluster.manager(g.Group)
	for _, a := range f.agentsOf(manager) {
		cfg, err := config.ReadAgent(a.environ())
		if manager != "" && err == nil && cfg.Drain.AtDeadline == "delete" {
			return false
		}
	}
	return f.optionsOf(g).Then != refresh.ThenTerminate
}

func (f *rolloutFacts) sizesRestored(g *rolledGroup, now types.AutoScalingGroup) {
	desired, most := int(*now.DesiredCapacity), int(*now.MaxSize)
	if by := (managed{g.cluster}).raised(g.Name); by > 0 { // EKS does not take it back after an update that failed.
		if desired < g.low || desired > g.high+by || most > g.most()+by {
			f.violate("capacity restored", "%s has the desired capacity %d and the maximum %d; others have asked for %d to %d, "+
				"and EKS has left %d more", g.Name, desired, most, g.low, g.high, by)
		}
		return
	}
	if desired < g.low || desired > g.high {
		f.violate("capacity restored", "%s has the desired capacity %d; others have asked for %d to %d", g.Name, desired,
			g.low, g.high)
	}
	if most != g.most() && desired <= g.most() {
		f.violate("capacity restored", "%s has the maximum size %d; its owner has set %d", g.Name, most, g.most())
	}
}

// tagsRemoved checks the tags of the group. A watch leaves that a rollout has failed, and instances that are kept in
// Standby stay listed.
func (f *rolloutFacts) tagsRemoved(g *rolledGroup, now types.AutoScalingGroup, reached bool) {
	then := f.optionsOf(g).Then
	for _, t := range now.Tags {
		isOther := func(entry string) bool { return !strings.HasSuffix(entry, "=kept") }
		isKept := !slices.ContainsFunc(strings.Fields(*t.Value), isOther)
		watches := slices.ContainsFunc(f.spec.Triggers, func(t Trigger) bool { return t.Command == rollouts.Watch })
		switch {
		case !strings.HasPrefix(*t.Key, "node-drainer.io/"):
		case *t.Key == refresh.FailedTag && watches, *t.Key == refresh.MaxTag && isMaxKept(now):
		case strings.HasPrefix(*t.Key, refresh.StandbyTag) && (!reached || isKept && then != refresh.ThenTerminate):
		default:
			f.violate("nothing left", "%s has the tag %s=%s", g.Name, *t.Key, *t.Value)
		}
	}
}

// isMaxKept reports whether the desired capacity keeps the maximum, and as much of it as it needs: others have used the
// room for a surge.
func isMaxKept(now types.AutoScalingGroup) bool {
	g := refresh.Group{Desired: int(*now.DesiredCapacity), Max: int(*now.MaxSize), Tags: map[string]string{}}
	for _, t := range now.Tags {
		g.Tags[*t.Key] = *t.Value
	}
	m, ok := refresh.RaisedMaxOf(g)
	return ok && g.Desired > m.From && g.Max == g.Desired
}

func (f *rolloutFacts) instanceRestored(g *rolledGroup, i types.Instance, tags []types.TagDescription) {
	listed := slices.ContainsFunc(tags, func(t types.TagDescription) bool {
		return strings.HasPrefix(*t.Key, refresh.StandbyTag) && strings.Contains(*t.Value, *i.InstanceId)
	})
	if i.LifecycleState == types.LifecycleStateStandby && !g.user[*i.InstanceId] && !listed {
		f.violate("nothing left", "%s of %s is in Standby, and no tag lists it", *i.InstanceId, g.Name)
	}
	if *i.ProtectedFromScaleIn {
		f.violate("nothing left", "%s of %s is protected from scale in", *i.InstanceId, g.Name)
	}
}

// nodesRestored checks that nodes in service have nothing of a trigger.
func (f *rolloutFacts) nodesRestored(g *rolledGroup, reached bool) {
	for _, i := range f.aws.Instances(g.Name) {
		n, ok := kube.Get[*corev1.Node](g.cluster.server, nodeName(i.ID))
		if !ok || i.State != "InService" || f.facts.isReplaced(i.ID, time.Now()) {
			continue
		}
		isTainted := slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == nodes.OutdatedTaint })
		_, isDisabled := n.Annotations[node.ScaleDownOwner]
		isAsked := f.isAsked(n)
		if isDisabled || isAsked || isTainted && reached {
			f.violate("nothing left", "node %s of %s is tainted: %t; its scale-down is disabled: %t; its drain is requested: %t",
				n.Name, g.Name, isTainted, isDisabled, isAsked)
		}
	}
}
