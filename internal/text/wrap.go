// Package text splits lists, wraps lines, and writes numbers of things as sentences have them.
package text

import "strings"

// Wrap breaks text into lines of at most width characters, each after indent.
func Wrap(text, indent string, width int) string {
	var b strings.Builder
	line := indent
	for word := range strings.FieldsSeq(text) {
		if len(line)+1+len(word) > width && line != indent {
			b.WriteString(line + "\n")
			line = indent
		}
		if line != indent {
			line += " "
		}
		line += word
	}
	b.WriteString(line + "\n")
	return b.String()
}
