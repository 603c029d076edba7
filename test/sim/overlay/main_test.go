package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestWrite: the changes can be made to the installed version of Go.
func TestWrite(t *testing.T) {
	goroot, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := write(strings.TrimSpace(string(goroot)), dir); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "overlay.json"))
	if err != nil {
		t.Fatal(err)
	}
	var overlay struct{ Replace map[string]string }
	if err := json.Unmarshal(text, &overlay); err != nil || len(overlay.Replace) != 5 {
		t.Errorf("%d files are replaced, want 5; %v", len(overlay.Replace), err)
	}
	for original, changed := range overlay.Replace {
		before, _ := os.ReadFile(original)
		after, err := os.ReadFile(changed)
		if err != nil || len(before) == 0 || string(before) == string(after) {
			t.Errorf("%s is not changed: %v", original, err)
		}
	}
}

// TestApply: an edit fails if its place is not there once.
func TestApply(t *testing.T) {
	for text, want := range map[string]string{"a": "b", "": "", "aa": ""} {
		if got, err := (edit{"f", "a", "b"}).apply(text); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: got %q, %v, want %q", text, got, err, want)
		}
	}
}
