package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestWrite: there is a page for each command, with its flags, and what Markdown would take for emphasis.
func TestWrite(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1767225600")
	folder := t.TempDir()
	if err := write(folder); err != nil {
		t.Fatal(err)
	}
	for page, texts := range map[string][]string{
		"trigger.1": {
			`.TH "TRIGGER" "1" "Jan 2026"`, `--max-age`, "TRIGGER_MAX_AGE. Flags", "trigger plan --asg workers",
			"rolled-back: the refresh was rolled back", `\fB--all\fP[=false]`, `\fB--asg\fP=NAME`,
		},
		"trigger-plan.1":            {"change nothing", "--detailed-exitcode"},
		"trigger-completion-bash.1": {"source <(trigger completion bash)"},
	} {
		content, err := os.ReadFile(filepath.Join(folder, page))
		if err != nil {
			t.Error(err)
		}
		for _, text := range texts {
			if !strings.Contains(string(content), text) {
				t.Errorf("%s does not contain %q", page, text)
			}
		}
	}
}
