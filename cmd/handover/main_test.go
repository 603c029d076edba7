package main

import (
	"bytes"
	"strings"
	"testing"
)

// TestExitCodes: each case ends before the program would run.
func TestExitCodes(t *testing.T) {
	for _, tt := range []struct {
		name           string
		args, environ  []string
		code           int
		stdout, stderr string // a part of it; empty: nothing
	}{
		{"--version", []string{"--version"}, nil, 0, "node-drainer handover dev\n", ""},
		{"--help", []string{"--help"}, nil, 0, "POD_NAMESPACE", ""},
		{"unknown argument", []string{"drain"}, nil, 2, "", `unknown argument "drain"`},
		{"a mistake in the environment", nil, []string{"POD_NAMESPACE=shop", "LOG_LEVEL=loud"}, 2, "", `LOG_LEVEL is "loud"`},
		{"no environment", nil, nil, 2, "", "POD_NAMESPACE"},
		{"the program fails", nil, []string{"POD_NAMESPACE=shop"}, 1, "", "set KUBECONFIG outside a cluster"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("KUBECONFIG", t.TempDir()+"/none")
			var stdout, stderr bytes.Buffer
			code := run(tt.args, tt.environ, &stdout, &stderr)
			isWritten := func(b bytes.Buffer, want string) bool {
				return strings.Contains(b.String(), want) && (b.Len() == 0) == (want == "")
			}
			if code != tt.code || !isWritten(stdout, tt.stdout) || !isWritten(stderr, tt.stderr) {
				t.Errorf("got %d, %q, %q, want %d", code, stdout.String(), stderr.String(), tt.code)
			}
		})
	}
}
