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
	silence
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
	c := Change{At: n.At, Group: Group{Name: cmp.Or(group, "watch")}, Kind: KindNote, Level: n.Level, Text: n.Text}
	t.lines(c.line())
}

// Changed writes a line.
func (t *textReporter) Changed(c Change) {
	if c.Text == "" {
		return
	}
	t.written = true
	t.lines(c.line())
}

// Show writes the progress, after a minute without a line.
func (t *textReporter) Show(r Rollout) {
	for _, c := range t.due(r) {
		t.lines(c.line())
	}
}

// End writes the outcome of each group.
func (t *textReporter) End(r Rollout) { t.lines(endLines(r, 0)...) }

// line returns the change as one line: time, group, text.
func (c Change) line() line {
	l := line{{faint, c.At.Format("15:04:05")}, {plain, " " + c.Group.Name + "  "}, {styleOf(c.Level), c.Text}}
	if c.Kind == KindNote && c.Level != refresh.OK {
		l[2].text = string(c.Level) + ": " + c.Text
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
