package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// draining tells whether the instance's node may still have pods to move.
func (i Instance) draining() bool { return refresh.Instance{State: i.State}.Draining() }

func (i Instance) serving() bool { return refresh.Instance{State: i.State}.InService() }

func (i Instance) going() bool { return refresh.Instance{State: i.State}.Terminating() }

func (i Instance) retained() bool { return refresh.Instance{State: i.State}.Retained() }

// blocked tells whether the agent says that something holds the drain of the instance's node up.
func (i Instance) blocked() bool {
	return i.Node != nil && i.Node.Drain != nil && !i.Node.Drain.Done && i.Node.Drain.Reason != "Draining"
}

// drain is what the agent says of the drain of the instance's node, or empty.
func (i Instance) drain() string {
	if i.Node == nil || i.Node.Drain == nil {
		return ""
	}
	return i.Node.Drain.Message
}

// nodeName is the name of the instance's node, or empty.
func (i Instance) nodeName() string {
	if i.Node == nil {
		return ""
	}
	return i.Node.Name
}

// describe says what state the instance is in, on which node, and how far that is drained.
func (i Instance) describe() string {
	words := i.ID + " " + i.State
	if node := i.nodeName(); node != "" {
		words += " (node " + node + ")"
	}
	if drain := i.drain(); drain != "" && i.going() {
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

// counts says how many of the group's instances are in which state, those in service first.
func (g Group) counts() string {
	states := g.states()
	names := slices.Sorted(maps.Keys(states))
	slices.SortStableFunc(names, func(a, b string) int {
		return cmp.Compare(boolRank(a == "InService"), boolRank(b == "InService"))
	})
	var words []string
	for _, state := range names {
		words = append(words, fmt.Sprintf("%d %s", states[state], state))
	}
	unhealthy := 0
	for _, i := range g.Instances {
		unhealthy += 1 - boolRank(i.Unhealthy)
	}
	if unhealthy > 0 {
		words = append(words, fmt.Sprintf("%d unhealthy", unhealthy))
	}
	if len(words) == 0 {
		return "no instances"
	}
	return strings.Join(words, ", ")
}

// boolRank puts what is so before what is not.
func boolRank(first bool) int {
	if first {
		return 0
	}
	return 1
}

// find returns the group's instances for which something is so.
func (g Group) find(so func(Instance) bool) []Instance {
	var found []Instance
	for _, i := range g.Instances {
		if so(i) {
			found = append(found, i)
		}
	}
	return found
}

// percent is how much has been replaced: in a refresh what AWS says, else the share of the old instances that
// are gone.
func (g Group) percent() int {
	switch {
	case g.Mode == refresh.ModeRefresh:
		return g.Percent
	case g.Total == 0:
		return 0
	}
	return 100 * g.Gone / g.Total
}

// progress says how much has been replaced.
func (g Group) progress() string {
	return fmt.Sprintf("%d %% replaced: %d of %d old instances gone", g.percent(), g.Gone, g.Total)
}

// took is how long the group's rollout has gone on, or went on.
func (r Rollout) took(g Group) time.Duration {
	end := g.Ended
	if end.IsZero() {
		end = r.At
	}
	return end.Sub(r.Started)
}

// count is a number with its noun: 1 pod, 2 pods.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// are is the verb of so many things.
func are(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

// duration is a time in words that are not more exact than people need: 42s, 4m12s, 1h05m.
func duration(d time.Duration) string {
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

// blockedFirst is the order of draining instances: those first that something holds up.
func blockedFirst(a, b Instance) int { return boolRank(a.blocked()) - boolRank(b.blocked()) }

// joined puts what is not empty together.
func joined(separator string, parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), separator)
}
