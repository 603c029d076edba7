package cli

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/node-drainer/node-drainer/internal/report"
)

// TestNodes: the marked nodes are shown without AWS, and without their pods if these cannot be read.
func TestNodes(t *testing.T) {
	for _, name := range []string{"AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "GITHUB_STEP_SUMMARY"} {
		t.Setenv(name, "")
	}
	for _, tt := range []struct {
		name, budgets string
		pods          string // of node-1
		note          string
	}{
		{"all may be read", noBudgets, "1", ""},
		{"budgets may not be read", "", "-", "trigger: the numbers of pods are not shown: list PodDisruptionBudgets"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			kubeconfig := serveCluster(t, tt.budgets)
			var stdout, stderr bytes.Buffer
			code := run(t.Context(), []string{"nodes", "--kubeconfig", kubeconfig}, nil, &stdout, &stderr)
			lines := strings.Split(stdout.String(), "\n")
			if code != 0 || len(lines) != 3 || !strings.HasPrefix(stderr.String(), tt.note) || (tt.note == "") != (stderr.Len() == 0) {
				t.Fatalf("exit code %d:\n%s%s", code, &stdout, &stderr)
			}
			want := []string{"node-1", "i-0123456789abcdef0", "spot-interruption", "-", "-", tt.pods, "the"}
			if got := strings.Fields(lines[1]); strings.Join(got[:len(want)], " ") != strings.Join(want, " ") {
				t.Errorf("the line is %q, want %q at its start", got, want)
			}
			stdout.Reset()
			code = run(t.Context(), []string{"nodes", "--kubeconfig", kubeconfig, "-o", "json"}, nil, &stdout, &stderr)
			var nodes report.Nodes
			if err := json.Unmarshal(stdout.Bytes(), &nodes); err != nil || code != 0 {
				t.Fatalf("exit code %d, %v:\n%s", code, err, &stdout)
			}
			if len(nodes.Nodes) != 1 || nodes.Nodes[0].Reason != "spot-interruption" || (nodes.Nodes[0].PodsLeft == nil) != (tt.pods == "-") {
				t.Errorf("the nodes are %+v", nodes.Nodes)
			}
		})
	}
}

// TestNodesWithoutCluster: without a cluster there is nothing to show.
func TestNodesWithoutCluster(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	file := filepath.Join(t.TempDir(), "none")
	if code := run(t.Context(), []string{"nodes", "--kubeconfig", file}, nil, &stdout, &stderr); code != 1 ||
		!strings.Contains(stderr.String(), "trigger: connect to Kubernetes: ") {
		t.Errorf("exit code %d: %s", code, stderr.String())
	}
}
