package cli

import (
	"bytes"
	"regexp"
	"testing"
)

// TestCompletion: shells complete the names of flags and the values of those that have a list of them.
func TestCompletion(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		args []string
		want []string
	}{
		"values of a flag":     {[]string{"__complete", "--mode", ""}, []string{`(?m)^refresh`, `(?m)^unhealthy`}},
		"names of flags":       {[]string{"__complete", "--on-c"}, []string{`--on-conflict`}},
		"script of bash":       {[]string{"completion", "bash"}, []string{`trigger`}},
		"script of zsh":        {[]string{"completion", "zsh"}, []string{`trigger`}},
		"script of fish":       {[]string{"completion", "fish"}, []string{`trigger`}},
		"script of PowerShell": {[]string{"completion", "powershell"}, []string{`trigger`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out, errs bytes.Buffer
			if code := newProgram(nil, &out, &errs).run(t.Context(), tt.args); code != 0 {
				t.Fatalf("the exit code is %d: %s", code, errs.String())
			}
			for _, want := range tt.want {
				if !regexp.MustCompile(want).MatchString(out.String()) {
					t.Errorf("the output does not match %s:\n%s", want, out.String())
				}
			}
		})
	}
}
