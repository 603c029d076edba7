package report

import (
	"cmp"
	"fmt"
	"strings"
)

// Control sequences of ECMA-48 and DEC terminals, which all current terminals support.
const (
	hideCursor = "\x1b[?25l"
	showCursor = "\x1b[?25h"
	noWrap     = "\x1b[?7l"
	wrapLines  = "\x1b[?7h"
	clearLine  = "\x1b[K"
	clearBelow = "\x1b[J"
)

// Restore resets what a view changes while it is being written, for a program that stops in between.
const Restore = wrapLines + showCursor

const (
	defaultCols, defaultRows = 80, 24
	maxRecent                = 8 // Changes that are kept for the view.
)

// liveReporter writes to a terminal. Each call of Show redraws a view in place; call it once a second to
// update the elapsed time. End leaves the last view, followed by the outcome of each group. Nothing else may
// write to the terminal meanwhile. The cursor is hidden only while a view is being written, so that it is
// visible if the program is killed.
//
// It does not use a library for this: the layout of a frame is our own in any case, and draw, the only
// function that writes control sequences, is shorter than the code that would connect a library to a Reporter.
type liveReporter struct {
	textReporter
	size   func() (cols, rows int) // Called before each view; 0 is 80 columns and 24 rows.
	recent []Change
	drawn  []int // The widths of the lines of the frame on the terminal.
}

// Plan writes the plan in the width of the terminal, above the view.
func (l *liveReporter) Plan(plans []Plan, _ int) {
	cols, _ := l.dimensions()
	l.lines(planLines(plans, cols-1)...)
	l.lines(append(planTotal(plans, cols-1), plainLine())...)
}

// Changed keeps the change for the view.
func (l *liveReporter) Changed(c Change) {
	if c.Text == "" {
		return
	}
	l.recent = append(l.recent, c)
	l.recent = l.recent[max(len(l.recent)-maxRecent, 0):]
}

// Show draws the view.
func (l *liveReporter) Show(r Rollout) {
	cols, rows := l.dimensions()
	l.draw(frame(r, l.recent, cols, rows), cols, rows)
}

// End draws the last view, without changes, and the outcome of each group.
func (l *liveReporter) End(r Rollout) {
	cols, rows := l.dimensions()
	l.draw(frame(r, nil, cols, rows), cols, rows)
	end := endLines(r, cols-1)
	for n := range end {
		end[n] = end[n].clean().fit(cols - 1)
	}
	l.lines(end...)
	l.drawn = nil
}

func (l *liveReporter) dimensions() (cols, rows int) {
	cols, rows = l.size()
	return cmp.Or(cols, defaultCols), cmp.Or(rows, defaultRows)
}

// draw writes the lines over the last frame, in one write. It leaves the cursor at the left below them.
func (l *liveReporter) draw(lines []line, cols, rows int) {
	var b strings.Builder
	b.WriteString(hideCursor + noWrap + "\r")
	if up := min(height(l.drawn, cols), rows-1); up > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", up)
	}
	l.drawn = l.drawn[:0]
	for _, each := range lines {
		b.WriteString(each.render(l.colors) + clearLine + "\r\n")
		l.drawn = append(l.drawn, each.width())
	}
	b.WriteString(clearBelow + Restore)
	l.write(b.String())
}

// height returns the rows that lines of these widths take. A terminal that has become narrower wraps them.
func height(widths []int, cols int) int {
	rows := 0
	for _, width := range widths {
		rows += max((width+cols-1)/cols, 1)
	}
	return rows
}
