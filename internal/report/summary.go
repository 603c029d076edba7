package report

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/node-drainer/node-drainer/internal/text"
)

// Summary returns the outcome of a rollout as Markdown, for a file or the step summary of GitHub Actions: a
// headline, and a table for each group.
func Summary(r Rollout) string {
	var b strings.Builder
	b.WriteString(headline(r) + "\n")
	for _, g := range r.Groups {
		fmt.Fprintf(&b, "\n### %s: %s\n\n", escape(g.Name), escape(string(g.Outcome)))
		if g.Message != "" {
			b.WriteString(escape(g.Message) + "\n\n")
		}
		b.WriteString("| | |\n|---|---|\n")
		for _, row := range r.facts(g) {
			if row[1] != "" {
				fmt.Fprintf(&b, "| %s | %s |\n", row[0], escape(row[1]))
			}
		}
		if len(g.Notes) > 0 {
			b.WriteString("\n")
		}
		for _, n := range g.Notes {
			fmt.Fprintf(&b, "- %s %s: %s\n", n.At.Format("15:04:05"), escape(string(n.Level)), escape(n.Text))
		}
	}
	return b.String()
}

// PlanSummary returns a plan as Markdown, a line for each group.
func PlanSummary(plans []Plan) (lines string) {
	for _, p := range plans {
		lines += "- " + escape(p.summary()) + "\n"
	}
	return lines
}

// StatusSummary returns the status of the newest refresh of each group as Markdown, a line for each group.
func StatusSummary(r Rollout) (lines string) {
	for _, g := range r.Groups {
		status := joinNonEmpty("; ", g.newestRefresh(), g.Reason, g.counts(), retainedText(g))
		lines += "- " + escape(g.Name+": "+status) + "\n"
	}
	return lines
}

// FailureSummary returns as Markdown why no rollout was started.
func FailureSummary(failed error) string {
	return "**trigger failed**: " + escape(failed.Error()) + "\n"
}

// headline returns the outcome on one line: worst outcome, instances, groups, time.
func headline(r Rollout) string {
	gone, total := 0, 0
	var names []string
	for _, g := range r.Groups {
		gone, total = gone+g.Gone, total+g.Total
		names = append(names, fmt.Sprintf("%s: %s", escape(g.Name), escape(string(g.Outcome))))
	}
	in := ""
	switch {
	case len(r.Groups) == 1:
		in = " in " + escape(r.Groups[0].Name)
	case len(r.Groups) > 1:
		in = fmt.Sprintf(" in %d groups (%s)", len(r.Groups), text.First(names, 5))
	}
	replaced := fmt.Sprintf("%d of %d outdated instances replaced", gone, total)
	if total == 0 {
		replaced = "no instance replaced"
	}
	return fmt.Sprintf("**%s**: %s%s, %s", Worst(r.Groups), replaced, in, formatDuration(r.At.Sub(r.Started)))
}

// facts returns the rows of a group's table. Those without a value are left out.
func (r Rollout) facts(g Group) [][2]string {
	operation, update := g.Mode.Operation(), joinNonEmpty(", ", joinNonEmpty(" ", g.Refresh, g.Status), g.Reason)
	if g.Attached {
		update += " (it was active before)"
	}
	return [][2]string{
		{"Mode", string(g.Mode)},
		{"Target", g.Target},
		{strings.ToUpper(operation[:1]) + operation[1:], update},
		{"Replaced", g.replaced()},
		{"Instances", g.counts()},
		{"Retained", retainedText(g)},
		{"Took", formatDuration(r.duration(g))},
	}
}

// replaced describes how many of the old instances are replaced.
func (g Group) replaced() string {
	if g.Total == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d old instances gone", g.Gone, g.Total)
}

// linked is what GitHub makes a link of, although Markdown has none there.
// Source: https://github.github.com/gfm/#autolinks-extension-.
var linked = regexp.MustCompile(`(?i)(www)(\.)|()(://)`)

// escape returns the text for Markdown, unformatted, without links and on one line.
func escape(content string) string {
	var b strings.Builder
	for _, r := range text.Clean(content) {
		if strings.ContainsRune("\\`*_[]<>#|&~$!@", r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return linked.ReplaceAllString(b.String(), `$1$3\$2$4`)
}
