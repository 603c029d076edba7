package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/node-drainer/node-drainer/internal/cluster"
	"github.com/node-drainer/node-drainer/internal/lead"
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

// TestNodesAreFollowed: the nodes are shown again after a change, but not without one, until the interrupt.
func TestNodesAreFollowed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}})
		view := cluster.New(client)
		ctx, interrupt := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = view.Run(ctx, time.Minute) })
		<-view.Synced()
		var out, notes bytes.Buffer
		l := &nodeList{executor: &executor{settings: newSettings(), stderr: &notes}, view: view}
		r := report.New(report.Options{Format: report.FormatText, Out: &out})
		now := l.read(ctx)
		var err error
		running.Go(func() { err = l.follow(ctx, r, now) })
		time.Sleep(time.Minute)
		if out.Len() > 0 {
			t.Errorf("without a change it wrote\n%s", &out)
		}
		_, _ = client.CoreV1().Nodes().Update(ctx, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "node-1"},
			Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: "node-drainer.io/terminating"}}},
		}, metav1.UpdateOptions{})
		time.Sleep(time.Minute)
		interrupt()
		running.Wait()
		if lines := strings.Split(out.String(), "\n"); err != nil || len(lines) != 3 || !strings.HasPrefix(lines[1], "node-1") {
			t.Errorf("it ended with %v, and wrote\n%s", err, &out)
		}
		if notes.Len() > 0 {
			t.Errorf("the notes are %s", &notes)
		}
	})
}

// TestStoppedAgents: what the Nodes show is old if no agent renews its Lease any more, and the output says so first.
func TestStoppedAgents(t *testing.T) {
	t.Parallel()
	for since, want := range map[time.Duration]int{time.Minute: 0, time.Hour: 1} {
		renewed := metav1.NewMicroTime(time.Now().Add(-since))
		client := fake.NewClientset(&coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "kube-system", Name: "node-drainer", Labels: map[string]string{lead.AgentLabel: "true"},
				Annotations: map[string]string{"node-drainer.io/cluster": "prod"},
			},
			Spec: coordinationv1.LeaseSpec{HolderIdentity: new("a"), RenewTime: &renewed, LeaseDurationSeconds: new(int32(15))},
		})
		l := &nodeList{executor: &executor{settings: newSettings(), stderr: t.Output()}, view: cluster.New(client)}
		var out bytes.Buffer
		report.New(report.Options{Format: report.FormatText, Out: &out}).Nodes(l.read(t.Context()))
		const line = "No agent works: none renews the Lease kube-system/node-drainer."
		if got := strings.Count(out.String(), line); got != want || want == 1 && !strings.HasPrefix(out.String(), line) {
			t.Errorf("renewed %v ago:\n%s", since, &out)
		}
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
