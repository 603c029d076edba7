package report

import (
	"cmp"

	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// textReporter writes for people without a terminal: for pipes, files and CI. It writes a line for each
// change, one a minute without changes as long as Show is called, and the outcome of each group at the end.
// It writes no control characters.
type textReporter struct {
	*writer
	changeTracker
	tables int // of nodes that it has written
}

// Plan writes tables of the outdated instances and the findings, and a summary.
func (t *textReporter) Plan(plans []Plan, _ int) {
	t.lines(planLines(plans, 0)...)
	t.lines(planTotal(plans, 0)...)
}

// Status writes a paragraph for each group.
func (t *textReporter) Status(r Rollout) { t.lines(statusLines(r)...) }

// Note writes a line.
func (t *textReporter) Note(group string, n Note) {
	c := change{at: n.At, group: Group{Name: cmp.Or(group, "watch")}, kind: kindNote, level: n.Level, text: n.Text}
	t.lines(c.line())
}

// Show writes the changes.
func (t *textReporter) Show(r Rollout) { t.report(t.next(r)) }

func (t *textReporter) report(found []change) {
	for _, c := range found {
		t.lines(c.line())
	}
}

// End writes the last changes, and the outcome of each group.
func (t *textReporter) End(r Rollout) {
	t.report(t.final(r))
	t.lines(endLines(r, 0)...)
}

// line returns the change as one line: time, group, text.
func (c change) line() line {
	l := line{{faint, c.at.Format("15:04:05")}, {plain, " " + c.group.Name + "  "}, {styleOf(c.level), c.text}}
	if c.kind == kindNote && c.level != refresh.OK {
		l[2].text = string(c.level) + ": " + c.text
	}
	return l
}

// endLines returns the outcome of each group, its message, and how long it took. Lines are wrapped to cells;
// 0 is no limit.
func endLines(r Rollout, cells int) []line {
	var all []line
	for _, g := range r.Groups {
		style := styleOf(g.Outcome.level())
		if g.Outcome.isSuccess() {
			style = green
		}
		all = append(all, plainLine(), line{{bold, g.Name + ": "}, {style, string(g.Outcome)}})
		if g.Message != "" {
			all = append(all, paragraph(2, plain, g.Message, cells)...)
		}
		all = append(all, paragraph(2, plain, r.closing(g), cells)...)
	}
	return all
}

// closing describes how many instances were replaced and how long that took.
func (r Rollout) closing(g Group) string {
	return joinNonEmpty(", ", g.replaced(), "took "+formatDuration(r.duration(g)), retainedText(g))
}
