package cli

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
)

// TestCompletion: shells complete the names of flags and the values of those that have a list of them. Each command has
// a help of its own.
func TestCompletion(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"__complete --mode ": `(?s)^refresh.*\nunhealthy`, "__complete --on-c": `--on-conflict`, "completion bash": `trigger`,
		"status --help": `(?s)trigger status \[flags\].*--output`,
	} {
		var out, errs bytes.Buffer
		code := run(t.Context(), strings.Split(args, " "), nil, &out, &errs)
		if code != 0 || !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("trigger %s: exit code %d, and the output does not match %s:\n%s%s", args, code, want, &out, &errs)
		}
	}
}
