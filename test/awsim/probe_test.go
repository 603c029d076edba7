//go:build e2e

package awsim_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/node-drainer/node-drainer/test/awsim"
)

// probe runs tools/probe/probe.sh against a server, with the rest of the arguments, and returns its output and its
// results by experiment.
func probe(t *testing.T, s *awsim.Server, args ...string) (output string, results map[string]string, err error) {
	t.Helper()
	client, err := exec.LookPath("aws")
	if err != nil {
		t.Fatalf("there is no AWS command-line client (%v): apt-get install awscli", err)
	}
	home := t.TempDir()
	wrapper := fmt.Sprintf("#!/bin/sh\nexec %q --endpoint-url %q \"$@\"\n", client, s.URL())
	must(t, os.WriteFile(filepath.Join(home, "aws"), []byte(wrapper), 0o755))
	out := filepath.Join(home, "results.tsv")
	cmd := exec.CommandContext(t.Context(), "../../tools/probe/probe.sh", append(args, "--out", out)...)
	cmd.Env = append(os.Environ(), "PATH="+home+":"+os.Getenv("PATH"), "AWS_CONFIG_FILE="+filepath.Join(home, "none"),
		"AWS_ACCESS_KEY_ID=cli", "AWS_SECRET_ACCESS_KEY=secret", "AWS_REGION=eu-central-1", "AWS_DEFAULT_REGION=eu-central-1",
		"AWS_MAX_ATTEMPTS=1", "AWS_PAGER=", "AWS_EC2_METADATA_DISABLED=true", "PROBE_SETTLE=0")
	said, err := cmd.CombinedOutput()
	text, _ := os.ReadFile(out)
	results = map[string]string{}
	for line := range strings.Lines(string(text)) {
		fields := strings.Split(line, "\t")
		results[fields[0]] = fields[1]
	}
	if calls, _ := os.ReadFile(out + ".log"); t.Failed() || testing.Verbose() {
		t.Logf("%s\n%s", said, calls)
	}
	return string(said), results, err
}

// TestProbe: the experiments answer what the simulation does, and leave nothing behind.
func TestProbe(t *testing.T) {
	t.Parallel()
	for _, want := range []map[string]string{
		{"1": "yes", "7a": "no: it ended after", "7b": "no: it ended after", "3b": "yes"},
		{"7c": "yes: it still waited", "8a": "yes", "8b": "yes", "8c": "yes: An error occurred (ValidationError)"},
		{
			"10a": "no: it was", "10b": "yes", "16": "skipped", "18a": "yes", "18b": "yes", "21": "yes",
			"18c": "not supported here", "20": "arn:aws:iam::123456789012:role/hooks",
		},
	} {
		only := strings.Join(slices.Sorted(maps.Keys(want)), ",")
		t.Run(only, func(t *testing.T) {
			t.Parallel()
			s := start(t, awsim.Options{})
			must(t, s.CreateGroup(awsim.Group{Name: "g", Max: 4, Desired: 2}))
			output, results, err := probe(t, s, "--run", "--yes", "--group", "g",
				"--role", "arn:aws:iam::123456789012:role/hooks", "--patience", "12", "--only", only)
			if err != nil || !strings.Contains(output, "cleaned up: nothing is left") {
				t.Errorf("%v: %s", err, output)
			}
			for id, answer := range want {
				if !strings.HasPrefix(results[id], answer) {
					t.Errorf("experiment %s answers %q, want %q", id, results[id], answer)
				}
			}
			if calls := s.Calls("sqs", "DeleteQueue"); len(calls) == 0 {
				t.Error("the queue is left")
			}
		})
	}
}

// TestProbeAsks: nothing is changed without --yes, and nothing in a group that there is not.
func TestProbeAsks(t *testing.T) {
	t.Parallel()
	s := start(t, awsim.Options{})
	must(t, s.CreateGroup(awsim.Group{Name: "g", Max: 1, Desired: 1}))
	for _, args := range []string{"--group g --role r", "--role r --yes", "--group other --role r --yes"} {
		if output, _, err := probe(t, s, append([]string{"--run"}, strings.Fields(args)...)...); err == nil {
			t.Errorf("%s was accepted: %s", args, output)
		}
	}
	if output, _, err := probe(t, s); err != nil || !strings.Contains(output, "Does a hook wait if its queue has been deleted?") {
		t.Errorf("%v: %s", err, output)
	}
	if used := s.Used("cli"); len(used) != 1 || used[0] != "autoscaling:DescribeAutoScalingGroups" {
		t.Errorf("it called %q", used)
	}
}
