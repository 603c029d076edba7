package report

import (
	"fmt"
	"io"
	"strings"
)

// Control sequences of ECMA-48 and DEC's terminals, which all terminals of today know.
const (
	hideCursor = "\x1b[?25l"
	showCursor = "\x1b[?25h"
	noWrap     = "\x1b[?7l"
	mayWrap    = "\x1b[?7h"
	clearLine  = "\x1b[K"
	clearBelow = "\x1b[J"
)

// Restore gives a terminal back what a view takes while it is being written: for who cuts it off there.
const Restore = mayWrap + showCursor

const (
	usualCols, usualRows = 80, 24
	mostRecent           = 8 // So many changes are kept to be shown.
)

// live redraws a frame in place.
type live struct {
	*sink
	follower
	size    func() (cols, rows int)
	colours bool
	recent  []change
	drawn   []int // The widths of the lines of the frame that stands on the terminal.
}

// Live returns a Reporter for a terminal. It redraws a view in place each time that Show is called, which
// should be once a second for the time to go on, and leaves the last one standing at the end, with what
// became of each group. Nobody else may write to the terminal meanwhile. Size is asked before each view; nil,
// or 0, is 80 columns and 24 rows.
//
// The cursor is hidden only while a view is being written, so that it is there when the program is killed.
func Live(w io.Writer, size func() (cols, rows int), colours bool) Reporter {
	return &live{sink: &sink{out: w}, size: size, colours: colours}
}

// Plan writes the plan, as Text does, in the width of the terminal. It stays above the view.
func (l *live) Plan(plans []Plan) error {
	cols, _ := l.dimensions()
	l.lines(planLines(plans, cols-1), l.colours)
	l.lines(append(planTotal(plans), text()), l.colours)
	return l.Err()
}

// Show draws the view.
func (l *live) Show(r Rollout) {
	l.recent = append(l.recent, changes(l.last, r)...)
	l.recent = l.recent[max(len(l.recent)-mostRecent, 0):]
	l.last = snapshot(r)
	cols, rows := l.dimensions()
	l.draw(frame(r, l.recent, cols, rows), cols, rows)
}

// End draws the last view, without the changes that led to it, and how each group ended.
func (l *live) End(r Rollout) {
	cols, rows := l.dimensions()
	l.draw(frame(r, nil, cols, rows), cols, rows)
	end := endLines(r, cols-1)
	for n := range end {
		end[n] = end[n].clean().fit(cols - 1)
	}
	l.lines(end, l.colours)
	l.drawn = nil
}

func (l *live) dimensions() (cols, rows int) {
	if l.size != nil {
		cols, rows = l.size()
	}
	if cols <= 0 {
		cols = usualCols
	}
	if rows <= 0 {
		rows = usualRows
	}
	return cols, rows
}

// draw writes the lines over the frame that stands there, in one piece. The cursor ends below them, at the
// left.
func (l *live) draw(lines []line, cols, rows int) {
	var b strings.Builder
	b.WriteString(hideCursor + noWrap + "\r")
	if up := min(height(l.drawn, cols), rows-1); up > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", up)
	}
	l.drawn = l.drawn[:0]
	for _, each := range lines {
		b.WriteString(each.render(l.colours) + clearLine + "\r\n")
		l.drawn = append(l.drawn, each.width())
	}
	b.WriteString(clearBelow + Restore)
	l.write(b.String())
}

// height is how many rows lines of these widths take. On a terminal that has become narrower since they were
// written they may be wrapped by now.
func height(widths []int, cols int) int {
	rows := 0
	for _, width := range widths {
		rows += max((width+cols-1)/cols, 1)
	}
	return rows
}
