package release

import (
	"encoding/json"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var toolchain = regexp.MustCompile(`(?m)^toolchain go(\S+)$`)

// TestToolchain: one version of Go builds the programs, the image and the tools: that of the toolchain line in go.mod. Go
// downloads it, and actions/setup-go installs it.
func TestToolchain(t *testing.T) {
	line := toolchain.FindStringSubmatch(read(t, "../../go.mod"))
	if line == nil {
		t.Fatal("go.mod has no toolchain line")
	}
	nested := 0
	err := fs.WalkDir(os.DirFS("../.."), ".", func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains([]string{".git", "bin", "dist", "node_modules"}, entry.Name()):
			return fs.SkipDir
		case path.Base(file) != "go.mod":
			return nil
		}
		nested++
		if !strings.Contains(read(t, filepath.Join("../..", file)), "\n"+line[0]+"\n") {
			t.Errorf("%s does not have the line %q of go.mod", file, line[0])
		}
		return nil
	})
	if err != nil || nested < 10 {
		t.Fatalf("found %d modules: %v", nested, err)
	}
	if image := "golang:" + line[1] + "-"; !strings.Contains(read(t, "../../Dockerfile"), image) {
		t.Errorf("the image is not built with %s", image)
	}
	for _, file := range workflows(t) {
		text := read(t, file)
		if strings.Count(text, "actions/setup-go@") != strings.Count(text, "go-version-file: go.mod\n") ||
			strings.Contains(text, "go-version:") || strings.Contains(text, "GOTOOLCHAIN") {
			t.Errorf("%s: a job does not take its version of Go from go.mod", file)
		}
	}
}

// TestToolchainUpdates: Renovate moves the version of Go in all places together, and at once: a week is too long for a fix
// of crypto/tls. A later rule wins, and others concern some of these files.
func TestToolchainUpdates(t *testing.T) {
	var config struct {
		PackageRules []map[string]any `json:"packageRules"`
	}
	if err := json.Unmarshal([]byte(read(t, "../../renovate.json")), &config); err != nil || len(config.PackageRules) == 0 {
		t.Fatalf("no rules: %v", err)
	}
	rule := config.PackageRules[len(config.PackageRules)-1]
	names, _ := rule["matchDepNames"].([]any)
	if !slices.Contains(names, any("go")) || !slices.Contains(names, any("docker.io/library/golang")) || rule["groupName"] != "Go" {
		t.Errorf("the last rule does not group go.mod and the image: %v", rule)
	}
	if age, set := rule["minimumReleaseAge"]; !set || age != nil || rule["schedule"] == nil {
		t.Errorf("the last rule lets an update of Go wait: %v", rule)
	}
}
