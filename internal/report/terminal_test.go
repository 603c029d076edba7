package report

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// terminal simulates a terminal. It records what it does not support as a fault.
type terminal struct {
	cols, rows int
	cells      [][]string // By row and column; the second cell of a wide character is empty.
	row, col   int
	wraps      bool // It continues on the next line when a line is full.
	hidden     bool // The cursor is hidden.
	faults     []string
}

func newTerminal(cols, rows int) *terminal {
	t := &terminal{cols: cols, rows: rows, wraps: true}
	for range rows {
		t.cells = append(t.cells, blank(cols))
	}
	return t
}

func blank(cols int) []string {
	row := make([]string, cols)
	for n := range row {
		row[n] = " "
	}
	return row
}

func (t *terminal) fault(format string, args ...any) {
	t.faults = append(t.faults, fmt.Sprintf(format, args...))
}

// Write accepts only complete sequences and characters.
func (t *terminal) Write(p []byte) (int, error) {
	for rest := string(p); rest != ""; {
		if sequence, ok := strings.CutPrefix(rest, "\x1b["); ok {
			end := strings.IndexFunc(sequence, func(r rune) bool { return r >= '@' && r <= '~' })
			if end < 0 {
				t.fault("an unfinished sequence %q", rest)
				break
			}
			t.execute(sequence[:end], sequence[end])
			rest = sequence[end+1:]
			continue
		}
		r, size := utf8.DecodeRuneInString(rest)
		t.show(r)
		rest = rest[size:]
	}
	return len(p), nil
}

func (t *terminal) execute(parameter string, final byte) {
	switch {
	case final == 'm':
	case final == 'A':
		n, _ := strconv.Atoi(parameter)
		if t.row -= n; t.row < 0 {
			t.row = 0
		}
	case final == 'K' && parameter == "":
		copy(t.cells[t.row][min(t.col, t.cols):], blank(t.cols))
	case final == 'J' && parameter == "":
		copy(t.cells[t.row][min(t.col, t.cols):], blank(t.cols))
		for row := t.row + 1; row < t.rows; row++ {
			t.cells[row] = blank(t.cols)
		}
	case parameter == "?25":
		t.hidden = final == 'l'
	case parameter == "?7":
		t.wraps = final == 'h'
	default:
		t.fault("an unknown sequence %q", parameter+string(final))
	}
}

func (t *terminal) show(r rune) {
	switch {
	case r == '\r':
		t.col = 0
		return
	case r == '\n':
		t.feed()
		return
	case r < ' ' || r >= 0x7f && r < 0xa0:
		t.fault("a control character %q", r)
		return
	}
	cells := width(string(r))
	if t.col+cells > t.cols {
		t.fault("%q does not fit into %d columns", string(r), t.cols)
		return
	}
	for n := range cells {
		t.cells[t.row][t.col+n] = ""
	}
	if cells > 0 {
		t.cells[t.row][t.col] = string(r)
	}
	t.col += cells
}

func (t *terminal) feed() {
	if t.row++; t.row < t.rows {
		return
	}
	t.row--
	t.cells = append(t.cells[1:], blank(t.cols))
}

func joinCells(cells []string) string { return strings.TrimRight(strings.Join(cells, ""), " ") }

// screen returns the lines on the terminal, without empty ones at the end.
func (t *terminal) screen() []string {
	var all []string
	for _, row := range t.cells {
		all = append(all, joinCells(row))
	}
	for len(all) > 0 && all[len(all)-1] == "" {
		all = all[:len(all)-1]
	}
	return all
}
