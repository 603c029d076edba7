package report

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/node-drainer/node-drainer/internal/history"
	"github.com/node-drainer/node-drainer/internal/text"
)

// Stamp returns the time as records show it: in UTC, as in the log.
func Stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }

// historyLines returns a table of drains, and with details what became of the pods of each. Its lines are wrapped to so
// many cells; 0 is no limit.
func historyLines(drains []history.Drain, detailed bool, width int) (lines []line) {
	if len(drains) == 0 {
		return []line{plainLine("No drain is recorded yet.")}
	}
	rows := [][]span{cells(
		"NODE", "INSTANCE", "EVENT", "BEGAN", "TOOK", "EXPECTED", "DEADLINE", "OUTCOME", "PODS", "EVICTED", "DELETED", "LEFT",
	)}
	for _, d := range drains {
		rows = append(rows, historyRow(d))
	}
	lines = table(rows, width)
	if !detailed {
		return lines
	}
	for _, d := range drains {
		lines = append(lines, plainLine())
		lines = append(lines, recordLines(d, width)...)
	}
	return lines
}

func historyRow(d history.Drain) []span {
	outcome := span{plain, d.Outcome}
	if d.Left > 0 || d.Deleted > 0 {
		outcome.style = yellow
	}
	expected := "-"
	if !d.Expected.IsZero() {
		expected = formatDuration(d.Expected.Sub(d.Began))
	}
	row := cells(d.Node, cmp.Or(d.Instance, "-"), d.Event, Stamp(d.Began), formatDuration(d.Ended.Sub(d.Began)), expected,
		stampOrNone(d.Deadline))
	counts := cells(fmt.Sprint(d.Pods), fmt.Sprint(d.Evicted), fmt.Sprint(d.Deleted), fmt.Sprint(d.Left))
	return append(append(row, outcome), counts...)
}

func stampOrNone(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return Stamp(t)
}

// recordLines returns why a node was drained, and what became of its pods.
func recordLines(d history.Drain, width int) []line {
	lines := paragraph(0, bold, d.Node+", "+Stamp(d.Began)+": "+d.Cause, width)
	if d.Asked != "" {
		lines = append(lines, paragraph(0, plain, "Asked for by annotations of the Node: "+d.Asked, width)...)
	}
	if len(d.Details) > 0 {
		rows := [][]span{cells("POD", "WHEN", "HOW", "WHY", "BUDGETS")}
		for _, p := range d.Details {
			rows = append(rows, podRow(p))
		}
		lines = append(lines, table(rows, width)...)
	}
	if d.Omitted > 0 {
		lines = append(lines, faintLine("The record has no details of "+text.Count(d.Omitted, "pod")+"."))
	}
	return lines
}

func podRow(p history.Pod) []span {
	how := span{plain, cmp.Or(p.How, "left")}
	if p.How == "" || len(p.Bypassed) > 0 {
		how.style = yellow
	}
	why := joinNonEmpty("; ", p.Why, prefixed("on the node at the end: ", p.Left))
	budgets := joinNonEmpty("; ", prefixed("kept ", strings.Join(p.Budgets, ", ")),
		prefixed("bypassed ", strings.Join(p.Bypassed, ", ")))
	row := append(cells(p.Name, stampOrNone(p.At)), how)
	return append(row, cells(cmp.Or(why, "-"), cmp.Or(budgets, "-"))...)
}

// prefixed returns the text after a prefix, or nothing if it is empty.
func prefixed(prefix, content string) string {
	if content == "" {
		return ""
	}
	return prefix + content
}

// HistorySummary returns the drains as Markdown, a line for each.
func HistorySummary(drains []history.Drain) (lines string) {
	if len(drains) == 0 {
		return "- No drain is recorded yet.\n"
	}
	for _, d := range drains {
		lines += "- " + escape(fmt.Sprintf("%s, %s: %s, %d of %s left. %s", d.Node, Stamp(d.Began), d.Outcome, d.Left,
			text.Count(d.Pods, "pod"), d.Cause)) + "\n"
	}
	return lines
}

// History writes tables.
func (t *textReporter) History(drains []history.Drain, detailed bool) {
	t.lines(historyLines(drains, detailed, 0)...)
}

// History writes tables in the width of the terminal.
func (l *liveReporter) History(drains []history.Drain, detailed bool) {
	cols, _ := l.dimensions()
	l.lines(historyLines(drains, detailed, cols-1)...)
}

// historyDocument is the records of drains in JSON.
type historyDocument struct {
	Version int             `json:"version"`
	Drains  []history.Drain `json:"drains"` // The newest first.
}

// History writes the records with all that they have.
func (d *jsonReporter) History(drains []history.Drain, _ bool) {
	d.object(historyDocument{Version, append([]history.Drain{}, drains...)}, jsonIndent)
}

// drainLine is the record of one drain.
type drainLine struct {
	head
	Drain history.Drain `json:"drain"`
}

// History writes a line for each drain.
func (n *ndjsonReporter) History(drains []history.Drain, _ bool) {
	for _, d := range drains {
		n.object(drainLine{head{d.Ended, d.Group, "drain"}, d}, "")
	}
}
