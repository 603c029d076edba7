package main

import (
	"bytes"
	"strings"
	"testing"
)

// TestExitCodes: each case ends before the agent would run.
func TestExitCodes(t *testing.T) {
	valid := []string{"CLUSTER_NAME=demo", "LEADER_ELECTION=false", "QUEUE_URL=https://sqs.eu-central-1.amazonaws.com/123456789012/node-drainer"}
	for _, tt := range []struct {
		name           string
		args, environ  []string
		code           int
		stdout, stderr []string
	}{
		{"--version", []string{"--version"}, nil, 0, []string{"node-drainer agent dev\n"}, nil},
		{"unknown argument", []string{"drain"}, nil, 2, nil, []string{`unknown argument "drain"`}},
		{
			"each mistake in the environment is listed", nil,
			[]string{"CLUSTER_NAME=demo", "QUEUE_MAX_IN_FLIGHT=many", "DRAIN_TIMEOUT=100h", "LOG_LEVEL=loud"},
			2, nil,
			[]string{
				"\n  QUEUE_URL is required", "\n  QUEUE_MAX_IN_FLIGHT is \"many\"", "\n  DRAIN_TIMEOUT is 100h0m0s",
				"\n  LOG_LEVEL is \"loud\"",
			},
		},
		{"the agent fails", nil, valid, 1, nil, []string{"set AWS_REGION"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, name := range []string{"AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"} {
				t.Setenv(name, "")
			}
			t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
			t.Setenv("AWS_CONFIG_FILE", t.TempDir()+"/none")
			var stdout, stderr bytes.Buffer
			if code := run(tt.args, tt.environ, &stdout, &stderr); code != tt.code {
				t.Errorf("exit code %d, want %d", code, tt.code)
			}
			wantOnce(t, stdout.String(), tt.stdout)
			wantOnce(t, stderr.String(), tt.stderr)
		})
	}
}

// wantOnce checks that the output contains each part once, and is empty if there is none.
func wantOnce(t *testing.T, output string, parts []string) {
	t.Helper()
	for _, part := range parts {
		if strings.Count(output, part) != 1 {
			t.Errorf("%q is not once in the output:\n%s", part, output)
		}
	}
	if len(parts) == 0 && output != "" {
		t.Errorf("unexpected output:\n%s", output)
	}
}
