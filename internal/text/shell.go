package text

import (
	"regexp"
	"strings"
)

// ShellWord returns s as one word of a shell command that people copy: names come from others.
func ShellWord(s string) string {
	if regexp.MustCompile(`^[\w./:=@%+,-]+$`).MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
