package report

import (
	"fmt"
	"io"
)

type statusLine struct {
	head
	Status Group `json:"status"`
}

// WriteStatus writes how the newest refresh of each group stands: as text (FormatText, FormatAuto or empty),
// as one Rollout (FormatJSON), or as a line {"at", "group", "type": "status", "status": Group} for each group
// (FormatNDJSON). It returns the first error of writing.
func WriteStatus(w io.Writer, format string, r Rollout) error {
	s := &sink{out: w}
	switch format {
	case "", FormatAuto, FormatText:
		s.lines(statusLines(r), false)
	case FormatJSON:
		s.object(r.whole(), jsonIndent)
	case FormatNDJSON:
		for _, g := range r.whole().Groups {
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
			all = append(all, text())
		}
		all = append(all, text(g.Name, ": ", g.newest()))
		for _, part := range []string{
			g.Reason, g.Message, prefixed("target: ", g.Target),
			fmt.Sprintf("%s: %s", count(len(g.Instances), "instance"), g.counts()), retainedText(g),
		} {
			if part != "" {
				all = append(all, text("  ", part))
			}
		}
		for _, i := range g.find(Instance.draining) {
			all = append(all, text("  ", i.describe()))
		}
	}
	return all
}

// newest says how the group's newest refresh stands.
func (g Group) newest() string {
	if g.Refresh == "" {
		return "no instance refresh is known"
	}
	return fmt.Sprintf("instance refresh %s %s, %d %%", g.Refresh, g.Status, g.Percent)
}

// retainedText names the instances that are kept although their termination was abandoned, and what to do
// about them.
func retainedText(g Group) string {
	kept := g.find(Instance.retained)
	if len(kept) == 0 {
		return ""
	}
	const most = 10
	var names []string
	for _, i := range kept[:min(len(kept), most)] {
		names = append(names, i.ID)
	}
	if more := len(kept) - most; more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return fmt.Sprintf("%s retained, to be looked at and terminated by hand: %s",
		count(len(kept), "instance"), joined(", ", names...))
}

func prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}
