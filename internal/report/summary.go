package report

import (
	"fmt"
	"io"
	"strings"
)

// Summary writes how a rollout ended as Markdown, for a file or the summary of a step in GitHub Actions. Its
// first line says it all; then there is a table for each group. It returns the first error of writing.
func Summary(w io.Writer, r Rollout) error {
	s := &sink{out: w}
	s.write(headline(r) + "\n")
	for _, g := range r.Groups {
		s.write(fmt.Sprintf("\n### %s: %s\n\n", escape(g.Name), escape(string(g.Outcome))))
		if g.Message != "" {
			s.write(escape(g.Message) + "\n\n")
		}
		s.write("| | |\n|---|---|\n")
		for _, row := range r.facts(g) {
			if row[1] != "" {
				s.write(fmt.Sprintf("| %s | %s |\n", row[0], escape(row[1])))
			}
		}
		s.write(notes(g))
	}
	return s.Err()
}

// PlanSummary writes a plan as Markdown, a line for each group. It returns the first error of writing.
func PlanSummary(w io.Writer, plans []Plan) error {
	s := &sink{out: w}
	for _, p := range plans {
		s.write("- " + escape(p.sentence()) + "\n")
	}
	return s.Err()
}

// StatusSummary writes how the newest refresh of each group stands as Markdown, a line for each group. It
// returns the first error of writing.
func StatusSummary(w io.Writer, r Rollout) error {
	s := &sink{out: w}
	for _, g := range r.Groups {
		s.write("- " + escape(g.Name+": "+joined("; ", g.newest(), g.Reason, g.counts(), retainedText(g))) + "\n")
	}
	return s.Err()
}

// FailureSummary writes as Markdown why there was no rollout. It returns the first error of writing.
func FailureSummary(w io.Writer, failed error) error {
	s := &sink{out: w}
	s.write("**trigger failed**: " + escape(failed.Error()) + "\n")
	return s.Err()
}

// notes is a list of what was done and found.
func notes(g Group) string {
	if len(g.Notes) == 0 {
		return ""
	}
	var b strings.Builder
	for _, n := range g.Notes {
		fmt.Fprintf(&b, "\n- %s %s: %s", n.At.Format("15:04:05"), escape(string(n.Level)), escape(n.Text))
	}
	return b.String() + "\n"
}

// headline says on one line how the rollout ended: worst outcome, instances, groups, time.
func headline(r Rollout) string {
	gone, total := 0, 0
	var names []string
	for _, g := range r.Groups {
		gone, total = gone+g.Gone, total+g.Total
		names = append(names, fmt.Sprintf("%s: %s", escape(g.Name), escape(string(g.Outcome))))
	}
	const most = 5
	if more := len(names) - most; more > 0 {
		names = append(names[:most], fmt.Sprintf("and %d more", more))
	}
	in := ""
	switch {
	case len(r.Groups) == 1:
		in = " in " + escape(r.Groups[0].Name)
	case len(r.Groups) > 1:
		in = fmt.Sprintf(" in %d groups (%s)", len(r.Groups), strings.Join(names, ", "))
	}
	replaced := fmt.Sprintf("%d of %d outdated instances replaced", gone, total)
	if total == 0 {
		replaced = "no instance replaced"
	}
	return fmt.Sprintf("**%s**: %s%s, %s", Worst(r.Groups), replaced, in, duration(r.At.Sub(r.Started)))
}

// facts are the rows of a group's table. Those without a value are left out.
func (r Rollout) facts(g Group) [][2]string {
	refresh := joined(", ", joined(" ", g.Refresh, g.Status), g.Reason)
	if g.Attached {
		refresh += " (it was under way before)"
	}
	return [][2]string{
		{"Mode", string(g.Mode)},
		{"Target", g.Target},
		{"Instance refresh", refresh},
		{"Replaced", g.replaced()},
		{"Instances", g.counts()},
		{"Retained", retainedText(g)},
		{"Took", duration(r.took(g))},
	}
}

// replaced says how many of the instances that were to go are gone.
func (g Group) replaced() string {
	if g.Total == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d old instances gone", g.Gone, g.Total)
}

// escape returns the text so that Markdown shows it as it is, on one line.
func escape(text string) string {
	var b strings.Builder
	for _, r := range clean(text) {
		if strings.ContainsRune("\\`*_[]<>#|&~$!@", r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}
