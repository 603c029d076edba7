package text

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Count returns a number with its noun, whose plural ends in s: "1 pod", "2 pods".
func Count(n int, noun string) string { return Plural(n, noun, noun+"s") }

// Plural returns a number followed by one if it is 1, else by many: "1 node is", "2 nodes are".
func Plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// First joins the first most names, and says how many were left out: "a, b and 3 more".
func First(names []string, most int) string {
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// FirstWithin is First with as many names as the bytes allow, and one at least.
func FirstWithin(names []string, bytes int) string {
	most := len(names)
	for most > 1 && len(First(names, most)) > bytes {
		most--
	}
	return First(names, most)
}

// Cut returns s if it has no more bytes than most, else its beginning and an ellipsis, which have no more.
func Cut(s string, most int) string {
	const ellipsis = "…"
	if len(s) <= most {
		return s
	}
	end := most - len(ellipsis)
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + ellipsis
}
