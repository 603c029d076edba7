package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

const queueURL = "QUEUE_URL=https://sqs.eu-central-1.amazonaws.com/123456789012/node-drainer"

// TestArguments: the arguments ask for information, and nothing is served.
func TestArguments(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		args   []string
		code   int
		stdout []string
		stderr string
	}{
		{"--help lists the variables", []string{"--help"}, 0, []string{"QUEUE_URL (required)", "LOG_LEVEL (default info)"}, ""},
		{"so does -h", []string{"-h"}, 0, []string{"QUEUE_URL (required)"}, ""},
		{"--version tells the version", []string{"--version"}, 0, []string{"node-drainer agent " + version + "\n"}, ""},
		{"an unknown argument is a wrong usage", []string{"drain"}, 2, nil, `unknown argument "drain"`},
		{"an argument that follows a known one, too", []string{"--version", "now"}, 2, nil, `unknown argument "--version now"`},
		{"a page without a name, too", []string{"--help-markdown"}, 2, nil, "--help-markdown"},
		{"an empty argument, too", []string{""}, 2, nil, `unknown argument ""`},
		{
			"a page that cannot be written is a failure",
			[]string{"--help-markdown", filepath.Join(t.TempDir(), "missing", "page.md")},
			1, nil, "page.md",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var stdout, stderr bytes.Buffer
			if code := run(t.Context(), tt.args, nil, &stdout, &stderr); code != tt.code {
				t.Errorf("exit code %d, want %d", code, tt.code)
			}
			for _, want := range tt.stdout {
				if !strings.Contains(stdout.String(), want) {
					t.Errorf("%q is not in the output:\n%s", want, stdout.String())
				}
			}
			if !strings.Contains(stderr.String(), tt.stderr) || (tt.stderr == "") != (stderr.Len() == 0) {
				t.Errorf("the errors are %q, want %q", stderr.String(), tt.stderr)
			}
			if tt.stdout == nil && stdout.Len() > 0 {
				t.Errorf("a failure has the output %q", stdout.String())
			}
			if strings.Count(stderr.String(), "\n") > 1 {
				t.Errorf("the error takes more than a line:\n%s", stderr.String())
			}
		})
	}
}

func TestPage(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "page.md")
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"--help-markdown", path}, nil, &stdout, &stderr); code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr.String())
	}
	page, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(page), "| `QUEUE_URL` | required |") {
		t.Errorf("the page is %q, %v", page, err)
	}
}

type closed struct{}

func (closed) Write([]byte) (int, error) { return 0, os.ErrClosed }

func TestOutputClosed(t *testing.T) {
	t.Parallel()
	for _, arg := range []string{"--help", "--version"} {
		var stderr bytes.Buffer
		if code := run(t.Context(), []string{arg}, nil, closed{}, &stderr); code != 1 || stderr.Len() == 0 {
			t.Errorf("%s: exit code %d, errors %q", arg, code, stderr.String())
		}
	}
}

// TestMistakes: each mistake in the environment is listed, and nothing is started.
func TestMistakes(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	environ := []string{"CLUSTER_NAME=demo", "QUEUE_MAX_IN_FLIGHT=many", "DRAIN_TIMEOUT=100h", "LOG_LEVEL=loud"}
	if code := run(t.Context(), nil, environ, &stdout, &stderr); code != 2 {
		t.Errorf("exit code %d, want 2", code)
	}
	for _, want := range []string{
		"QUEUE_URL is required", `QUEUE_MAX_IN_FLIGHT is "many"`, "DRAIN_TIMEOUT is 100h0m0s", `LOG_LEVEL is "loud"`,
	} {
		if strings.Count(stderr.String(), "\n  "+want) != 1 {
			t.Errorf("%q is not listed once:\n%s", want, stderr.String())
		}
	}
	if stdout.Len() > 0 {
		t.Errorf("something was started: %s", stdout.String())
	}
}

// setenv is the world of the clients: no files of the user, an API server and an SQS that refuse everything.
func setenv(t *testing.T, api string) {
	t.Helper()
	none := filepath.Join(t.TempDir(), "none")
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	text := `{"apiVersion":"v1","kind":"Config","current-context":"c","clusters":[{"name":"c","cluster":{"server":"` + api +
		`"}}],"contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],"users":[{"name":"u","user":{}}]}`
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, kv := range [][2]string{
		{"AWS_CONFIG_FILE", none},
		{"AWS_SHARED_CREDENTIALS_FILE", none},
		{"AWS_ACCESS_KEY_ID", "id"},
		{"AWS_SECRET_ACCESS_KEY", "secret"},
		{"AWS_REGION", "eu-central-1"},
		{"AWS_DEFAULT_REGION", ""},
		{"AWS_ENDPOINT_URL", api},
		{"AWS_EC2_METADATA_DISABLED", "true"},
		{"KUBERNETES_SERVICE_HOST", ""},
		{"KUBECONFIG", kubeconfig},
	} {
		t.Setenv(kv[0], kv[1])
	}
}

// TestCannotStart: what is missing around the agent ends it with 1 and a line that says what.
func TestCannotStart(t *testing.T) {
	busy, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	for _, tt := range []struct{ name, variable, value, listen, want string }{
		{"no region", "AWS_REGION", "", "127.0.0.1:0", "set AWS_REGION"},
		{"no cluster", "KUBECONFIG", filepath.Join(t.TempDir(), "none"), "127.0.0.1:0", "set KUBECONFIG"},
		{"a profile that is not there", "AWS_PROFILE", "nobody", "127.0.0.1:0", "configure the AWS SDK"},
		{"an address that is taken", "AWS_REGION", "eu-central-1", busy.Addr().String(), "LISTEN_ADDRESS: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			setenv(t, "http://127.0.0.1:1")
			t.Setenv(tt.variable, tt.value)
			var stdout, stderr bytes.Buffer
			code := run(t.Context(), nil, []string{"CLUSTER_NAME=demo", queueURL, "POD_NAMESPACE=agents", "LISTEN_ADDRESS=" + tt.listen}, &stdout, &stderr)
			if code != 1 || !strings.Contains(stderr.String(), tt.want) {
				t.Errorf("exit code %d and %q, want 1 and %q", code, stderr.String(), tt.want)
			}
		})
	}
}

// TestStopsAsAsked: an agent that reaches nobody is alive and not ready, says why, and stops with 0.
func TestStopsAsAsked(t *testing.T) {
	api := httptest.NewServer(http.NotFoundHandler())
	defer api.Close()
	setenv(t, api.URL)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var stdout, stderr output
	done := make(chan int)
	go func() {
		done <- run(ctx, nil, []string{"CLUSTER_NAME=demo", queueURL, "POD_NAMESPACE=agents", "LISTEN_ADDRESS=127.0.0.1:0"}, &stdout, &stderr)
	}()
	address := listening(t, &stdout)
	if code, _ := get(t, "http://"+address+"/healthz"); code != http.StatusOK {
		t.Errorf("/healthz is %d", code)
	}
	if code, body := get(t, "http://"+address+"/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(body, "Nodes") {
		t.Errorf("/readyz is %d: %s", code, body)
	}
	stop()
	if code := <-done; code != 0 || stderr.String() != "" {
		t.Errorf("exit code %d and %q, want 0", code, stderr.String())
	}
	for _, want := range []string{`"agent started"`, `"cluster":"demo"`, `"agent stopped"`} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("%s was not logged:\n%s", want, stdout.String())
		}
	}
}

// output takes the lines of several goroutines, as a file does.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// listening waits for the line with which the agent tells its address.
func listening(t *testing.T, stdout *output) (address string) {
	t.Helper()
	for deadline := time.After(time.Minute); ; {
		for line := range strings.Lines(stdout.String()) {
			var started struct{ Listen string }
			if json.Unmarshal([]byte(line), &started) == nil && started.Listen != "" {
				return started.Listen
			}
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-deadline:
			t.Fatalf("it has not told where it listens:\n%s", stdout.String())
		}
	}
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	res, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(body)
}
