package report

import (
	"fmt"

	"github.com/node-drainer/node-drainer/internal/text"
)

// statusLines returns the status of the newest refresh of each group for people.
func statusLines(r Rollout) []line {
	var all []line
	for n, g := range r.Groups {
		if n > 0 {
			all = append(all, plainLine())
		}
		all = append(all, plainLine(g.Name, ": ", g.newestRefresh()))
		target := g.Target
		if target != "" {
			target = "target: " + target
		}
		instances := text.Count(len(g.Instances), "instance") + ": " + g.counts()
		for _, part := range []string{g.Reason, g.Message, target, failedText(g), instances, retainedText(g)} {
			if part != "" {
				all = append(all, plainLine("  ", part))
			}
		}
		all = append(all, holdLines(g.Holds, 0)...)
		for _, i := range g.find(Instance.draining) {
			all = append(all, plainLine("  ", i.describe()))
		}
	}
	return all
}

// failedText says which target trigger watch does not try again, and what it waits for.
func failedText(g Group) string {
	if g.Failed == "" {
		return ""
	}
	return fmt.Sprintf("trigger watch does not try this target again: %s; it waits for another target, or for trigger "+
		"resume --asg %s", g.Failed, text.ShellWord(g.Name))
}

func (g Group) newestRefresh() string {
	if g.Refresh == "" {
		return "no " + g.Mode.Operation() + " is known"
	}
	return fmt.Sprintf("%s %s %s, %d %%", g.Mode.Operation(), g.Refresh, g.Status, g.Percent)
}

// retainedText names the retained instances, whose termination was abandoned, and says what to do.
func retainedText(g Group) string {
	kept := g.find(Instance.retained)
	if len(kept) == 0 {
		return ""
	}
	var ids []string
	for _, i := range kept {
		ids = append(ids, i.ID)
	}
	return fmt.Sprintf("%s retained, to be looked at and terminated by hand: %s",
		text.Count(len(kept), "instance"), text.First(ids, 10))
}
