package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// planLines tells of plans as a person reads them: a table of the instances that are outdated, what the
// preflight found, and a sentence for each group. Instances that are up to date are counted. Lines are broken
// after that many cells; 0 is no limit.
func planLines(plans []Plan, cells int) []line {
	var all []line
	for _, p := range plans {
		all = append(all, p.lines(cells)...)
	}
	return all
}

func (p Plan) lines(cells int) []line {
	if p.outdated() == 0 && !p.alarming() {
		return []line{text(p.sentence())}
	}
	all := []line{{{bold, p.Group}, {plain, " (mode " + string(p.Mode) + ")"}}}
	if p.Target != "" {
		all = append(all, paragraph(2, plain, "target: "+p.Target, cells)...)
	}
	if p.Active != "" {
		all = append(all, paragraph(2, yellow, "instance refresh "+p.Active+" is under way", cells)...)
	}
	all = append(all, text())
	if p.outdated() > 0 {
		rows := p.rows()
		all = append(all, indented(table(rows, max(cells-2, 0)))...)
		if more := len(p.Instances) - (len(rows) - 1); more > 0 {
			all = append(all, aside(fmt.Sprintf("  %s up to date", count(more, "more instance"))))
		}
		all = append(all, text())
	}
	if len(p.Findings) > 0 {
		all = append(all, indented(table(p.findingRows(), max(cells-2, 0)))...)
		all = append(all, text())
	}
	return append(all, line{{bold, p.sentence()}}, text())
}

func indented(lines []line) []line {
	for n := range lines {
		lines[n] = append(text("  "), lines[n]...)
	}
	return lines
}

// outdated is how many instances are outdated, whether they will be replaced or not.
func (p Plan) outdated() int { return p.Outdated + p.Kept }

// alarming tells whether the preflight found anything that is not well.
func (p Plan) alarming() bool {
	return slices.ContainsFunc(p.Findings, func(f refresh.Finding) bool { return f.Level != refresh.OK })
}

// rows are the outdated instances, and those that would be kept, below the names of the columns.
func (p Plan) rows() [][]span {
	shown := slices.DeleteFunc(slices.Clone(p.Instances), func(i Planned) bool {
		return !i.Outdated && len(i.Kept) == 0
	})
	nodes := slices.ContainsFunc(shown, func(i Planned) bool { return i.Node != nil || i.Load != nil })
	rows := [][]span{headings(nodes)}
	for _, i := range shown {
		row := cells(i.ID, i.Zone, i.Type, i.State)
		if nodes {
			row = append(row, i.nodeCells()...)
		}
		rows = append(rows, append(row, i.verdict()))
	}
	return rows
}

func headings(nodes bool) []span {
	names := cells("INSTANCE", "ZONE", "TYPE", "STATE")
	if nodes {
		names = append(names, cells("NODE", "READY", "PODS")...)
	}
	return append(names, span{plain, "VERDICT"})
}

// cells are cells of a table; what is empty is shown as a dash.
func cells(texts ...string) []span {
	var row []span
	for _, text := range texts {
		row = append(row, span{plain, cmp.Or(text, "-")})
	}
	return row
}

// nodeCells are the cells NODE, READY and PODS.
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

// verdict says what becomes of the instance and why, and which disruption budgets allow nothing on its node.
func (i Planned) verdict() span {
	var parts []string
	style := plain
	if i.Outdated {
		parts = append(parts, joined(": ", "outdated", joined(", ", reasonTexts(i.Reasons)...)))
	}
	if len(i.Kept) > 0 {
		style = yellow
		parts = append(parts, "kept: "+joined(", ", reasonTexts(i.Kept)...))
	}
	if i.Load != nil && len(i.Load.Blocking) > 0 {
		style = yellow
		parts = append(parts, "no disruption allowed by "+strings.Join(i.Load.Blocking, ", "))
	}
	return span{style, joined("; ", parts...)}
}

func reasonTexts(reasons []refresh.Reason) []string {
	var texts []string
	for _, r := range reasons {
		texts = append(texts, cmp.Or(r.Text, string(r.Code)))
	}
	return texts
}

// findingRows are what the preflight found, the gravest first.
func (p Plan) findingRows() [][]span {
	var rows [][]span
	for _, level := range []refresh.Level{refresh.Refuse, refresh.Warn, refresh.OK} {
		for _, f := range p.Findings {
			if f.Level == level {
				rows = append(rows, []span{{styleOf(level), string(level)}, {plain, f.Check}, {plain, f.Text}})
			}
		}
	}
	return rows
}

// styleOf is how text of the level looks.
func styleOf(level refresh.Level) style {
	switch level {
	case refresh.Refuse:
		return red
	case refresh.Warn:
		return yellow
	}
	return plain
}

// sentence says how many of the group's instances are outdated.
func (p Plan) sentence() string {
	return p.Group + ": " + tally(len(p.Instances), p.Outdated, p.Kept)
}

// tally says how many of some instances are outdated, and how many of these will not be replaced.
func tally(all, replaced, kept int) string {
	said := fmt.Sprintf("%d of %d instances %s outdated", replaced+kept, all, are(replaced+kept))
	if kept > 0 {
		said += fmt.Sprintf(": %d will be replaced, %d kept", replaced, kept)
	}
	return said + "."
}

// planTotal is a sentence for all groups together, if there are several.
func planTotal(plans []Plan) []line {
	if len(plans) == 1 {
		return nil
	}
	instances, replaced, kept := 0, 0, 0
	for _, p := range plans {
		instances, replaced, kept = instances+len(p.Instances), replaced+p.Outdated, kept+p.Kept
	}
	return []line{{{bold, "In " + count(len(plans), "group") + ": " + tally(instances, replaced, kept)}}}
}
