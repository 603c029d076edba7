package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/node-drainer/node-drainer/internal/text"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// githubReporter is a textReporter for a workflow of GitHub Actions. Its writer escapes lines. It also writes
// warnings, errors and outcomes as annotations, and the plan as a group that can be folded.
//
// Other notes are not annotations, because GitHub shows only ten of a kind for each step. Source: Workflow
// commands for GitHub Actions, and the limits of annotations, in the documentation of GitHub Actions.
type githubReporter struct{ textReporter }

// Plan writes the plan as a group, and its findings as annotations.
func (g *githubReporter) Plan(plans []Plan, _ int) {
	g.command("group", "", "Plan")
	g.lines(planLines(plans, 0)...)
	g.command("endgroup", "", "")
	g.lines(planTotal(plans, 0)...)
	for _, p := range plans {
		if len(plans) == 1 {
			g.lines(plainLine(p.summary()))
		}
		for _, f := range p.Findings {
			g.annotate(f.Level, p.Group+": "+f.Check, f.Text)
		}
	}
}

// Changed writes a line, and an annotation for a note.
func (g *githubReporter) Changed(c Change) {
	g.textReporter.Changed(c)
	if c.Kind == KindNote {
		g.annotate(c.Level, c.Group.Name, c.Text)
	}
}

// End writes the outcome of each group, also as annotations.
func (g *githubReporter) End(r Rollout) {
	g.textReporter.End(r)
	for _, group := range r.Groups {
		title := joinNonEmpty(": ", group.Name, string(group.Outcome))
		message := joinNonEmpty(" ", group.Message, r.closing(group))
		if group.Outcome.isSuccess() {
			g.command("notice", title, message)
			continue
		}
		g.annotate(group.Outcome.level(), title, message)
	}
}

// annotate writes a warning or an error, and nothing for OK.
func (g *githubReporter) annotate(level refresh.Level, title, message string) {
	if name := map[refresh.Level]string{refresh.Refuse: "error", refresh.Warn: "warning"}[level]; name != "" {
		g.command(name, title, message)
	}
}

// command writes a workflow command.
func (g *githubReporter) command(name, title, message string) {
	if title != "" {
		name += " title=" + escapeProperty(title)
	}
	g.write(fmt.Sprintf("::%s::%s\n", name, escapeData(message)))
}

// Lines returns a writer that makes a line of each text written to it: without control characters, and no workflow
// command. The runner looks for these in stderr, too.
func Lines(out io.Writer) io.Writer { return lineWriter{out} }

type lineWriter struct{ out io.Writer }

func (w lineWriter) Write(p []byte) (int, error) {
	line := escapeCommand(text.Clean(strings.TrimSuffix(string(p), "\n")))
	_, err := io.WriteString(w.out, line+"\n")
	return len(p), err
}

// escapeData escapes the data of a workflow command. Source: @actions/core, which does the same.
func escapeData(data string) string {
	return text.Clean(strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(data))
}

// escapeProperty escapes the value of a property of a workflow command. Source: @actions/core.
func escapeProperty(value string) string {
	return strings.NewReplacer(":", "%3A", ",", "%2C").Replace(escapeData(value))
}

// escapeCommand returns the line so that it is no workflow command, because names and reasons come from others.
// The runner treats a line as a command if it begins with two colons, after white space, or contains ##[.
func escapeCommand(line string) string {
	line = strings.ReplaceAll(line, "##[", "## [")
	if strings.HasPrefix(strings.TrimLeft(line, " "), "::") {
		line = strings.Replace(line, "::", ": :", 1)
	}
	return line
}
