package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/node-drainer/node-drainer/internal/cluster"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// draining reports whether the instance's node may still be drained.
func (i Instance) draining() bool { return refresh.Instance{State: i.State}.Draining() }

func (i Instance) inService() bool { return refresh.Instance{State: i.State}.InService() }

func (i Instance) terminating() bool { return refresh.Instance{State: i.State}.Terminating() }

func (i Instance) retained() bool { return refresh.Instance{State: i.State}.Retained() }

// blocked reports whether the agent has reported that the drain of the instance's node is blocked.
func (i Instance) blocked() bool {
	return i.Node != nil && isBlocked(i.Node.Drain)
}

// isBlocked reports whether a drain that the agent has reported is blocked.
func isBlocked(d *cluster.Drain) bool { return d != nil && !d.Done && d.Reason != "Draining" }

// drainMessage returns the agent's message about the drain of the instance's node, or that no agent has marked it, or
// empty.
func (i Instance) drainMessage() string {
	switch {
	case i.Node == nil:
		return ""
	case i.Node.Drain != nil:
		return i.Node.Drain.Message
	case i.draining() && !i.Node.Marked:
		return "no agent has marked the node yet; is one running?"
	}
	return ""
}

func (i Instance) nodeName() string {
	if i.Node == nil {
		return ""
	}
	return i.Node.Name
}

// describe returns the state of the instance, its node, and the progress of the drain.
func (i Instance) describe() string {
	words := i.ID + " " + i.State
	if node := i.nodeName(); node != "" {
		words += " (node " + node + ")"
	}
	if drain := i.drainMessage(); drain != "" && i.terminating() {
		words += ": " + drain
	}
	return words
}

// states counts the group's instances by their lifecycle state.
func (g Group) states() map[string]int {
	counts := map[string]int{}
	for _, i := range g.Instances {
		counts[i.State]++
	}
	return counts
}

// counts describes how many of the group's instances are in each state, those in service first.
func (g Group) counts() string {
	states := g.states()
	names := slices.Sorted(maps.Keys(states))
	sortFirst(names, func(state string) bool { return state == "InService" })
	var words []string
	for _, state := range names {
		words = append(words, fmt.Sprintf("%d %s", states[state], state))
	}
	if unhealthy := g.find(func(i Instance) bool { return i.Unhealthy }); len(unhealthy) > 0 {
		words = append(words, fmt.Sprintf("%d unhealthy", len(unhealthy)))
	}
	if len(words) == 0 {
		return "no instances"
	}
	return strings.Join(words, ", ")
}

// sortFirst moves the elements that match to the front. Otherwise the order stays.
func sortFirst[T any](all []T, match func(T) bool) {
	rank := func(element T) int {
		if match(element) {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(all, func(a, b T) int { return rank(a) - rank(b) })
}

// find returns the group's instances that match.
func (g Group) find(match func(Instance) bool) []Instance {
	var found []Instance
	for _, i := range g.Instances {
		if match(i) {
			found = append(found, i)
		}
	}
	return found
}

func (g Group) progress() string {
	gone := fmt.Sprintf("%d of %d old instances gone", g.Gone, g.Total)
	if g.Mode == refresh.ModeRefresh {
		gone += fmt.Sprintf("; AWS says %d %%", g.Percent)
	}
	return gone
}

// duration returns how long the group's rollout has taken.
func (r Rollout) duration(g Group) time.Duration {
	return cmp.Or(g.Ended, r.At).Sub(r.Started)
}

// formatDuration rounds a duration for people: 42s, 4m12s, 1h05m.
func formatDuration(d time.Duration) string {
	d = max(d, 0).Round(time.Second)
	hours, minutes, seconds := int(d.Hours()), int(d.Minutes())%60, int(d.Seconds())%60
	switch {
	case hours > 0:
		return fmt.Sprintf("%dh%02dm", hours, minutes)
	case minutes > 0:
		return fmt.Sprintf("%dm%02ds", minutes, seconds)
	}
	return fmt.Sprintf("%ds", seconds)
}

// joinNonEmpty joins the parts that are not empty.
func joinNonEmpty(separator string, parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), separator)
}
