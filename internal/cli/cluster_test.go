package cli

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/test/harness"
)

const (
	nodeJSON = `{"kind":"Node","apiVersion":"v1","metadata":{"name":"node-1","uid":"u","resourceVersion":"1","annotations":` +
		`{"node-drainer.io/termination":"{\"instance\":\"i-0123456789abcdef0\",\"reason\":\"spot-interruption\"}"}},` +
		`"spec":{"providerID":"aws:///eu-central-1a/i-0123456789abcdef0"}}`
	// initialEventsEnd ends the initial events of a watch. Source: "Streaming lists" in the Kubernetes API concepts.
	initialEventsEnd = `{"type":"BOOKMARK","object":{"kind":"Node","apiVersion":"v1","metadata":` +
		`{"resourceVersion":"1","annotations":{"k8s.io/initial-events-end":"true"}}}}`
	podJSON = `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"trigger-1"},"spec":{"nodeName":"node-1"}}`
)

// noBudgets is an empty list of PodDisruptionBudgets.
const noBudgets = `{"kind":"PodDisruptionBudgetList","apiVersion":"policy/v1","items":[]}`

// serveCluster is an API server with node-1 and a pod on it, and these budgets; empty if they cannot be listed. It
// returns a kubeconfig.
func serveCluster(t *testing.T, budgets string) (kubeconfig string) {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/nodes", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Query().Get("watch") == "" {
			_, _ = fmt.Fprintf(w, `{"kind":"NodeList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[%s]}`, nodeJSON)
			return
		}
		if r.URL.Query().Get("sendInitialEvents") == "true" {
			_, _ = fmt.Fprintf(w, "{\"type\":\"ADDED\",\"object\":%s}\n%s\n", nodeJSON, initialEventsEnd)
		}
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	mux.HandleFunc("GET /api/v1/namespaces/agents/pods/trigger-1", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, podJSON)
	})
	mux.HandleFunc("GET /api/v1/pods", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"kind":"PodList","apiVersion":"v1","items":[`+podJSON+`]}`)
	})
	if budgets != "" {
		mux.HandleFunc("GET /apis/policy/v1/poddisruptionbudgets", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, budgets)
		})
	}
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	if err := harness.WriteKubeconfig(kubeconfig, server.URL); err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}

// TestWithCluster: the trigger reads nodes, and finds the instance that its own pod runs on.
func TestWithCluster(t *testing.T) {
	t.Parallel()
	kubeconfig := serveCluster(t, noBudgets)
	for _, tt := range []struct {
		name    string
		environ map[string]string
		self    string
	}{
		{"a pod with POD_NAME", map[string]string{"POD_NAMESPACE": "agents", "POD_NAME": "trigger-1"}, "i-0123456789abcdef0"},
		{"a pod with HOSTNAME", map[string]string{"POD_NAMESPACE": "agents", "HOSTNAME": "trigger-1"}, "i-0123456789abcdef0"},
		{"a pod that cannot be read", map[string]string{"POD_NAMESPACE": "agents", "POD_NAME": "trigger-2"}, ""},
		{"no pod", nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var stderr bytes.Buffer
			s, _, rejected := read(t, nil, strings.Fields("--asg workers --kubeconfig "+kubeconfig)...)
			if s == nil {
				t.Fatal(rejected)
			}
			c := &clients{}
			e := executor{stderr: &stderr, settings: s, environ: tt.environ, patience: time.Minute}
			if err := e.connectKubernetes(t.Context(), c); err != nil || stderr.Len() > 0 {
				t.Fatalf("connect: %v, %s", err, stderr.String())
			}
			defer c.close()
			if n, ok := c.view.Node("i-0123456789abcdef0"); !ok || n.Name != "node-1" {
				t.Errorf("the instance has node %q", n.Name)
			}
			if c.config.Self != tt.self {
				t.Errorf("the trigger runs on instance %q, want %q", c.config.Self, tt.self)
			}
		})
	}
}

// TestAutoscalerThatDoesNotExist: nothing is replaced beside an autoscaler that was to be paused, but was mistyped.
func TestAutoscalerThatDoesNotExist(t *testing.T) {
	t.Parallel()
	args := "--asg workers --pause-autoscaler kube-system/nope --kubeconfig " + serveCluster(t, noBudgets)
	s, _, rejected := read(t, nil, strings.Fields(args)...)
	if s == nil {
		t.Fatal(rejected)
	}
	err := (&executor{stderr: io.Discard, settings: s, patience: time.Minute}).connectKubernetes(t.Context(), &clients{})
	const want = "--pause-autoscaler: read the Deployment kube-system/nope: "
	if err == nil || !strings.HasPrefix(err.Error(), want) || !strings.HasSuffix(err.Error(), "shows those that exist") {
		t.Errorf("got %v", err)
	}
}
