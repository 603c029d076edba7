// Command upgrade writes an overlay for "go build -overlay", by which package sim runs processes of an older agent too:
//
//	go run ./test/sim/upgrade COMMIT DIRECTORY [OVERLAY]
//
// It runs in the root of the module, and copies the packages of a commit to test/sim/old, where another import path
// makes them other packages than those of this checkout. What another overlay replaces is replaced, too.
package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const (
	module = "github.com/node-drainer/node-drainer/"
	// copies is where the packages of the commit are for the compiler. Those of internal lose that folder, since
	// package sim may not import them otherwise.
	copies = "test/sim/old/"
)

func main() {
	err := errors.New("usage: upgrade COMMIT DIRECTORY [OVERLAY]")
	switch len(os.Args) {
	case 3:
		err = write(".", os.Args[1], os.Args[2], "")
	case 4:
		err = write(".", os.Args[1], os.Args[2], os.Args[3])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "upgrade:", err)
		os.Exit(1)
	}
}

// write writes the packages of a commit and overlay.json to a directory.
func write(root, commit, dir, base string) error {
	root, err := filepath.Abs(root)
	if err != nil {
		return err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	replaced, err := read(base)
	if err != nil {
		return err
	}
	files, err := export(root, commit)
	if err != nil {
		return err
	}
	shared, adapter := module+"pkg/handover", "old.go"
	if hasKinds(files) {
		shared, adapter = "", "older.go"
	}
	for name, text := range files { // Their names do not end in .go: they are no package of the module.
		name, text := strings.TrimPrefix(name, "internal/"), moved(text, shared)
		path := filepath.Join(dir, filepath.FromSlash(name)+".txt")
		replaced[filepath.Join(root, copies, filepath.FromSlash(name))] = path
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o750), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			return err
		}
	}
	sim := filepath.Join(root, "test", "sim")
	replaced[filepath.Join(sim, "old.go")] = filepath.Join(sim, "testdata", adapter)
	list, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "overlay.json"), list, 0o600)
}

// read returns what an overlay replaces; nothing if it has no name.
func read(name string) (map[string]string, error) {
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	if name == "" {
		return overlay.Replace, nil
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	err = json.Unmarshal(text, &overlay)
	return maps.Clone(overlay.Replace), err
}

// export returns the Go files of the packages of a commit, without tests, by their names.
func export(root, commit string) (map[string]string, error) {
	args := []string{"-C", root, "archive", "--format=tar", commit, "internal", "pkg"}
	git := exec.Command("git", args...) //nolint:gosec // It is run by hand, by who may run git.
	git.Stderr = os.Stderr
	archive, err := git.Output()
	if err != nil {
		return nil, fmt.Errorf("git archive %s: %w", commit, err)
	}
	files := map[string]string{}
	for reader := tar.NewReader(bytes.NewReader(archive)); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, err
		}
		if name := header.Name; filepath.Ext(name) == ".go" && !strings.HasSuffix(name, "_test.go") {
			text, err := io.ReadAll(reader)
			if err != nil {
				return nil, err
			}
			files[name] = string(text)
		}
	}
}

// hasKinds reports whether package handover of a commit is that of before hand-overs of Redis had a program of their
// own: agents with it need a copy of it.
func hasKinds(files map[string]string) bool {
	return strings.Contains(files["pkg/handover/handover.go"], "\ntype Kind struct")
}

// moved returns a Go file with the import paths of the copies. The shared package stays: those who write hand-overs
// import package handover, so that it must remain compatible.
func moved(text, shared string) string {
	return strings.NewReplacer(
		`"`+shared+`"`, `"`+shared+`"`,
		`"`+module+`internal/`, `"`+module+copies,
		`"`+module+`pkg/`, `"`+module+copies+`pkg/`,
	).Replace(text)
}
