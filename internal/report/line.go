package report

import (
	"strings"

	"github.com/mattn/go-runewidth"
)

// style is how a piece of text looks where there are colours.
type style string

// The styles, by what they are sent as: SGR parameters of ECMA-48.
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

// line is what stands on one line.
type line []span

func text(parts ...string) line { return line{{plain, strings.Join(parts, "")}} }

// aside is a line that matters less than the others.
func aside(parts ...string) line { return line{{faint, strings.Join(parts, "")}} }

// width is how many cells of a terminal the text takes. Characters of ambiguous width take one cell.
func width(text string) int {
	return (&runewidth.Condition{}).StringWidth(text)
}

// cut returns the text in that many cells at most, with an ellipsis where something is missing.
func cut(text string, cells int) string {
	if cells <= 0 {
		return ""
	}
	return (&runewidth.Condition{}).Truncate(text, cells, ellipsis)
}

// pad returns the text in exactly that many cells.
func pad(text string, cells int) string {
	text = cut(text, cells)
	return text + strings.Repeat(" ", cells-width(text))
}

// width is how many cells the line takes.
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
		cleaned = append(cleaned, span{s.style, clean(s.text)})
	}
	return cleaned
}

// fit returns the line in that many cells at most. The rest of a line that is too long is dropped.
func (l line) fit(cells int) line {
	if l.width() <= cells {
		return l
	}
	var fitted line
	for _, s := range l {
		of := width(s.text)
		if of >= cells {
			s.text = cut(s.text+" ", cells) // The space has it cut in any case: something is missing.
			return append(fitted, s)
		}
		fitted = append(fitted, s)
		cells -= of
	}
	return fitted
}

// render returns the text of the line, without anything that would end it.
func (l line) render(colours bool) string {
	var b strings.Builder
	for _, s := range l {
		if !colours || s.style == plain || s.text == "" {
			b.WriteString(s.text)
			continue
		}
		b.WriteString("\x1b[" + string(s.style) + "m" + s.text + "\x1b[0m")
	}
	return strings.TrimRight(b.String(), " ")
}

// leastWrapped is how many cells a column needs for its text to be broken into lines there.
const leastWrapped = 30

// wrap breaks the text between its words into lines of that many cells at most; 0 and less is no limit. A
// word that is longer is left whole.
func wrap(text string, cells int) []string {
	if cells <= 0 || width(text) <= cells {
		return []string{text}
	}
	var lines []string
	current := ""
	for word := range strings.FieldsSeq(text) {
		switch {
		case current == "":
			current = word
		case width(current)+1+width(word) <= cells:
			current += " " + word
		default:
			lines = append(lines, current)
			current = word
		}
	}
	return append(lines, current)
}

// paragraph is the text behind an indent, broken into lines of that many cells; 0 is no limit.
func paragraph(indent int, s style, text string, cells int) []line {
	var lines []line
	for _, part := range wrap(clean(text), cells-indent) {
		lines = append(lines, line{{plain, strings.Repeat(" ", indent)}, {s, part}})
	}
	return lines
}

// table lays rows out in columns, two spaces apart. Where the whole would be wider than that many cells, the
// last column is broken into lines; where not even that leaves room to read, it stands below its row. 0 is no
// limit.
func table(rows [][]span, cells int) []line {
	widths := columns(rows)
	used := 0
	for _, width := range widths[:len(widths)-1] {
		used += width + 2
	}
	below := cells > 0 && cells-used < min(leastWrapped, widths[len(widths)-1])
	var lines []line
	for _, row := range rows {
		l := columned(row, widths)
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

// columned is a row of a table but for its last column.
func columned(row []span, widths []int) line {
	var l line
	for n, cell := range row[:len(row)-1] {
		l = append(l, span{cell.style, pad(clean(cell.text), widths[n]) + "  "})
	}
	return l
}

func columns(rows [][]span) []int {
	var widths []int
	for _, row := range rows {
		for n, cell := range row {
			if n == len(widths) {
				widths = append(widths, 0)
			}
			widths[n] = max(widths[n], width(clean(cell.text)))
		}
	}
	return widths
}
