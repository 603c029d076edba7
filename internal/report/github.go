package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// github writes what Text writes, and workflow commands.
type github struct {
	*textReporter
	raw *sink // What is written here may be a workflow command.
}

// GitHub returns a Reporter like Text for a workflow of GitHub Actions: findings and notes that are not well,
// and outcomes, are annotations besides, and the plan can be folded.
//
// Other notes are none: GitHub shows ten annotations of a kind for each step. Source: Workflow commands for
// GitHub Actions, and the limits of annotations, in the documentation of GitHub Actions.
func GitHub(w io.Writer) Reporter {
	raw := &sink{out: w}
	return &github{textReporter: newText(&sink{out: inert{raw}}), raw: raw}
}

// Plan writes the plan in a fold, and its findings as annotations.
func (g *github) Plan(plans []Plan) error {
	g.command("group", "", "Plan")
	g.lines(planLines(plans, 0), false)
	g.command("endgroup", "", "")
	g.lines(planTotal(plans), false)
	for _, p := range plans {
		if len(plans) == 1 {
			g.lines([]line{text(p.sentence())}, false)
		}
		for _, f := range p.Findings {
			g.annotate(f.Level, p.Group+": "+f.Check, f.Text)
		}
	}
	return g.Err()
}

// Show writes what is new, and annotations of notes.
func (g *github) Show(r Rollout) { g.tell(g.next(r)) }

// End writes what is new and how each group ended, the latter as annotations too.
func (g *github) End(r Rollout) {
	g.tell(g.final(r))
	g.lines(endLines(r, 0), false)
	for _, group := range r.Groups {
		title := joined(": ", group.Name, string(group.Outcome))
		message := joined(" ", group.Message, r.closing(group))
		if group.Outcome.good() {
			g.command("notice", title, message)
			continue
		}
		g.annotate(group.Outcome.level(), title, message)
	}
}

func (g *github) tell(found []change) {
	g.textReporter.tell(found)
	for _, c := range found {
		if c.kind == kindNote {
			g.annotate(c.level, c.group.Name, c.text)
		}
	}
}

// annotate writes a warning or an error; what is well needs neither.
func (g *github) annotate(level refresh.Level, title, message string) {
	switch level {
	case refresh.Refuse:
		g.command("error", title, message)
	case refresh.Warn:
		g.command("warning", title, message)
	case refresh.OK:
	}
}

// command writes a workflow command.
func (g *github) command(name, title, message string) {
	if title != "" {
		name += " title=" + escapeProperty(title)
	}
	g.raw.write(fmt.Sprintf("::%s::%s\n", name, escapeData(message)))
}

// Err returns the first error of writing.
func (g *github) Err() error { return g.raw.err }

// escapeData escapes what stands behind a workflow command. Source: @actions/core, which does the same.
func escapeData(text string) string {
	return clean(strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(text))
}

// escapeProperty escapes a value of a workflow command's property. Source: as of escapeData.
func escapeProperty(text string) string {
	return strings.NewReplacer(":", "%3A", ",", "%2C").Replace(escapeData(text))
}

// inert writes lines so that none of them is a workflow command: a name or a reason must not give one. The
// runner takes a line for one that begins with two colons behind white space, or that has ##[ anywhere.
type inert struct{ out *sink }

// Write writes whole lines, as sink.lines gives them.
func (i inert) Write(lines []byte) (int, error) {
	for l := range strings.Lines(string(lines)) {
		l = strings.ReplaceAll(l, "##[", "## [")
		if rest := strings.TrimLeft(l, " "); strings.HasPrefix(rest, "::") {
			l = strings.Replace(l, "::", ": :", 1)
		}
		i.out.write(l)
	}
	if i.out.err != nil {
		return 0, i.out.err
	}
	return len(lines), nil
}
