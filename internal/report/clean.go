package report

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
)

// clean returns the text without anything that a terminal would obey instead of show, on one line: names and
// reasons come from AWS and Kubernetes, where others write them. Control characters (C0, DEL, C1) and those
// of format, such as the ones that turn the direction of writing, are dropped; white space becomes a space.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unsafeRune(r):
			return -1
		}
		return r
	}, text)
}

// unsafeRune tells whether the rune may change how a terminal shows the rest. A selector of variants changes
// how wide the rune before it is.
func unsafeRune(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Variation_Selector)
}

// cleanJSON returns the JSON with everything that clean would drop as an escape: it says the same. Such
// characters can stand in strings alone; line feeds, which the encoder writes between values, stay.
func cleanJSON(encoded []byte) []byte {
	var b strings.Builder
	for _, r := range string(encoded) {
		switch {
		case r == '\n' || !unsafeRune(r):
			b.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return []byte(b.String())
}
