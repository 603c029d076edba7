package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/node-drainer/node-drainer/internal/text"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// planLines returns plans for people: for each group a table of the outdated instances, the findings of the
// preflight, and a summary. It counts the other instances. Lines are wrapped to cells; 0 is no limit.
func planLines(plans []Plan, cells int) []line {
	var all []line
	for _, p := range plans {
		all = append(all, p.lines(cells)...)
	}
	return all
}

func (p Plan) lines(cells int) []line {
	if !p.IsDue() && !p.hasProblems() {
		return append(holdLines(p.Holds, cells), paragraph(0, plain, p.summary(), cells)...)
	}
	all := []line{{{bold, p.Group}, {plain, " (mode " + string(p.Mode) + ")"}}}
	if p.Target != "" {
		all = append(all, paragraph(2, plain, "target: "+p.Target, cells)...)
	}
	if p.Active != "" {
		all = append(all, paragraph(2, yellow, p.Mode.Operation()+" "+p.Active+" is active", cells)...)
	}
	if held := holdLines(p.Holds, cells); held != nil {
		all = append(append(all, plainLine()), held...)
	}
	all = append(all, plainLine())
	if p.outdated() > 0 {
		rows := p.rows()
		all = append(all, indented(table(rows, max(cells-2, 0)))...)
		if more := len(p.Instances) - (len(rows) - 1); more > 0 {
			all = append(all, faintLine(fmt.Sprintf("  %s up to date", text.Count(more, "more instance"))))
		}
		all = append(append(all, plainLine()), p.drainLines(cells)...)
	}
	if len(p.Findings) > 0 {
		all = append(all, indented(table(p.findingRows(), max(cells-2, 0)))...)
		all = append(all, plainLine())
	}
	for n, step := range p.Steps {
		if n == 0 {
			all = append(all, plainLine("  A run would do this:"))
		}
		all = append(all, paragraph(4, plain, fmt.Sprintf("%d. %s", n+1, step), cells)...)
	}
	if len(p.Steps) > 0 {
		all = append(all, plainLine())
	}
	return append(append(all, paragraph(0, bold, p.summary(), cells)...), plainLine())
}

func indented(lines []line) []line {
	for n := range lines {
		lines[n] = append(plainLine("  "), lines[n]...)
	}
	return lines
}

// outdated returns the number of outdated instances, replaced or kept.
func (p Plan) outdated() int { return p.Outdated + p.Kept }

// IsDue reports whether anything is outdated: instances, those that are kept included, or a managed node group.
func (p Plan) IsDue() bool { return p.outdated() > 0 || len(p.Reasons) > 0 }

// Expected returns how a run would end before it changes anything: Refused, Conflict, or Nothing where nothing is
// outdated. It is empty if the run would replace something.
func (p Plan) Expected() Outcome {
	switch {
	case slices.Equal(p.Refused, []string{refresh.CheckActive}):
		return Conflict
	case len(p.Refused) > 0:
		return Refused
	case !p.IsDue():
		return Nothing
	}
	return ""
}

// hasProblems reports whether the preflight found anything but OK.
func (p Plan) hasProblems() bool {
	return slices.ContainsFunc(p.Findings, func(f refresh.Finding) bool { return f.Level != refresh.OK })
}

// rows returns the headings, the outdated instances, and those that would be kept.
func (p Plan) rows() [][]span {
	shown := slices.DeleteFunc(slices.Clone(p.Instances), func(i Planned) bool {
		return !i.Outdated && len(i.Kept) == 0
	})
	nodes := slices.ContainsFunc(shown, func(i Planned) bool { return i.Node != nil || i.Load != nil })
	headings := cells("INSTANCE", "ZONE", "TYPE", "STATE")
	if nodes {
		headings = append(headings, cells("NODE", "READY", "PODS")...)
	}
	rows := [][]span{append(headings, span{plain, "VERDICT"})}
	for _, i := range shown {
		row := cells(i.ID, i.Zone, i.Type, i.State)
		if nodes {
			row = append(row, i.nodeCells()...)
		}
		rows = append(rows, append(row, i.verdict()))
	}
	return rows
}

// cells returns cells of a table; an empty text becomes a dash.
func cells(texts ...string) []span {
	var row []span
	for _, text := range texts {
		row = append(row, span{plain, cmp.Or(text, "-")})
	}
	return row
}

// nodeCells returns the cells NODE, READY and PODS.
func (i Planned) nodeCells() []span {
	name, ready, pods := span{yellow, "none"}, span{plain, "-"}, span{plain, "-"}
	if i.Node != nil {
		name, ready = span{plain, i.Node.Name}, span{yellow, "no"}
		if i.Node.Ready {
			ready = span{plain, "yes"}
		}
	}
	if i.Load != nil {
		pods.text = fmt.Sprint(i.Load.Pods)
	}
	return []span{name, ready, pods}
}

// verdict returns what would happen to the instance and why, and the budgets that block the drain of its
// node.
func (i Planned) verdict() span {
	var parts []string
	style := plain
	if i.Outdated {
		parts = append(parts, joinNonEmpty(": ", "outdated", joinNonEmpty(", ", reasonTexts(i.Reasons)...)))
	}
	if len(i.Kept) > 0 {
		style = yellow
		parts = append(parts, "kept: "+joinNonEmpty(", ", reasonTexts(i.Kept)...))
	}
	if i.Load != nil && len(i.Load.Blocking) > 0 {
		style = yellow
		parts = append(parts, "no disruption allowed by "+strings.Join(i.Load.Blocking, ", "))
	}
	return span{style, joinNonEmpty("; ", parts...)}
}

func reasonTexts(reasons []refresh.Reason) []string {
	var texts []string
	for _, r := range reasons {
		texts = append(texts, cmp.Or(r.Text, string(r.Code)))
	}
	return texts
}

// findingRows returns the findings of the preflight, the most severe first, and at the end the checks that passed.
func (p Plan) findingRows() [][]span {
	var rows [][]span
	var passed []string
	for _, level := range []refresh.Level{refresh.Refuse, refresh.Warn, refresh.OK} {
		for _, f := range p.Findings {
			switch {
			case f.Level != level:
			case level == refresh.OK:
				passed = append(passed, f.Check)
			default:
				rows = append(rows, []span{{styleOf(level), string(level)}, {plain, f.Check}, {plain, f.Text}})
			}
		}
	}
	if len(passed) > 0 {
		rows = append(rows, cells(string(refresh.OK), text.Count(len(passed), "check"), strings.Join(passed, ", ")))
	}
	return rows
}

func styleOf(level refresh.Level) style {
	return map[refresh.Level]style{refresh.OK: plain, refresh.Warn: yellow, refresh.Refuse: red}[level]
}

// summary returns how many of the group's instances are outdated, as a sentence.
func (p Plan) summary() string {
	said := p.Group + ": " + outdatedCount(len(p.Instances), p.Outdated, p.Kept)
	more := []string{p.Newer}
	if p.Outdated == 0 {
		more = append(more, reasonTexts(p.Reasons)...)
	}
	if len(p.Refused) > 0 {
		more = append(more, "a run would be refused: "+strings.Join(p.Refused, ", "))
	}
	more = append(more, p.longestDrain())
	for _, text := range more {
		if text != "" {
			said = strings.TrimSuffix(said, ".") + "; " + text + "."
		}
	}
	return said
}

// outdatedCount returns how many instances are outdated, and how many of these are kept, as a sentence.
func outdatedCount(all, replaced, kept int) string {
	verb := "are"
	if replaced+kept == 1 {
		verb = "is"
	}
	said := fmt.Sprintf("%d of %d instances %s outdated", replaced+kept, all, verb)
	if kept > 0 {
		said += fmt.Sprintf(": %d will be replaced, %d kept", replaced, kept)
	}
	return said + "."
}

// planTotal returns the summary of all groups, if there are several.
func planTotal(plans []Plan, cells int) []line {
	if len(plans) == 1 {
		return nil
	}
	instances, replaced, kept := 0, 0, 0
	var refused []string
	for _, p := range plans {
		instances, replaced, kept = instances+len(p.Instances), replaced+p.Outdated, kept+p.Kept
		if len(p.Refused) > 0 {
			refused = append(refused, p.Group)
		}
	}
	total := "In " + text.Count(len(plans), "group") + ", replaced in this order: " +
		outdatedCount(instances, replaced, kept)
	if len(refused) > 0 {
		total = strings.TrimSuffix(total, ".") + "; a run would be refused in " + text.First(refused, 5) + "."
	}
	return paragraph(0, bold, total, cells)
}
