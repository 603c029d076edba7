// Package release holds the tests of what only the hosted CI runs: goreleaser's configuration and the workflows.
package release

import (
	"encoding/json"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/goreleaser/goreleaser/v2/pkg/config"
)

// TestGoreleaser reads the configuration as goreleaser does, which refuses a field that it does not know.
func TestGoreleaser(t *testing.T) {
	project, err := config.Load("../../.goreleaser.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, build := range project.Builds {
		ids = append(ids, build.ID)
		if _, err := os.Stat(filepath.Join("../..", build.Main)); err != nil {
			t.Errorf("the program %s is not there: %v", build.ID, err)
		}
	}
	for _, archive := range project.Archives {
		for _, id := range archive.IDs {
			if !slices.Contains(ids, id) {
				t.Errorf("the archive %s contains %q, which is not built", archive.ID, id)
			}
		}
	}
	if len(project.Archives) != len(ids) {
		t.Errorf("%d archives of %d programs", len(project.Archives), len(ids))
	}
}

// TestKrew: the manifest of the plugin has archives for all platforms of the trigger, each with the license; what krew asks
// of texts is kept; and a release has it as a file, but publishes it nowhere else.
func TestKrew(t *testing.T) {
	project, err := config.Load("../../.goreleaser.yaml")
	if err != nil || len(project.Krews) != 1 {
		t.Fatalf("%d manifests: %v", len(project.Krews), err)
	}
	krew := project.Krews[0]
	archives := slices.DeleteFunc(slices.Clone(project.Archives), func(a config.Archive) bool { return !slices.Contains(krew.IDs, a.ID) })
	if len(archives) != 1 || len(archives[0].IDs) != 1 {
		t.Fatalf("%d archives, want one with one program", len(archives))
	}
	if !slices.ContainsFunc(archives[0].Files, func(f config.File) bool { return f.Source == "LICENSE" }) {
		t.Error("the archive has no LICENSE")
	}
	for _, build := range project.Builds {
		if want := []string{"linux", "darwin", "windows"}; build.ID == archives[0].IDs[0] && !slices.Equal(build.Goos, want) {
			t.Errorf("it is built for %q, want %q", build.Goos, want)
		}
	}
	const longest = 50 // Source: "Naming" and "Best practices" in the developer guide of krew.
	if d := krew.ShortDescription; d == "" || len(d) > longest || strings.HasSuffix(d, ".") || krew.Description == "" || krew.Homepage == "" {
		t.Errorf("the texts are not as krew asks: %+v", krew)
	}
	glob := project.Dist + "/krew/" + krew.Name + ".yaml"
	if project.Dist == "" {
		glob = "dist" + glob
	}
	if krew.SkipUpload != "true" || !slices.ContainsFunc(project.Release.ExtraFiles, func(f config.ExtraFile) bool { return f.Glob == glob }) {
		t.Errorf("a release does not have %s as a file alone", glob)
	}
}

// TestSBOM: make sbom writes the same as a release does.
func TestSBOM(t *testing.T) {
	project, err := config.Load("../../.goreleaser.yaml")
	if err != nil {
		t.Fatal(err)
	}
	flags := regexp.MustCompile(`\B-\w+`)
	recipe := regexp.MustCompile(`(?s)bin/tools/cyclonedx-gomod (bin .*?); done`).FindString(read(t, "../../Makefile"))
	args := strings.Join(project.SBOMs[0].Args, " ")
	if got, want := flags.FindAllString(args, -1), flags.FindAllString(recipe, -1); !slices.Equal(got, want) || len(got) == 0 {
		t.Errorf("the flags of a release are %q, those of make sbom %q", got, want)
	}
}

// TestGoreleaserVersion holds the goreleaser that releases to the one that the configuration is checked with.
func TestGoreleaserVersion(t *testing.T) {
	m := regexp.MustCompile(`goreleaser/v2 (v\S+)`).FindStringSubmatch(read(t, "go.mod"))
	if m == nil {
		t.Fatal("go.mod does not name goreleaser")
	}
	workflow := read(t, "../../.github/workflows/release.yml")
	if !strings.Contains(workflow, "GORELEASER: "+m[1]+"\n") {
		t.Errorf("the workflow does not release with goreleaser %s", m[1])
	}
	type manager struct{ MatchStrings []string }
	var config struct{ CustomManagers []manager }
	if err := json.Unmarshal([]byte(read(t, "../../renovate.json")), &config); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(config.CustomManagers, func(m manager) bool {
		found := regexp.MustCompile(m.MatchStrings[0]).FindStringSubmatch(workflow)
		return len(found) == 3 // With the version and the digest.
	}) {
		t.Error("Renovate does not update the version of goreleaser and its digest")
	}
}

var (
	uses   = regexp.MustCompile(`^\s*(?:- )?uses:\s*(.*)`)
	pinned = regexp.MustCompile(`^[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)
	makes  = regexp.MustCompile(`\bmake ([a-z0-9-]+)`)
	target = regexp.MustCompile(`(?m)^([a-z0-9-]+):`)
)

// faults returns the problems of a workflow: actions that are not pinned by commit, because a tag can be moved, and
// targets that the Makefile does not have.
func faults(workflow string, targets []string) []string {
	var found []string
	for line := range strings.Lines(workflow) {
		if m := uses.FindStringSubmatch(line); m != nil && !pinned.MatchString(m[1]) && !strings.HasPrefix(m[1], "./") {
			found = append(found, "not pinned by commit, with its version behind it: "+m[1])
		}
		for _, m := range makes.FindAllStringSubmatch(line, -1) {
			if !slices.Contains(targets, m[1]) {
				found = append(found, "make has no target "+m[1])
			}
		}
	}
	return found
}

func TestWorkflows(t *testing.T) {
	var targets []string
	for _, m := range target.FindAllStringSubmatch(read(t, "../../Makefile"), -1) {
		targets = append(targets, m[1])
	}
	for _, file := range workflows(t) {
		workflow := read(t, file)
		if !strings.Contains(workflow, "\npermissions:\n") {
			t.Errorf("%s takes the permissions that happen to be the default", file)
		}
		for _, fault := range faults(workflow, targets) {
			t.Errorf("%s: %s", file, fault)
		}
	}
}

// TestPages: the workflows that pages show get the credentials of a role, so they name actions by commit, as ours do, and
// install nothing whose name can be moved.
func TestPages(t *testing.T) {
	checked := 0
	err := fs.WalkDir(os.DirFS("../../docs"), ".", func(file string, _ fs.DirEntry, err error) error {
		if err != nil || path.Ext(file) != ".md" {
			return err
		}
		for line := range strings.Lines(read(t, filepath.Join("../../docs", file))) {
			m := uses.FindStringSubmatch(line)
			if m != nil && !pinned.MatchString(m[1]) || strings.Contains(line, "@latest") {
				t.Errorf("docs/%s: not pinned: %s", file, line)
			}
			if m != nil {
				checked++
			}
		}
		return nil
	})
	if err != nil || checked == 0 {
		t.Errorf("%d actions on all pages: %v", checked, err)
	}
}

func TestFaults(t *testing.T) {
	const sha = "0123456789abcdef0123456789abcdef01234567"
	for line, want := range map[string]int{
		"- uses: actions/checkout@" + sha + " # v6.0.2":      0,
		"uses: ./.github/workflows/ci.yml":                   0, // of this repository
		"- uses: actions/checkout@v6":                        1,
		"- uses: actions/checkout@" + sha[:12] + " # v6.0.2": 1,
		"- uses: actions/checkout@" + sha:                    1, // without its version
		"- run: make verify && make coffee":                  1,
	} {
		if found := faults(line, []string{"verify"}); len(found) != want {
			t.Errorf("%s: found %q, want %d faults", line, found, want)
		}
	}
}

func workflows(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("../../.github/workflows/*.yml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no workflows: %v", err)
	}
	return files
}

func read(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// TestFuzzingEnds: the scheduled job has the time that make fuzz takes for all targets, and as much again for compiling.
func TestFuzzingEnds(t *testing.T) {
	targets := 0
	for _, dir := range []string{"../../internal", "../../pkg"} {
		err := filepath.WalkDir(dir, func(file string, _ fs.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(file, "_test.go") {
				targets += strings.Count(read(t, file), "\nfunc Fuzz")
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	job := regexp.MustCompile(`(?s)\n  fuzz:.*?timeout-minutes: (\d+)\n.*make fuzz FUZZTIME=(\d+)m`).
		FindStringSubmatch(read(t, "../../.github/workflows/scheduled.yml"))
	if job == nil {
		t.Fatal("no job fuzzes")
	}
	limit, _ := strconv.Atoi(job[1])
	each, _ := strconv.Atoi(job[2])
	if targets == 0 || limit < 2*each*targets {
		t.Errorf("%d targets of %d minutes in a job of %d minutes", targets, each, limit)
	}
}
