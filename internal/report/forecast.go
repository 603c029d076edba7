package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/node-drainer/node-drainer/internal/text"
	"github.com/node-drainer/node-drainer/pkg/drain"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// Forecast is how the drain of a node would go if nothing changed before.
type Forecast struct {
	Pods     int      `json:"pods"`               // That must leave.
	Expected int      `json:"expectedSeconds"`    // If pods stop at once.
	Longest  int      `json:"longestSeconds"`     // If they need their grace periods.
	Waits    []string `json:"waitsFor,omitempty"` // For how long and for what then, the longest first.
	Forced   []string `json:"forced,omitempty"`   // NAMESPACE/NAME of pods that would be removed in spite of what holds them.
	Left     []string `json:"left,omitempty"`     // Of pods that would be left at the deadline.
}

// NewForecast returns the forecast for a report; nil if there is none.
func NewForecast(f *drain.Forecast) *Forecast {
	if f == nil {
		return nil
	}
	out := &Forecast{
		Pods: f.Pods, Expected: seconds(f.Expected.Took), Longest: seconds(f.Longest.Took),
		Forced: f.Expected.Forced, Left: f.Expected.Left,
	}
	for _, c := range f.Longest.Causes {
		if c.Took >= time.Second {
			out.Waits = append(out.Waits, fmt.Sprintf("%v %s", c.Took.Round(time.Second), waitText(c)))
		}
	}
	return out
}

// Span is how long the drain takes.
func (f *Forecast) Span() refresh.Span {
	return refresh.Span{
		Shortest: time.Duration(f.Expected) * time.Second, Longest: time.Duration(f.Longest) * time.Second,
	}
}

// Duration is how long a rollout takes that begins now.
type Duration struct {
	Shortest int `json:"shortestSeconds"`
	Longest  int `json:"longestSeconds"`
}

// NewDuration returns the duration for a report.
func NewDuration(s refresh.Span) *Duration { return &Duration{seconds(s.Shortest), seconds(s.Longest)} }

func seconds(d time.Duration) int { return int(d.Round(time.Second) / time.Second) }

// waitText returns what a drain would wait for.
func waitText(c drain.Cause) string {
	switch c.Reason {
	case drain.BlockedByBudget:
		return "PodDisruptionBudget " + c.Budget
	case drain.Misconfigured:
		return "PodDisruptionBudget " + c.Budget + ", which never allows a disruption"
	case drain.Terminating:
		return "the end of pods like " + c.Pod
	case drain.OptedOut, drain.WaitedFor:
		return "pods that are not evicted, like " + c.Pod
	case drain.EvictionDelayed:
		return "DRAIN_EVICTION_DELAY"
	case drain.Deregistering:
		return "DRAIN_LOAD_BALANCER_WAIT"
	}
	return string(c.Reason)
}

// mostWaits is how many reasons to wait a plan shows of each drain, and mostForced how many pods.
const mostWaits, mostForced = 2, 5

// drainLines returns a table of how the drains of outdated nodes would go, those that take longest first; nil without
// forecasts.
func (p Plan) drainLines(cells int) []line {
	planned := slices.DeleteFunc(slices.Clone(p.Instances), func(i Planned) bool { return i.Drain == nil })
	if len(planned) == 0 {
		return nil
	}
	slices.SortStableFunc(planned, func(a, b Planned) int { return b.Drain.Longest - a.Drain.Longest })
	rows := [][]span{{
		{plain, "DRAIN OF"}, {plain, "EXPECTED"}, {plain, "AT MOST"}, {plain, "WAITS FOR"},
	}}
	for _, i := range planned {
		rows = append(rows, []span{
			{plain, i.Node.Name}, {plain, clock(i.Drain.Expected)}, {plain, clock(i.Drain.Longest)}, i.Drain.waits(),
		})
	}
	return append(indented(table(rows, max(cells-2, 0))), plainLine())
}

// longestDrain says how long the longest expected drain takes, and which pods are removed by force; empty without
// forecasts.
func (p Plan) longestDrain() string {
	var longest Planned
	var forced []string
	for _, i := range p.Instances {
		if i.Drain == nil {
			continue
		}
		forced = append(forced, i.Drain.Forced...)
		if longest.Drain == nil || i.Drain.Expected > longest.Drain.Expected {
			longest = i
		}
	}
	if longest.Drain == nil {
		return ""
	}
	said := fmt.Sprintf("the longest drain is expected to take %s (%s)", clock(longest.Drain.Expected), longest.Node.Name)
	if d := p.Duration; d != nil {
		said = fmt.Sprintf("a rollout is expected to take between %s and %s, ", clock(d.Shortest), clock(d.Longest)) + said
	}
	if len(forced) > 0 {
		slices.Sort(forced)
		said += "; by force at the end of drains: " + text.First(forced, mostForced)
	}
	return said
}

func clock(seconds int) string { return (time.Duration(seconds) * time.Second).String() }

func (f *Forecast) waits() span {
	style, parts := plain, f.Waits[:min(len(f.Waits), mostWaits)]
	if len(f.Forced) > 0 {
		style = yellow
		parts = append(slices.Clone(parts), "by force at the end: "+text.First(f.Forced, mostForced))
	}
	if len(f.Left) > 0 {
		style = yellow
		parts = append(slices.Clone(parts), "left at the end: "+text.First(f.Left, mostForced))
	}
	if len(parts) == 0 {
		return span{plain, "-"}
	}
	return span{style, strings.Join(parts, "; ")}
}
