package report

import (
	"strings"

	"github.com/mattn/go-runewidth"

	"github.com/node-drainer/node-drainer/internal/text"
)

// style is the style of text where colors are allowed.
type style string

// The styles, as SGR parameters of ECMA-48.
const (
	plain  style = ""
	bold   style = "1"
	faint  style = "2"
	red    style = "31"
	green  style = "32"
	yellow style = "33"
)

const ellipsis = "…"

// span is text of one style.
type span struct {
	style style
	text  string
}

// line is one line of output.
type line []span

func plainLine(parts ...string) line { return line{{plain, strings.Join(parts, "")}} }

// faintLine returns a line that is less important than others.
func faintLine(parts ...string) line { return line{{faint, strings.Join(parts, "")}} }

// width returns the cells of a terminal that the text takes. Characters of ambiguous width take one.
func width(text string) int {
	return (&runewidth.Condition{}).StringWidth(text)
}

// cut truncates the text to cells, with an ellipsis if it is longer.
func cut(text string, cells int) string {
	if cells <= 0 {
		return ""
	}
	return (&runewidth.Condition{}).Truncate(text, cells, ellipsis)
}

// pad truncates or pads the text to exactly that many cells.
func pad(text string, cells int) string {
	text = cut(text, cells)
	return text + strings.Repeat(" ", cells-width(text))
}

func (l line) width() int {
	all := 0
	for _, s := range l {
		all += width(s.text)
	}
	return all
}

// clean returns the line without control characters.
func (l line) clean() line {
	cleaned := make(line, 0, len(l))
	for _, s := range l {
		cleaned = append(cleaned, span{s.style, text.Clean(s.text)})
	}
	return cleaned
}

// fit truncates the line to cells.
func (l line) fit(cells int) line {
	if l.width() <= cells {
		return l
	}
	var fitted line
	for _, s := range l {
		of := width(s.text)
		if of >= cells {
			s.text = cut(s.text+" ", cells) // With the space it is always too long, so that the ellipsis is added.
			return append(fitted, s)
		}
		fitted = append(fitted, s)
		cells -= of
	}
	return fitted
}

// render returns the text of the line, without its end.
func (l line) render(colors bool) string {
	var b strings.Builder
	for _, s := range l {
		if !colors || s.style == plain || s.text == "" {
			b.WriteString(s.text)
			continue
		}
		b.WriteString("\x1b[" + string(s.style) + "m" + s.text + "\x1b[0m")
	}
	return strings.TrimRight(b.String(), " ")
}

// minWrapped is the fewest cells that a column needs for its text to be wrapped within it.
const minWrapped = 30

// paragraph returns the text after an indent, wrapped to cells; 0 is no limit.
func paragraph(indent int, s style, content string, cells int) []line {
	var lines []line
	for _, part := range text.Wrap(text.Clean(content), cells-indent, width) {
		lines = append(lines, line{{plain, strings.Repeat(" ", indent)}, {s, part}})
	}
	return lines
}

// table lays out rows in columns, two spaces apart. If the table would be wider than cells, it wraps the last
// column, or writes it below its row if there is too little space. 0 is no limit.
func table(rows [][]span, cells int) []line {
	widths := columnWidths(rows)
	used := 0
	for _, width := range widths[:len(widths)-1] {
		used += width + 2
	}
	below := cells > 0 && cells-used < min(minWrapped, widths[len(widths)-1])
	var lines []line
	for _, row := range rows {
		var l line
		for n, cell := range row[:len(row)-1] {
			l = append(l, span{cell.style, pad(text.Clean(cell.text), widths[n]) + "  "})
		}
		last := row[len(row)-1]
		if below {
			lines = append(append(lines, l), paragraph(4, last.style, last.text, cells)...)
			continue
		}
		for n, part := range paragraph(used, last.style, last.text, cells) {
			if n == 0 {
				part = append(l, part[1:]...)
			}
			lines = append(lines, part)
		}
	}
	return lines
}

func columnWidths(rows [][]span) []int {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for n, cell := range row {
			widths[n] = max(widths[n], width(text.Clean(cell.text)))
		}
	}
	return widths
}
