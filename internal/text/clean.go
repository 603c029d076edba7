package text

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
)

// Clean returns the text on one line, without characters that a terminal would interpret: names and reasons
// come from AWS and Kubernetes, where others can write them. It removes control characters (C0, DEL, C1) and
// format characters, for example those that change the direction of writing. White space becomes a space.
func Clean(text string) string {
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

// unsafeRune reports whether the rune may change how a terminal shows other text. A variation selector
// changes the width of the rune before it.
func unsafeRune(r rune) bool {
	isASCII := r >= ' ' && r <= '~' // most are, which is quickly found out
	return !isASCII && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Variation_Selector)
}

// CleanJSON escapes the characters that Clean would remove, which does not change the meaning of the JSON.
// They can only be in strings, except for the line feeds that the encoder writes between values.
func CleanJSON(encoded string) string {
	var b strings.Builder
	for _, r := range encoded {
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
	return b.String()
}
