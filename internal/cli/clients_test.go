package cli

import (
	"bytes"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/internal/rollout"
)

// TestRetries: in a rollout of hours the patience with AWS is not used up.
func TestRetryer(t *testing.T) {
	t.Parallel()
	r := newRetryer()
	if got := r.MaxAttempts(); got != 10 {
		t.Errorf("%d attempts", got)
	}
	for range 10_000 {
		if _, err := r.GetRetryToken(t.Context(), errors.New("Throttling")); err != nil {
			t.Fatal(err)
		}
	}
	var all time.Duration
	for attempt := range 9 {
		delay, err := r.RetryDelay(attempt+1, errors.New("Throttling"))
		if err != nil {
			t.Fatal(err)
		}
		all += delay
	}
	if all > 50*time.Second {
		t.Errorf("ten attempts take %v, and a call has a minute", all)
	}
}

// TestWithoutACluster: a rollout goes on without Kubernetes and says so, but not if it was asked for.
func TestWithoutCluster(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	for _, tt := range []struct {
		name, args string
		note, err  string
	}{
		{"none is configured", "", "continuing without Kubernetes: no cluster is configured", ""},
		{"none is wanted", "--no-kubernetes", "", ""},
		{"a file that is not there", "--kubeconfig /nowhere/config", "", "/nowhere/config"},
		{"a context that is not there", "--context prod", "", `context "prod" does not exist`},
		{"nodes' labels are to be looked at", "--mode unhealthy --exclude-node-label pet", "", "no cluster is configured"},
		{"nodes are to be tainted", "--taint-outdated soft", "", "no cluster is configured"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var stderr bytes.Buffer
			s, _, refused := read(t, nil, strings.Fields("--asg workers "+tt.args)...)
			if s == nil {
				t.Fatal(refused)
			}
			p := newProgram(nil, nil, &stderr)
			p.settings = s
			c := &clients{config: rollout.Config{}}
			err := p.connectKubernetes(t.Context(), c)
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("the error is %v, want %q", err, tt.err)
			}
			if !strings.Contains(stderr.String(), tt.note) || (tt.note == "") != (stderr.Len() == 0) {
				t.Errorf("the note is %q, want %q", stderr.String(), tt.note)
			}
			if c.view != nil {
				t.Error("there is a view of no cluster")
			}
		})
	}
}

// TestWithoutARegion: what the SDK lacks is told, and nothing is begun.
func TestWithoutRegion(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	for name, value := range map[string]string{
		"AWS_REGION": "", "AWS_DEFAULT_REGION": "", "AWS_PROFILE": "", "AWS_CONFIG_FILE": none,
		"AWS_SHARED_CREDENTIALS_FILE": none, "AWS_EC2_METADATA_DISABLED": "true",
	} {
		t.Setenv(name, value)
	}
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), []string{"--asg", "workers", "--no-kubernetes"}, nil, &stdout, &stderr)
	if code != 1 || !strings.Contains(stderr.String(), "no AWS region is set") {
		t.Errorf("exit code %d: %s", code, stderr.String())
	}
}
