package report

import (
	"io"

	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// textReporter writes lines.
type textReporter struct {
	*sink
	follower
}

// Text returns a Reporter for people where nothing can be redrawn: pipes, files and CI. It writes a line for
// each change, one a minute where there is none, as long as Show is called, and at the end what became of
// each group. It writes no control characters.
func Text(w io.Writer) Reporter { return newText(&sink{out: w}) }

func newText(s *sink) *textReporter { return &textReporter{sink: s} }

// Plan writes tables of the outdated instances and the findings, and a summary.
func (t *textReporter) Plan(plans []Plan) error {
	t.lines(planLines(plans, 0), false)
	t.lines(planTotal(plans), false)
	return t.Err()
}

// Show writes what is new.
func (t *textReporter) Show(r Rollout) { t.tell(t.next(r)) }

func (t *textReporter) tell(found []change) {
	for _, c := range found {
		t.lines([]line{c.line()}, false)
	}
}

// End writes what is new, and then how each group ended.
func (t *textReporter) End(r Rollout) {
	t.tell(t.final(r))
	t.lines(endLines(r, 0), false)
}

// line is the change on one line: when, where, what.
func (c change) line() line {
	l := line{{faint, c.at.Format("15:04:05")}, {plain, " " + c.group.Name + "  "}, {styleOf(c.level), c.text}}
	if c.kind == kindNote && c.level != refresh.OK {
		l[2].text = string(c.level) + ": " + c.text
	}
	return l
}

// endLines are a block for each group: how it ended, what that means, and how long it took. Lines are broken
// after that many cells; 0 is no limit.
func endLines(r Rollout, cells int) []line {
	var all []line
	for _, g := range r.Groups {
		style := styleOf(g.Outcome.level())
		if g.Outcome.good() {
			style = green
		}
		all = append(all, text(), line{{bold, g.Name + ": "}, {style, string(g.Outcome)}})
		if g.Message != "" {
			all = append(all, paragraph(2, plain, g.Message, cells)...)
		}
		all = append(all, paragraph(2, plain, r.closing(g), cells)...)
	}
	return all
}

// closing says how many instances were replaced and how long that took.
func (r Rollout) closing(g Group) string {
	return joined(", ", g.replaced(), "took "+duration(r.took(g)), retainedText(g))
}
