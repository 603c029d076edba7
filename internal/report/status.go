package report

import (
	"fmt"
	"io"

	"github.com/node-drainer/node-drainer/internal/text"
)

type statusLine struct {
	head
	Status Group `json:"status"`
}

// WriteStatus writes the status of the newest refresh of each group: as text (FormatText, FormatAuto or
// empty), as one Rollout (FormatJSON), or as a line {"at", "group", "type": "status", "status": Group} for
// each group (FormatNDJSON). It returns the first error of writing.
func WriteStatus(w io.Writer, format string, r Rollout) error {
	s := &writer{out: w}
	switch format {
	case "", FormatAuto, FormatText:
		s.lines(statusLines(r), false)
	case FormatJSON:
		s.object(r.withLists(), jsonIndent)
	case FormatNDJSON:
		for _, g := range r.withLists().Groups {
			s.object(statusLine{head{r.At, g.Name, typeStatus}, g}, "")
		}
	default:
		return unknownFormat(format)
	}
	return s.Err()
}

func statusLines(r Rollout) []line {
	var all []line
	for n, g := range r.Groups {
		if n > 0 {
			all = append(all, plainLine())
		}
		all = append(all, plainLine(g.Name, ": ", g.newestRefresh()))
		for _, part := range []string{
			g.Reason, g.Message, prefixed("target: ", g.Target),
			fmt.Sprintf("%s: %s", text.Count(len(g.Instances), "instance"), g.counts()), retainedText(g),
		} {
			if part != "" {
				all = append(all, plainLine("  ", part))
			}
		}
		for _, i := range g.find(Instance.draining) {
			all = append(all, plainLine("  ", i.describe()))
		}
	}
	return all
}

// newestRefresh describes the status of the group's newest refresh.
func (g Group) newestRefresh() string {
	if g.Refresh == "" {
		return "no instance refresh is known"
	}
	return fmt.Sprintf("instance refresh %s %s, %d %%", g.Refresh, g.Status, g.Percent)
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

func prefixed(prefix, value string) string {
	if value == "" {
		return ""
	}
	return prefix + value
}
