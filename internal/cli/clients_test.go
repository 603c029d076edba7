package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/internal/rollout/plan"
)

// TestAWSErrors: the error of a wrong setting of the SDK ends with what the user can do.
func TestAWSErrors(t *testing.T) {
	for code, want := range map[string]string{
		"ExpiredToken": "; get new credentials", "InvalidClientTokenId": "; check the credentials",
		"SignatureDoesNotMatch": "; check the clock", "AccessDenied": "; allow it to this identity",
		"": "; can this host reach AWS (network, HTTPS_PROXY, AWS_ENDPOINT_URL)?\n", // such as a proxy's page
	} {
		fakeAWS(t, func(w http.ResponseWriter, _ *http.Request) {
			if code == "" {
				_, _ = io.WriteString(w, "<html>log in</html>")
				return
			}
			w.WriteHeader(http.StatusForbidden)
			_, _ = fmt.Fprintf(w, "<ErrorResponse><Error><Code>%s</Code></Error></ErrorResponse>", code)
		})
		var stderr bytes.Buffer
		run(t.Context(), []string{"plan", "--asg", "workers", "--no-kubernetes"}, nil, io.Discard, &stderr)
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("%s: %s", code, stderr.String())
		}
	}
}

// TestSilentCredentials: a note says it if whoever issues the credentials does not answer.
func TestSilentCredentials(t *testing.T) {
	said := make(chan string, 10)
	ctx, stop := context.WithCancel(t.Context())
	fakeAWS(t, func(http.ResponseWriter, *http.Request) { <-ctx.Done() })
	p := newProgram(nil, io.Discard, notify{func(text string) { said <- text; stop() }})
	p.executor.patience = time.Millisecond
	p.run(ctx, strings.Fields("plan --asg workers --no-kubernetes --role-arn arn:aws:iam::123456789012:role/x"))
	if first := <-said; !strings.Contains(first, "no AWS credentials yet; still trying") {
		t.Errorf("the note is %q", first)
	}
}

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
	twoContexts := filepath.Join(t.TempDir(), "two")
	text := []byte("{contexts: [{name: green, context: {cluster: c}}, {name: blue, context: {cluster: c}}]}")
	if err := os.WriteFile(twoContexts, text, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, args string
		note, err  string
	}{
		{"no cluster configured", "", "continuing without Kubernetes: no cluster is configured: KUBECONFIG names no file that exists: ", ""},
		{"disabled", "--no-kubernetes", "", ""},
		{"missing file", "--kubeconfig /nowhere/config", "", "/nowhere/config"},
		{"missing context", "--context prod", "", `context "prod" does not exist`},
		{"one of another name", "--context prod --kubeconfig " + twoContexts, "", `context "prod" does not exist; there is blue, green`},
		{"labels exclude nodes", "--mode unhealthy --exclude-node-label pet", "", "no cluster is configured"},
		{"taints", "--taint-outdated soft", "", "no cluster is configured"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var stderr bytes.Buffer
			s, _, rejected := read(t, nil, strings.Fields("--asg workers "+tt.args)...)
			if s == nil {
				t.Fatal(rejected)
			}
			c := &clients{config: plan.Config{}}
			err := (&executor{stderr: &stderr, settings: s, patience: time.Minute}).connectKubernetes(t.Context(), c)
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
	if code != 1 || !strings.Contains(stderr.String(), "no AWS region is set: set AWS_REGION, the Region of the profile, --region of the trigger or aws.region of the chart") {
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

// fakeAWS has the clients call this server, with credentials that it does not look at.
func fakeAWS(t *testing.T, answer http.HandlerFunc) {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	none := filepath.Join(t.TempDir(), "none")
	for name, value := range map[string]string{
		"AWS_REGION": "eu-central-1", "AWS_PROFILE": "", "AWS_CONFIG_FILE": none, "AWS_SHARED_CREDENTIALS_FILE": none,
		"AWS_EC2_METADATA_DISABLED": "true", "AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret",
		"AWS_ENDPOINT_URL": server.URL,
	} {
		t.Setenv(name, value)
	}
}

// noGroups answers DescribeAutoScalingGroups and GetCallerIdentity.
func noGroups(w http.ResponseWriter, r *http.Request) {
	if r.FormValue("Action") == "GetCallerIdentity" {
		_, _ = io.WriteString(w, "<GetCallerIdentityResponse><GetCallerIdentityResult><Account>123456789012</Account>"+
			"</GetCallerIdentityResult></GetCallerIdentityResponse>")
		return
	}
	_, _ = io.WriteString(w, "<DescribeAutoScalingGroupsResponse><DescribeAutoScalingGroupsResult><AutoScalingGroups/>"+
		"</DescribeAutoScalingGroupsResult></DescribeAutoScalingGroupsResponse>")
}

// TestWhereNoGroupIs: the error for a group that does not exist says where it was looked for.
func TestWhereNoGroupIs(t *testing.T) {
	fakeAWS(t, noGroups)
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), []string{"plan", "--asg", "wrokers", "--no-kubernetes"}, nil, &stdout, &stderr)
	const want = "wrokers; is this the right account and Region? (account 123456789012, Region eu-central-1)\n"
	if code != 1 || !strings.HasSuffix(stderr.String(), want) {
		t.Errorf("exit code %d: %s", code, stderr.String())
	}
}

// notify calls written at each write.
type notify struct{ written func(text string) }

func (n notify) Write(p []byte) (int, error) {
	n.written(string(p))
	return len(p), nil
}

// TestSilentAWS: a note says which Region is asked if AWS does not answer for some seconds.
func TestSilentAWS(t *testing.T) {
	said := make(chan string, 10)
	first := ""
	fakeAWS(t, func(w http.ResponseWriter, r *http.Request) {
		for first == "" || strings.Contains(first, "credentials") { // which may take longer, too
			first = <-said // AWS is silent until then.
		}
		noGroups(w, r)
	})
	p := newProgram(nil, io.Discard, notify{func(text string) { said <- text }})
	p.executor.patience = time.Millisecond
	p.run(t.Context(), []string{"plan", "--asg", "workers", "--no-kubernetes"})
	if !strings.Contains(first, "no answer yet from AWS in Region eu-central-1; still trying; can this host reach AWS") {
		t.Errorf("the note is %q", first)
	}
	if last := <-said; !strings.Contains(last, "no such Auto Scaling group") {
		t.Errorf("after the note: %q", last)
	}
}
