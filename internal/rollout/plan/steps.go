package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/node-drainer/node-drainer/internal/cluster"
	"github.com/node-drainer/node-drainer/internal/text"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// steps says what a rollout of the group sends, in its order, with the calls by their names in the API.
func (p Policy) steps(g refresh.Group, a Assessment, f refresh.Facts) []string {
	var all []string
	if active := f.Active; active != nil && !p.Config.Mode.InBatches() {
		name := p.Config.Mode.Operation() + " " + active.ID
		switch p.Config.OnConflict {
		case Attach:
			return []string{"follow " + name + ", which has the same target"}
		case CancelActive:
			all = append(all, "CancelInstanceRefresh "+active.ID)
		case Wait:
			all = append(all, "wait for the end of "+name)
		case Fail: // and so it is refused
		}
	}
	return append(append(all, p.preparations(a)...), p.replacement(g, a, f)...)
}

// preparations are the steps before the first replacement.
func (p Policy) preparations(a Assessment) (all []string) {
	if len(p.Config.Suspend) > 0 {
		all = append(all, "SuspendProcesses "+strings.Join(p.Config.Suspend, ", "))
	}
	if p.Config.Taints() {
		nodes := text.Count(len(a.Outdated()), "outdated node")
		all = append(all, fmt.Sprintf("taint %s: %s (%s)", nodes, cluster.OutdatedTaint, p.Config.Taint))
	}
	return all
}

// replacement are the steps by which the instances are replaced.
func (p Policy) replacement(g refresh.Group, a Assessment, f refresh.Facts) []string {
	switch p.Config.Mode {
	case refresh.ModeNodegroup:
		force := ""
		if g.Nodegroup != nil && g.Nodegroup.Force {
			force = ", with force"
		}
		return []string{"UpdateNodegroupVersion to " + a.Target.Text + force}
	case refresh.ModeRefresh:
		return []string{refreshStep(f)}
	case refresh.ModeStandby:
		return standbySteps(a.sequence(g, p.Config.Pace.Order), f)
	default:
		return unhealthySteps(g, a.sequence(g, p.Config.Pace.Order), f)
	}
}

// sequence returns the instances to be replaced, in the order in which they are taken in batches.
func (a Assessment) sequence(g refresh.Group, o refresh.Order) []string {
	return slices.DeleteFunc(refresh.Sequence(g, o), func(id string) bool { return !isToBeReplaced(a.Verdicts[id]) })
}

func refreshStep(f refresh.Facts) string {
	desired := "without a desired configuration"
	if f.Pin {
		desired = "with the desired configuration " + f.Target.Text
	}
	return fmt.Sprintf("StartInstanceRefresh %s: %s", desired, f.Preferences)
}

func unhealthySteps(g refresh.Group, outdated []string, f refresh.Facts) []string {
	surge := min(f.Surge, len(outdated))
	var all []string
	if surge > 0 {
		all = append(all, fmt.Sprintf("SetDesiredCapacity: from %d to %d", g.Desired, g.Desired+surge))
	}
	if marked := outdated[:len(outdated)-surge]; len(marked) > 0 {
		all = append(all, fmt.Sprintf("SetInstanceHealth Unhealthy, %d at a time: %s", f.Batch,
			text.First(marked, MostNames)))
	}
	if surge > 0 {
		all = append(all, fmt.Sprintf("TerminateInstanceInAutoScalingGroup with ShouldDecrementDesiredCapacity, "+
			"for the last %d", surge))
	}
	return all
}

func standbySteps(outdated []string, f refresh.Facts) []string {
	then := map[refresh.Then]string{
		refresh.ThenTerminate: "TerminateInstanceInAutoScalingGroup when the replacements are ready",
		refresh.ThenStop:      "drain their nodes when the replacements are ready, then StopInstances",
		refresh.ThenKeep:      "drain their nodes when the replacements are ready",
	}[f.Then]
	return []string{
		fmt.Sprintf("EnterStandby, %d at a time: %s", f.Batch, text.First(outdated, MostNames)), then,
	}
}
