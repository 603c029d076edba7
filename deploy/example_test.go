package deploy_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/node-drainer/node-drainer/deploy"
)

// TestExampleSed: example.sed fills each placeholder of the documents as Example does.
func TestExampleSed(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("example.sed")
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^s\|\$\{(\w+)\}\|(.*)\|g$`).FindAllStringSubmatch(string(text), -1) {
		values[m[1]] = m[2]
	}
	if diff := cmp.Diff(deploy.Example(), values); diff != "" {
		t.Errorf("example.sed (-Example +file):\n%s", diff)
	}
}

// TestPoliciesByHand runs the commands of docs/iam.md that put documents together, in a shell, and expects the statements
// of each document, filled.
func TestPoliciesByHand(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/iam.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)<!-- runs in TestPoliciesByHand -->\n```sh\n(.*?)```").FindSubmatch(page)
	if block == nil {
		t.Fatal("docs/iam.md has no such block")
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(here, filepath.Join(dir, "deploy")); err != nil {
		t.Fatal(err)
	}
	shell := exec.CommandContext(t.Context(), "bash", "-e", "-o", "pipefail", "-c", string(block[1]))
	shell.Dir = dir
	if output, err := shell.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	for file, names := range map[string][]string{
		"agent.json": {
			"iam/agent-queue", "iam/agent-terminations", "iam/agent-spot-interruption", "iam/agent-scheduled-change",
		},
		"trigger.json": {"iam/trigger-plan", "iam/trigger-refresh", "iam/trigger-launch"},
		"trust.json":   {"iam/trust-pod-identity"},
	} {
		want := map[string]any{"Version": "2012-10-17", "Statement": []any{}}
		for _, name := range names {
			filled, err := deploy.Fill(name, deploy.Example())
			if err != nil {
				t.Fatal(err)
			}
			want["Statement"] = append(want["Statement"].([]any), decodeObject(t, []byte(filled))["Statement"].([]any)...)
		}
		written, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, decodeObject(t, written)); diff != "" {
			t.Errorf("%s (-documents +file):\n%s", file, diff)
		}
	}
}

func decodeObject(t *testing.T, text []byte) map[string]any {
	t.Helper()
	var object map[string]any
	if err := json.Unmarshal(text, &object); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return object
}
