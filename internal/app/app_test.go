package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/node-drainer/node-drainer/internal/app"
	"github.com/node-drainer/node-drainer/internal/config"
	"github.com/node-drainer/node-drainer/test/harness"
)

// setenv directs the AWS and Kubernetes clients to api alone, whatever files and variables the user has.
func setenv(t *testing.T, api string) {
	t.Helper()
	none := filepath.Join(t.TempDir(), "none")
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := harness.WriteKubeconfig(kubeconfig, api); err != nil {
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

// configFor returns a valid configuration with some more variables.
func configFor(t *testing.T, more ...string) config.Agent {
	t.Helper()
	cfg, err := config.ReadAgent(append([]string{
		"CLUSTER_NAME=demo", "QUEUE_URL=https://sqs.eu-central-1.amazonaws.com/123456789012/node-drainer",
		"LISTEN_ADDRESS=127.0.0.1:0",
	}, more...))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func TestRunFailsToStart(t *testing.T) {
	busy, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	for _, tt := range []struct{ name, variable, value, listen, want string }{
		{"no Region", "AWS_REGION", "", "127.0.0.1:0", "set AWS_REGION"},
		{"no cluster", "KUBECONFIG", filepath.Join(t.TempDir(), "none"), "127.0.0.1:0", "set KUBECONFIG"},
		{"AWS profile does not exist", "AWS_PROFILE", "nobody", "127.0.0.1:0", "configure the AWS SDK"},
		{"address is in use", "AWS_REGION", "eu-central-1", busy.Addr().String(), "LISTEN_ADDRESS: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			setenv(t, "http://127.0.0.1:1")
			t.Setenv(tt.variable, tt.value)
			cfg := configFor(t, "POD_NAMESPACE=agents", "POD_NAME=agent-1", "LISTEN_ADDRESS="+tt.listen)
			if err := app.Run(t.Context(), cfg, "dev", zerolog.Nop()); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got the error %v, want %q", err, tt.want)
			}
		})
	}
}

// start runs the agent against api, and returns its address, its log, and a function that stops it and returns the
// error of Run.
func start(t *testing.T, api http.HandlerFunc, more ...string) (address string, log *safeBuffer, stop func() error) {
	t.Helper()
	server := httptest.NewServer(api)
	t.Cleanup(server.Close)
	setenv(t, server.URL)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	log = new(safeBuffer)
	done := make(chan error, 1)
	cfg := configFor(t, append(more, "LEADER_ELECTION=false")...)
	go func() { done <- app.Run(ctx, cfg, "dev", zerolog.New(log)) }()
	return listenAddress(t, log), log, func() error {
		cancel()
		return <-done
	}
}

// TestReady: /readyz names what is missing, while /healthz is fine, and the agent stops without an error in each state.
func TestReady(t *testing.T) {
	paths := []string{"/api/v1/nodes", "/apis/policy/", "/apis/storage.k8s.io/", "/apis/apps/", "/"}
	for i, want := range []string{
		"the Nodes", "PodDisruptionBudgets or VolumeAttachments", "PodDisruptionBudgets or VolumeAttachments", "DaemonSets",
		"queue's attributes", "ready: ",
	} {
		t.Run(want, func(t *testing.T) {
			address, log, stop := start(t, func(w http.ResponseWriter, r *http.Request) {
				isServed := func(path string) bool { return strings.HasPrefix(r.URL.Path, path) }
				answer(w, r, slices.ContainsFunc(paths[:i], isServed))
			}, "DRY_RUN=true")
			code, body := get(t, "http://"+address+"/readyz")
			for ; !strings.Contains(body, want); code, body = get(t, "http://"+address+"/readyz") {
				time.Sleep(10 * time.Millisecond)
			}
			if isReady := want == "ready: "; isReady != (code == http.StatusOK) {
				t.Errorf("/readyz is %d: %s", code, body)
			}
			if code, _ := get(t, "http://"+address+"/healthz"); code != http.StatusOK {
				t.Errorf("/healthz is %d", code)
			}
			if err := stop(); err != nil {
				t.Errorf("stopped with %v", err)
			}
			for _, text := range []string{`"agent started"`, `"cluster":"demo"`, `"agent stopped"`} {
				if !strings.Contains(log.String(), text) {
					t.Errorf("%s was not logged:\n%s", text, log.String())
				}
			}
		})
	}
}

// answer plays an API server without objects, and an SQS with one queue.
func answer(w http.ResponseWriter, r *http.Request, allowed bool) {
	w.Header().Set("Content-Type", "application/json")
	query := r.URL.Query()
	switch {
	case !allowed:
		w.WriteHeader(http.StatusNotFound)
	case r.Method == http.MethodPost:
		_, _ = w.Write([]byte(`{"Attributes":{"VisibilityTimeout":"30"}}`))
	case query.Has("sendInitialEvents"):
		w.WriteHeader(http.StatusUnprocessableEntity)
		_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422}`))
	case query.Has("watch"):
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	default:
		_, _ = w.Write([]byte(`{"kind":"List","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}`))
	}
}

// safeBuffer is a buffer for several goroutines.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// listenAddress waits for the log line with the address.
func listenAddress(t *testing.T, stdout *safeBuffer) (address string) {
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
			t.Fatalf("no address was logged:\n%s", stdout.String())
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
