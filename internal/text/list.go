package text

import (
	"strings"
	"unicode"
)

// Split returns what is separated by commas, white space, or both. None of it is empty.
func Split(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
}
