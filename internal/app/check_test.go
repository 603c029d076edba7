package app_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/node-drainer/node-drainer/internal/app"
	"github.com/node-drainer/node-drainer/test/awsim"
)

// environment is valid for a check.
var environment = []string{
	"CLUSTER_NAME=demo", "QUEUE_URL=https://sqs.eu-central-1.amazonaws.com/123456789012/node-drainer",
	"POD_NAMESPACE=kube-system", "HOOK_NAMES=drain",
}

func runCheck(t *testing.T, environ []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = app.Check(t.Context(), args, environ, "dev", &out, &errs)
	return code, out.String(), errs.String()
}

func TestCheckUsage(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name           string
		args, environ  []string
		code           int
		stdout, stderr string
	}{
		{"help", []string{"--help"}, nil, 0, "Usage: agent check", ""},
		{"unknown flag", []string{"--all"}, environment, 2, "", "-all"},
		{"unknown argument", []string{"now"}, environment, 2, "", `unknown argument "now"`},
		{"unknown output", []string{"--output", "yaml"}, environment, 2, "", `--output is "yaml": must be text or json`},
		{"mistake in the environment", nil, environment[1:], 2, "", "CLUSTER_NAME is required"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := runCheck(t, tt.environ, tt.args...)
			if code != tt.code || !strings.Contains(stdout, tt.stdout) || !strings.Contains(stderr, tt.stderr) {
				t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
			}
		})
	}
}

// TestCheck checks an installation in a simulated AWS, and in a cluster without Nodes whose API server grants everything:
// at first without a hook, then with it.
func TestCheck(t *testing.T) {
	aws, err := awsim.New(awsim.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = aws.Close() }()
	queue := aws.QueueARN(aws.CreateQueue("node-drainer", nil))
	if err := aws.CreateGroup(awsim.Group{
		Name: "workers", Max: 1, Tags: map[string]string{"kubernetes.io/cluster/demo": "owned"},
	}); err != nil {
		t.Fatal(err)
	}
	cluster := httptest.NewServer(http.HandlerFunc(answerReviews))
	defer cluster.Close()
	setenv(t, cluster.URL)
	t.Setenv("AWS_ENDPOINT_URL", aws.URL())

	code, stdout, _ := runCheck(t, environment, "--url", cluster.URL+"/readyz")
	for _, want := range []string{
		"failed       hooks         group workers has no terminating lifecycle hook", "fix: aws autoscaling put-lifecycle-hook",
		"warning      rules         no EventBridge rule sends Spot interruptions to the queue", "fix: aws events put-rule",
		"ok           agent         " + cluster.URL + "/readyz answers 200: ready", "ok           rbac",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("%q is not in the output:\n%s", want, stdout)
		}
	}
	if code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}

	if err := aws.PutHook("workers", awsim.Hook{Name: "drain", NotificationTargetARN: queue}); err != nil {
		t.Fatal(err)
	}
	code, stdout, _ = runCheck(t, environment, "--output", "json")
	var report struct{ OK bool }
	if err := json.Unmarshal([]byte(stdout), &report); err != nil || !report.OK || code != 0 {
		t.Errorf("exit code %d, %v:\n%s", code, err, stdout)
	}
}

// answerReviews plays an API server without objects, which grants everything to everyone.
func answerReviews(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	switch {
	case strings.HasSuffix(r.URL.Path, "/selfsubjectaccessreviews"):
		_, _ = io.WriteString(w, `{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":{"allowed":true}}`)
	case strings.HasSuffix(r.URL.Path, "/selfsubjectreviews"):
		_, _ = io.WriteString(w, `{"kind":"SelfSubjectReview","apiVersion":"authentication.k8s.io/v1","status":{"userInfo":{"username":"me"}}}`)
	case r.URL.Path == "/readyz":
		_, _ = io.WriteString(w, "ready: leading\n")
	default:
		answer(w, r, true)
	}
}
