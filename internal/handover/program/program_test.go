package program

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/node-drainer/node-drainer/internal/handover/server"
	"github.com/node-drainer/node-drainer/internal/handover/workload"
	"github.com/node-drainer/node-drainer/pkg/handover"
)

// limit is when a test gives up.
const limit = 30 * time.Second

// request asks about a pod that names a Secret.
func request() workload.Request {
	return workload.Request{Pod: workload.Pod{
		Namespace: "shop", Name: "redis-0", IP: "10.0.0.1", Annotations: map[string]string{
			workload.SecretAnnotation: "redis",
		},
	}}
}

// TestSecretIsRead from the API server, in the namespace of the pod, and its password is not sent without TLS.
func TestSecretIsRead(t *testing.T) {
	t.Parallel()
	secret := func(namespace string) *corev1.Secret {
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "redis"}, Data: map[string][]byte{"password": []byte("x")},
		}
	}
	for name, tt := range map[string]struct {
		client *fake.Clientset
		want   string
	}{
		"there is one":         {fake.NewClientset(secret("shop")), "refuse to send a password to redis-0 without TLS"},
		"in another namespace": {fake.NewClientset(secret("pay")), `secrets "redis" not found`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answer, err := newReleaser(Config{}, tt.client, nil).Release(t.Context(), request())
			if err != nil || answer.Outcome != handover.Refused || !strings.Contains(answer.Message, tt.want) {
				t.Errorf("got %+v, %v, want %q", answer, err, tt.want)
			}
		})
	}
}

// TestSurgesAreConfigured: without the right to them there is no request for their records.
func TestSurgesAreConfigured(t *testing.T) {
	t.Parallel()
	client := fake.NewClientset(&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "records"},
		Data:       map[string]string{"shop.redis": `{"replicas":3}`},
	})
	for want, surges := range []bool{false, true} {
		cfg := Config{PodNamespace: "shop", SurgeRecords: "records", Surges: surges}
		all, err := newReleaser(cfg, client, nil).Surges(t.Context())
		if err != nil || len(all) != want || len(client.Actions()) != want {
			t.Errorf("SURGES=%t: got %+v, %v, and %d requests", surges, all, err, len(client.Actions()))
		}
	}
}

// TestNetworksAreConfigured.
func TestNetworksAreConfigured(t *testing.T) {
	t.Parallel()
	r := request()
	r.Pod.IP, r.Pod.Annotations = "127.0.0.1", map[string]string{workload.PortAnnotation: "1"}
	for networks, want := range map[string]string{
		"": "NETWORKS does not list it", "127.0.0.0/8": "connect to redis-0: ",
	} {
		answer, err := newReleaser(Config{Networks: networks}, fake.NewClientset(), nil).Release(t.Context(), r)
		if err != nil || answer.Go || !strings.Contains(answer.Message, want) {
			t.Errorf("NETWORKS=%s: got %+v, %v, want %q", networks, answer, err, want)
		}
	}
}

// lines is a writer whose lines a test reads.
type lines chan string

func (l lines) Write(b []byte) (int, error) {
	l <- string(b)
	return len(b), nil
}

// await returns the next line that contains a text.
func (l lines) await(t *testing.T, text string) string {
	t.Helper()
	for timeout := time.After(limit); ; {
		select {
		case line := <-l:
			if strings.Contains(line, text) {
				return line
			}
		case <-timeout:
			t.Fatalf("no line with %q", text)
		}
	}
}

// TestRun asks a program that runs, whose API server has one pod, and ends it.
func TestRun(t *testing.T) {
	pods := corev1.PodList{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"},
		Items:    []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a", UID: "1"}}},
	}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/namespaces/shop/pods" || !strings.Contains(r.UserAgent(), "node-drainer-handover/v1") {
			t.Errorf("%s of %s", r.URL, r.UserAgent())
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(pods)
	}))
	t.Cleanup(api.Close)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"a","contexts":[{"name":"a","context":`+
		`{"cluster":"a","user":"a"}}],"clusters":[{"name":"a","cluster":{"server":%q}}],"users":[{"name":"a"}]}`, api.URL)
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", kubeconfig)
	cfg, err := Read([]string{"POD_NAMESPACE=shop", "LISTEN_ADDRESS=127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	log, ended := make(lines, 100), make(chan error, 1)
	go func() { ended <- Run(ctx, cfg, "v1", log) }()
	var started struct{ Listen, Namespace, Version string }
	if err := json.Unmarshal([]byte(log.await(t, "handover started")), &started); err != nil || started.Namespace != "shop" {
		t.Fatal(started, err)
	}
	for _, tt := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"GET", "/healthz", "", 200, ""},
		{"POST", "/hand-over", `{"namespace":"shop","pod":"a","uid":"1"}`, 200, `"outcome":"invalid"`},
		{"POST", "/hand-over", `{"namespace":"pay","pod":"a","uid":"1"}`, 403, "another namespace"},
		{"GET", "/hand-over", "", 405, ""},
		{"POST", "/", "{}", 404, ""},
	} {
		status, body := call(t, tt.method, "http://"+started.Listen+tt.path, tt.body)
		if status != tt.status || !strings.Contains(body, tt.want) {
			t.Errorf("%s %s: got %d %s", tt.method, tt.path, status, body)
		}
	}
	log.await(t, `"outcome":"invalid"`)
	cancel()
	if err := await(t, ended); err != nil {
		t.Error(err)
	}
	log.await(t, "handover stopped")
}

func call(t *testing.T, method, url, body string) (status int, text string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Close = true
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	read, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(read)
}

func await(t *testing.T, ended <-chan error) error {
	t.Helper()
	select {
	case err := <-ended:
		return err
	case <-time.After(limit):
		t.Fatal("it has not ended")
		return nil
	}
}

// TestRunFails if nobody could ask, or be asked.
func TestRunFails(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	if err := Run(t.Context(), Config{ListenAddress: "127.0.0.1:0"}, "v1", io.Discard); err == nil ||
		!strings.Contains(err.Error(), "set KUBECONFIG outside a cluster") {
		t.Errorf("error %v", err)
	}
}

// silent observes nothing.
type silent struct{}

func (silent) Answered(string, handover.Answer, error, time.Duration) {}
func (silent) ReconcileFailed(error)                                  {}
func (silent) SurgePutOff(workload.Surge, string)                     {}

// newServer returns one whose lists of pods take until a channel is closed.
func newServer(begun chan<- struct{}, list <-chan struct{}) *server.Server {
	return server.New(server.Options{
		Namespace: "shop", Observer: silent{}, Releaser: newReleaser(Config{}, fake.NewClientset(), nil),
		List: func(context.Context) ([]workload.Pod, error) {
			begun <- struct{}{}
			<-list
			return nil, nil
		},
	})
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// TestServeEndsWhatHasBegun: a question that is being answered when the program is to end gets its answer.
func TestServeEndsWhatHasBegun(t *testing.T) {
	t.Parallel()
	begun, list, listener := make(chan struct{}), make(chan struct{}), listen(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended, answered := make(chan error, 1), make(chan string, 1)
	go func() { ended <- serve(ctx, listener, newServer(begun, list)) }()
	go func() {
		_, text := call(t, "POST", "http://"+listener.Addr().String()+"/hand-over", `{"namespace":"shop","pod":"a","uid":"1"}`)
		answered <- text
	}()
	<-begun
	cancel()
	for { // New connections are refused as soon as it is ending.
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", listener.Addr().String())
		if err != nil {
			break
		}
		_ = conn.Close()
	}
	select {
	case err := <-ended:
		t.Errorf("it has ended before the answer: %v", err)
	default:
	}
	close(list)
	if text := <-answered; !strings.Contains(text, "the pod is gone") {
		t.Errorf("got %s", text)
	}
	if err := await(t, ended); err != nil {
		t.Error(err)
	}
}

// TestServeFails when nothing can be accepted, instead of waiting for its end.
func TestServeFails(t *testing.T) {
	t.Parallel()
	listener, ended := listen(t), make(chan error, 1)
	_ = listener.Close()
	go func() { ended <- serve(t.Context(), listener, newServer(nil, nil)) }()
	if err := await(t, ended); err == nil {
		t.Error("no error")
	}
}
