package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/node-drainer/node-drainer/internal/history"
	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/test/harness"
)

// records are those of two drains, as the agent has written them.
const records = `{"node":"node-1","uid":"1","instance":"i-0123456789abcdef0","event":"spot-interruption","cause":"EC2 interrupts it","began":"2027-03-01T10:00:00Z","deadline":"2027-03-01T10:02:00Z","expected":"2027-03-01T10:01:31Z","ended":"2027-03-01T10:01:40Z","outcome":"drained","pods":1,"evicted":1,"deleted":0,"gone":0,"left":0,"details":[{"pod":"web/a","at":"2027-03-01T10:00:03Z","how":"evicted","budgets":["web/b"]}]}
{"node":"node-2","uid":"2","instance":"i-0123456789abcdef1","event":"lifecycle-terminating","cause":"it terminates","began":"2027-03-01T11:00:00Z","ended":"2027-03-01T12:00:00Z","outcome":"by-force","pods":1,"evicted":0,"deleted":1,"gone":0,"left":0,"details":[{"pod":"web/b","at":"2027-03-01T11:59:00Z","how":"deleted","why":"deadline","bypassed":["web/b"]}],"omitted":2}
`

// serveRecords is an API server with these ConfigMaps, which may be listed; without one it refuses all requests. It
// returns a kubeconfig.
func serveRecords(t *testing.T, names ...string) (kubeconfig string) {
	t.Helper()
	list := corev1.ConfigMapList{TypeMeta: metav1.TypeMeta{Kind: "ConfigMapList", APIVersion: "v1"}}
	for _, name := range names {
		namespace, name, _ := strings.Cut(name, "/")
		list.Items = append(list.Items, corev1.ConfigMap{
			TypeMeta:   metav1.TypeMeta{Kind: "ConfigMap", APIVersion: "v1"},
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{history.Label: "true"}},
			Data:       map[string]string{"drains": records},
		})
	}
	answer := func(w http.ResponseWriter, code int, value any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(value)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status := metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Reason: "NotFound", Code: 404}
		for _, c := range list.Items {
			if r.URL.Path == "/api/v1/namespaces/"+c.Namespace+"/configmaps/"+c.Name {
				answer(w, http.StatusOK, c)
				return
			}
		}
		switch {
		case len(names) == 0:
			status.Reason, status.Code = "Forbidden", 403
		case r.URL.Path == "/api/v1/configmaps" && r.URL.Query().Get("labelSelector") == history.Label:
			answer(w, http.StatusOK, list)
			return
		}
		answer(w, int(status.Code), status)
	}))
	t.Cleanup(server.Close)
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	if err := harness.WriteKubeconfig(kubeconfig, server.URL); err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}

// TestHistory: the drains are shown, the newest first, and what became of the pods of one; or why not, and what to do.
func TestHistory(t *testing.T) {
	t.Setenv("GITHUB_STEP_SUMMARY", "")
	one, several := []string{"kube-system/node-drainer-history"}, []string{"a/history", "b/history"}
	inPod := []string{"POD_NAMESPACE=b", "HISTORY_CONFIGMAP=history"}
	for _, tt := range []struct {
		name    string
		there   []string
		environ []string
		args    string
		code    int
		want    []string // in this order; of stderr if the code is not 0
		lacks   string
	}{
		{"all drains", one, nil, "", 0, []string{"NODE", "node-2", "by-force", "node-1", "1m40s", "2027-03-01 10:02:00Z", "drained"}, "web/a"},
		{"one node", one, nil, "node-2", 0, []string{"node-2", "POD", "web/b", "2027-03-01 11:59:00Z", "deleted", "deadline", "bypassed web/b", "no details of 2 pods"}, "node-1"},
		{"one instance", one, nil, "i-0123456789abcdef0", 0, []string{"node-1", "EC2 interrupts it", "web/a", "evicted", "kept web/b"}, "node-2"},
		{"an unknown node", one, nil, "node-3", 1, []string{"no drain of node-3 is recorded", "2 drains, since 2027-03-01 10:00:00Z"}, ""},
		{"two nodes", one, nil, "node-1 node-2", 1, []string{"2 arguments", "one node or one instance"}, ""},
		{"several agents", several, nil, "", 1, []string{"several agents keep records: a/history, b/history; choose one with --configmap"}, ""},
		{"one of several agents", several, nil, "--configmap b/history", 0, []string{"node-2"}, ""},
		{"in the pod of an agent", several, inPod, "", 0, []string{"node-2"}, ""},
		{"in another namespace", one, inPod, "", 1, []string{"get ConfigMap b/history", "history.enabled"}, ""},
		{"no name", one, nil, "--configmap history", 1, []string{"--configmap is \"history\": must be NAMESPACE/NAME"}, ""},
		{"in the pod of an agent without history", nil, []string{"POD_NAMESPACE=b"}, "", 1, []string{"list ConfigMaps", "HISTORY_CONFIGMAP is not set in this pod"}, ""},
		{"no permission", nil, nil, "", 1, []string{"list ConfigMaps", "kubectl -n kube-system exec deployment/node-drainer -- /trigger history"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			args := append([]string{"history", "--kubeconfig", serveRecords(t, tt.there...)}, strings.Fields(tt.args)...)
			code := run(t.Context(), args, tt.environ, &stdout, &stderr)
			got := stdout.String()
			if code != 0 {
				got = stderr.String()
			}
			if code != tt.code || tt.lacks != "" && strings.Contains(got, tt.lacks) {
				t.Fatalf("exit code %d:\n%s%s", code, &stdout, &stderr)
			}
			rest := got
			for _, want := range tt.want {
				_, after, found := strings.Cut(rest, want)
				if !found {
					t.Fatalf("%q is not there, or not in this order:\n%s", want, got)
				}
				rest = after
			}
		})
	}
}

// TestHistoryFormats: the JSON formats have the records with all that they have.
func TestHistoryFormats(t *testing.T) {
	t.Parallel()
	kubeconfig := serveRecords(t, "kube-system/node-drainer-history")
	var document struct {
		Version int
		Drains  []history.Drain
	}
	var line struct {
		Type  string
		Drain history.Drain
	}
	for format, into := range map[string]any{"json": &document, "ndjson": &line} {
		var stdout bytes.Buffer
		code := run(t.Context(), []string{"history", "-o", format, "--kubeconfig", kubeconfig}, nil, &stdout, io.Discard)
		if err := json.NewDecoder(&stdout).Decode(into); err != nil || code != 0 {
			t.Errorf("%s: exit code %d, %v", format, code, err)
		}
	}
	if document.Version != report.Version || len(document.Drains) != 2 || document.Drains[0].Details[0].Name != "web/b" {
		t.Errorf("json: %+v", document)
	}
	if line.Type != "drain" || line.Drain.Node != "node-2" || line.Drain.Omitted != 2 {
		t.Errorf("ndjson: %+v", line)
	}
}
