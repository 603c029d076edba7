// Command overlay writes an overlay for "go build -overlay", by which a seed decides what Go leaves to chance: the
// order of maps, the choice of select, the order of timers that fire at the same moment, and the random numbers of
// math/rand. Goroutines are not suspended after a time of the real clock.
//
//	go run ./test/sim/overlay "$(go env GOROOT)" DIRECTORY
//
// It changes copies of files of the standard library, and fails if they do not look as expected.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// edit replaces a part of a file of the standard library, which must be there once. An empty one is its end.
type edit struct{ file, old, new string }

func edits() []edit {
	return []edit{
		{"runtime/rand.go", "\nfunc rand() uint64 {\n", `
func rand() uint64 {
	if replayState != 0 {
		return replayNext()
	}
`},
		{"runtime/rand.go", "", `
var replayState uint64 // zero until a world begins

//go:linkname seedRuntime github.com/node-drainer/node-drainer/test/sim.seedRuntime
func seedRuntime(seed uint64) { replayState = seed + 1 }

// replayNext is SplitMix64.
//
//go:nosplit
func replayNext() uint64 {
	replayState += 0x9e3779b97f4a7c15
	z := replayState
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb
	return z ^ (z >> 31)
}

func replayn(n uint32) uint32 {
	if replayState == 0 {
		return cheaprandn(n)
	}
	return uint32((replayNext() >> 32 * uint64(n)) >> 32)
}
`},
		{"runtime/select.go", "cheaprandn(uint32(norder + 1))", "replayn(uint32(norder + 1))"},
		{"runtime/time.go", "t.rand = cheaprand()", "t.rand = replayn(1<<32 - 1)"},
		{"runtime/proc.go", "const forcePreemptNS = 10 * 1000 * 1000", "const forcePreemptNS = 1 << 62"},
		{"internal/sync/mutex.go", "starvationThresholdNs = 1e6", "starvationThresholdNs = 1 << 62"},
	}
}

// apply returns the text of a file with the edit.
func (e edit) apply(text string) (string, error) {
	if e.old == "" {
		return text + e.new, nil
	}
	if n := strings.Count(text, e.old); n != 1 {
		return "", fmt.Errorf("%s has %q %d times, not once: this version of Go needs another edit", e.file, e.old, n)
	}
	return strings.Replace(text, e.old, e.new, 1), nil
}

func main() {
	err := errors.New("usage: overlay GOROOT DIRECTORY")
	if len(os.Args) == 3 {
		err = write(os.Args[1], os.Args[2])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "overlay:", err)
		os.Exit(1)
	}
}

// write writes the changed files and overlay.json to a directory.
func write(goroot, dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	texts := map[string]string{}
	for _, e := range edits() {
		if texts[e.file] == "" {
			text, err := os.ReadFile(filepath.Join(goroot, "src", e.file))
			if err != nil {
				return err
			}
			texts[e.file] = string(text)
		}
		if texts[e.file], err = e.apply(texts[e.file]); err != nil {
			return err
		}
	}
	return writeOverlay(goroot, dir, texts)
}

// writeOverlay writes files and the list of them. Their names do not end in .go: they are no package of the module.
func writeOverlay(goroot, dir string, texts map[string]string) error {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	replaced := map[string]string{}
	for file, text := range texts {
		path := filepath.Join(dir, filepath.Base(file)+".txt")
		replaced[filepath.Join(goroot, "src", file)] = path
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return err
		}
	}
	list, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "overlay.json"), list, 0o600)
}
