package text

import (
	"regexp"
	"strings"
)

// plainWord is a word that a shell takes as it is.
var plainWord = regexp.MustCompile(`^[\w./:=@%+,-]+$`)

// ShellWord returns s as one word of a shell command that people copy: names come from others.
func ShellWord(s string) string {
	if plainWord.MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
