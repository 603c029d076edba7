package text

import (
	"strings"
	"unicode"
)

// Split returns the items of a list that is separated by commas, white space, or both. No item is empty.
func Split(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
}
