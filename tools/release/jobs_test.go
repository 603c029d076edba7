package release

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// job is a job of a workflow.
type job struct {
	Needs       any
	Uses        string
	Environment string
	Permissions map[string]string
	Steps       []step
}

type step struct {
	Uses, Run string
	With      map[string]any
}

// needs returns the jobs that must have succeeded before: one, a list, or none.
func (j job) needs() (all []string) {
	switch needs := j.Needs.(type) {
	case string:
		all = []string{needs}
	case []any:
		for _, one := range needs {
			all = append(all, fmt.Sprint(one))
		}
	}
	return all
}

// jobFaults returns the problems of the workflow of releases: what would publish a tag that is not checked, without an
// approval, or from what another run has put into a cache.
func jobFaults(workflow string) (found []string, err error) {
	var parsed struct{ Jobs map[string]job }
	if err := yaml.Unmarshal([]byte(workflow), &parsed); err != nil {
		return nil, err
	}
	checks := func(s step) bool { return strings.HasPrefix(s.Run, "tools/release/check-tag.sh ") }
	for _, name := range slices.Sorted(maps.Keys(parsed.Jobs)) {
		j := parsed.Jobs[name]
		first := j
		for len(first.needs()) > 0 {
			first = parsed.Jobs[first.needs()[0]]
		}
		if !slices.ContainsFunc(first.Steps, checks) {
			found = append(found, name+" does not wait for the check of the tag")
		}
		if slices.Contains(slices.Collect(maps.Values(j.Permissions)), "write") && j.Environment != "release" {
			found = append(found, name+" may write, and is not in the environment release")
		}
		if j.Uses != "" {
			found = append(found, name+" runs another workflow, with caches")
		}
		for _, s := range j.Steps {
			if strings.HasPrefix(s.Uses, "actions/setup-go@") && s.With["cache"] != false || strings.HasPrefix(s.Uses, "actions/cache") {
				found = append(found, name+" uses a cache")
			}
		}
	}
	return found, nil
}

func TestReleaseJobs(t *testing.T) {
	found, err := jobFaults(read(t, "../../.github/workflows/release.yml"))
	if err != nil || len(found) > 0 {
		t.Errorf("%q, %v", found, err)
	}
}

func TestJobFaults(t *testing.T) {
	workflow := read(t, "../../.github/workflows/release.yml")
	for change, want := range map[string]string{
		"    needs: tag\n=>":                                                            "image does not wait",
		"      - run: tools/release/check-tag.sh=>#":                                    "tag does not wait",
		"    environment: release\n=>":                                                  "image may write",
		"    environment: release\n=>    environment: a\n":                              "image may write",
		"          cache: false\n=>":                                                    "image uses a cache",
		"          cache: false\n=>          cache: true\n":                             "image uses a cache",
		"actions/attest@=>actions/cache/restore@":                                       "image uses a cache",
		"jobs:\n=>jobs:\n  ci:\n    needs: tag\n    uses: ./.github/workflows/ci.yml\n": "ci runs another workflow",
	} {
		before, after, _ := strings.Cut(change, "=>")
		if !strings.Contains(workflow, before) {
			t.Fatalf("the workflow does not contain %q", before)
		}
		found, err := jobFaults(strings.Replace(workflow, before, after, 1))
		if err != nil || !strings.Contains(fmt.Sprint(found), want) {
			t.Errorf("%q: %q, %v, want %q", change, found, err, want)
		}
	}
}
