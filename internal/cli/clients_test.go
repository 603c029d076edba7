package cli

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/internal/rollout"
)

// TestRetryer: retries are not used up in a rollout of hours.
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

// TestWithoutCluster: the trigger continues without Kubernetes, unless a flag needs it.
func TestWithoutCluster(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	for _, tt := range []struct {
		name, args string
		note, err  string
	}{
		{"no cluster configured", "", "continuing without Kubernetes: no cluster is configured: KUBECONFIG names no file that exists: ", ""},
		{"disabled", "--no-kubernetes", "", ""},
		{"missing file", "--kubeconfig /nowhere/config", "", "/nowhere/config"},
		{"missing context", "--context prod", "", `context "prod" does not exist`},
		{"labels exclude nodes", "--mode unhealthy --exclude-node-label pet", "", "no cluster is configured"},
		{"taints", "--taint-outdated soft", "", "no cluster is configured"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var stderr bytes.Buffer
			s, _, rejected := read(t, nil, strings.Fields("--asg workers "+tt.args)...)
			if s == nil {
				t.Fatal(rejected)
			}
			c := &clients{config: rollout.Config{}}
			err := (&executor{stderr: &stderr, settings: s}).connectKubernetes(t.Context(), c)
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

// TestWithoutRegion: the error names what the SDK lacks.
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

// TestWithoutCredentials: the error says how to get some.
func TestWithoutCredentials(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	for name, value := range map[string]string{
		"AWS_REGION": "eu-central-1", "AWS_PROFILE": "", "AWS_CONFIG_FILE": none, "AWS_SHARED_CREDENTIALS_FILE": none,
		"AWS_EC2_METADATA_DISABLED": "true", "AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "",
	} {
		t.Setenv(name, value)
	}
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), []string{"--asg", "workers", "--no-kubernetes"}, nil, &stdout, &stderr)
	if code != 1 || !strings.Contains(stderr.String(), "get AWS credentials (AWS_PROFILE, aws sso login or aws configure): ") {
		t.Errorf("exit code %d: %s", code, stderr.String())
	}
}

// TestWrongRegion: the error for a host of AWS that does not exist names the setting that is wrong.
func TestWrongRegion(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]string{
		"autoscaling.eu-cental-1.amazonaws.com": "; is the Region right (AWS_REGION, --region)?", "kubernetes.example.com": "",
	} {
		err := fmt.Errorf("describe: %w", &net.DNSError{Name: host, Err: "no such host", IsNotFound: true})
		if got := regionHint(err); got != want {
			t.Errorf("%s: %q", host, got)
		}
	}
}
