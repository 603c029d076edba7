package rollouts

import (
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// nothingLeft checks that a group has nothing of a trigger when the last one has ended so.
func (j *judge) nothingLeft(g *group, outcome report.Outcome) {
	now, err := j.w.describe(g)
	if err != nil {
		j.violate("nothing left", "%v", err)
		return
	}
	reached := outcome == report.Done || outcome == report.Nothing
	for _, t := range now.Tags {
		if *t.Key == refresh.MaxTag && isKept(now) {
			continue // The desired capacity needs the maximum.
		}
		if strings.HasPrefix(*t.Key, "node-drainer.io/") && !j.mayStay(*t.Key, *t.Value, reached) {
			j.violate("nothing left", "%s has the tag %s=%s after %s", g.Name, *t.Key, *t.Value, outcome)
		}
	}
	if g.lossy {
		return
	}
	j.sizeRestored(g, now)
	for _, s := range now.SuspendedProcesses {
		if *s.ProcessName != g.Suspended {
			j.violate("nothing left", "%s has the process %s suspended", g.Name, *s.ProcessName)
		}
	}
	if g.Suspended != "" && len(now.SuspendedProcesses) == 0 {
		j.violate("others untouched", "the process %s of %s is not suspended any more", g.Suspended, g.Name)
	}
	for _, i := range now.Instances {
		j.instanceRestored(g, i, reached, now.Tags)
	}
}

// isKept reports whether the desired capacity keeps the maximum, and as much of it as it needs.
func isKept(now types.AutoScalingGroup) bool {
	g := refresh.Group{Desired: int(*now.DesiredCapacity), Max: int(*now.MaxSize), Tags: map[string]string{}}
	for _, t := range now.Tags {
		g.Tags[*t.Key] = *t.Value
	}
	m, ok := refresh.RaisedMaxOf(g)
	return ok && g.Desired > m.From && g.Max == g.Desired
}

// mayStay reports whether a tag may stay: what the user has set, and what the documentation says to stay.
func (j *judge) mayStay(key, value string, reached bool) bool {
	switch {
	case key == refresh.WaveTag:
		return true
	case key == refresh.FailedTag: // Only a watch, or a user, removes it.
		return slices.ContainsFunc(j.w.spec.Runs, func(r Run) bool { return r.Command == Watch })
	case strings.HasPrefix(key, refresh.StandbyTag):
		then := j.w.spec.Options.Then
		kept := then == refresh.ThenKeep || then == refresh.ThenStop
		entries := strings.Fields(value)
		isKept := func(entry string) bool { return strings.HasSuffix(entry, "=kept") }
		return !reached || kept && !slices.ContainsFunc(entries, func(e string) bool { return !isKept(e) })
	}
	return false
}

func (j *judge) sizeRestored(g *group, now types.AutoScalingGroup) {
	desired, most := int(*now.DesiredCapacity), int(*now.MaxSize)
	if g.Nodegroup {
		by, err := j.w.aws.Raised(clusterName, g.Name)
		if err != nil {
			j.violate("capacity restored", "%v", err)
		}
		if by > 0 {
			j.leftByEKS(g, desired, most, by)
			return
		}
	}
	if desired < g.low || desired > g.high {
		j.violate("capacity restored", "%s has the desired capacity %d; others have asked for %d to %d", g.Name, desired,
			g.low, g.high)
	}
	if most != g.most && desired <= g.most && (!g.maxes[most] || len(g.maxes) == 1) {
		j.violate("capacity restored", "%s has the maximum size %d; others have set %d", g.Name, most, g.most)
	}
}

// leftByEKS checks the sizes of a node group that EKS has not brought back to its original size.
func (j *judge) leftByEKS(g *group, desired, most, by int) {
	if desired < g.low || desired > g.high+by || most > g.most+by {
		j.violate("capacity restored", "%s has the desired capacity %d and the maximum %d; others have asked for %d to %d "+
			"and set %d, and EKS has left %d more", g.Name, desired, most, g.low, g.high, g.most, by)
	}
}

func (j *judge) instanceRestored(g *group, i types.Instance, reached bool, tags []types.TagDescription) {
	id := *i.InstanceId
	if *i.ProtectedFromScaleIn && !g.user[id] {
		j.violate("nothing left", "%s of %s is protected from scale in", id, g.Name)
	}
	standby := i.LifecycleState == types.LifecycleStateStandby
	listed := slices.ContainsFunc(tags, func(t types.TagDescription) bool {
		return strings.HasPrefix(*t.Key, refresh.StandbyTag) && strings.Contains(*t.Value, id)
	})
	if standby && !g.user[id] && !listed {
		j.violate("nothing left", "%s of %s is in Standby, and no tag lists it", id, g.Name)
	}
	leaves := strings.HasPrefix(string(i.LifecycleState), "Terminating")
	if node, ok := j.w.nodes.of(id); ok && reached && !standby && !leaves && (node.Tainted || node.DrainRequested) {
		j.violate("nothing left", "the node of %s is tainted: %t; its drain is requested: %t", id, node.Tainted,
			node.DrainRequested)
	}
}
