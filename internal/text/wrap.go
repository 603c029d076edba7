// Package text counts, lists and wraps text for people.
package text

import (
	"strings"
	"unicode/utf8"
)

// Wrap splits text between words into lines of at most limit, as measured by width. A longer word is a line
// of its own. A limit of 0 or less is no limit.
func Wrap(text string, limit int, width func(string) int) []string {
	if limit <= 0 || width(text) <= limit {
		return []string{text}
	}
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		switch {
		case line == "":
			line = word
		case width(line)+1+width(word) <= limit:
			line += " " + word
		default:
			lines = append(lines, line)
			line = word
		}
	}
	return append(lines, line)
}

// Indent wraps text into lines of at most width characters, each after indent.
func Indent(text, indent string, width int) string {
	text = strings.Join(strings.Fields(text), " ")
	lines := Wrap(text, max(width-len(indent), 1), utf8.RuneCountInString)
	return indent + strings.Join(lines, "\n"+indent) + "\n"
}
