package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestWrite: the packages of a commit become other packages than those of the checkout, and what another overlay
// replaces is replaced, too. Package handover stays the same one, if it is compatible.
func TestWrite(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ handover, adapter, imported string }{
		"now":    {"package handover\n\ntype Releaser any\n", "old.go", module + "pkg/handover"},
		"before": {"package handover\n\ntype Kind struct{}\n", "older.go", module + "test/sim/old/pkg/handover"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			expectWritten(t, tt.handover, tt.adapter, tt.imported)
		})
	}
}

func expectWritten(t *testing.T, handover, adapter, imported string) {
	t.Helper()
	root, dir := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{
		"internal/app/app.go": `import ("` + module + `internal/config"; "` + module + `pkg/handover"; "` + module +
			`pkg/handover/redis")`,
		"pkg/handover/handover.go": handover,
		"internal/app/app_test.go": "test", "pkg/node/node.go": "node", "pkg/node/page.md": "page", "cmd/main.go": "main",
	} {
		path := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		writeFile(t, path, text)
	}
	git(t, root, "init", "--quiet")
	git(t, root, "add", ".")
	git(t, root, "-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "--quiet", "--message", "old")
	writeFile(t, filepath.Join(root, "pkg", "node", "node.go"), "new")
	base := filepath.Join(dir, "base.json")
	writeFile(t, base, `{"Replace":{"/go/rand.go":"/rand.txt"}}`)
	if err := write(root, "HEAD", dir, base); err != nil {
		t.Fatal(err)
	}
	var overlay struct{ Replace map[string]string }
	text, err := os.ReadFile(filepath.Join(dir, "overlay.json"))
	if err != nil || json.Unmarshal(text, &overlay) != nil || len(overlay.Replace) != 5 {
		t.Fatalf("%s, %v: want 5 files", text, err)
	}
	sim := filepath.Join(root, "test", "sim")
	if got := overlay.Replace[filepath.Join(sim, "old.go")]; got != filepath.Join(sim, "testdata", adapter) {
		t.Errorf("old.go is replaced by %q", got)
	}
	for name, want := range map[string]string{
		"old/app/app.go": `import ("` + module + `test/sim/old/config"; "` + imported + `"; "` + module +
			`test/sim/old/pkg/handover/redis")`,
		"old/pkg/node/node.go": "node",
	} {
		if got, err := os.ReadFile(overlay.Replace[filepath.Join(sim, filepath.FromSlash(name))]); string(got) != want {
			t.Errorf("%s is %s, want %s; %v", name, got, want, err)
		}
	}
}

func git(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v: %s", args, err, out)
	}
}

func writeFile(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
