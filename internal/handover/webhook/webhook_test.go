package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"reflect"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/node-drainer/node-drainer/pkg/handover"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serviceAt is the Service asked, whose only port is one of the loopback.
func serviceAt(t *testing.T, listener net.Addr) *corev1.Service {
	t.Helper()
	address := netip.MustParseAddrPort(listener.String())
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "asked"},
		Spec: corev1.ServiceSpec{
			ClusterIP: address.Addr().String(), Type: corev1.ServiceTypeClusterIP,
			Ports: []corev1.ServicePort{{Name: PortName, Port: int32(address.Port())}},
		},
	}
}

// pod is one that names a Service.
func pod(service string) handover.Pod {
	return handover.Pod{
		Namespace: "shop", Name: "db-0", UID: "uid-1", Node: "node-1",
		Annotations: map[string]string{handover.ServiceAnnotation: service},
	}
}

func serve(t *testing.T, handler http.HandlerFunc) *corev1.Service {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return serviceAt(t, server.Listener.Addr())
}

// reply is what a Service answers.
type reply struct {
	status  int
	headers map[string]string
	body    string
}

func (r reply) write(w http.ResponseWriter) {
	for name, value := range r.headers {
		w.Header().Set(name, value)
	}
	w.WriteHeader(r.status)
	_, _ = w.Write([]byte(r.body))
}

// expectAnswer expects an answer to one question, which is sent once, without credentials.
func expectAnswer(t *testing.T, r reply, want handover.Answer) {
	t.Helper()
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	deadline := time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("", 3600))
	var calls atomic.Int32
	service := serve(t, func(w http.ResponseWriter, r2 *http.Request) {
		calls.Add(1)
		var got Question
		if err := json.NewDecoder(r2.Body).Decode(&got); err != nil || r2.Method != http.MethodPost || r2.URL.Path != "/hand-over" {
			t.Errorf("%s %s: %v", r2.Method, r2.URL, err)
		}
		want := Question{"shop", "db-0", "uid-1", "node-1", deadline.UTC(), true, []string{"node-1", "node-2"}}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("asked %+v, want %+v", got, want)
		}
		if r2.Header.Get("Authorization")+r2.Header.Get("Cookie") != "" || r2.Header.Get("Content-Type") != "application/json" {
			t.Errorf("headers: %v", r2.Header)
		}
		r.write(w)
	})
	got, err := New(fake.NewClientset(service)).Release(t.Context(), handover.Request{
		Pod: pod("asked"), Deadline: deadline, Last: true, Leaving: []string{"node-1", "node-2"},
	})
	if err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	if calls.Load() != 1 {
		t.Errorf("%d calls", calls.Load())
	}
}

func TestRelease(t *testing.T) {
	for _, tt := range []struct {
		name  string
		reply reply
		want  handover.Answer
	}{
		{"yes", reply{200, nil, ""}, handover.Answer{Go: true, Outcome: handover.HandedOver}},
		{
			"yes, with words",
			reply{200, nil, "db-1 leads.\n"},
			handover.Answer{Go: true, Outcome: handover.HandedOver, Message: "db-1 leads"},
		},
		{"not yet", reply{202, nil, "2 of 3\nin sync"}, handover.Answer{Outcome: handover.HandingOver, Message: "2 of 3 in sync"}},
		{
			"not yet, and when",
			reply{202, map[string]string{"Retry-After": "7"}, ""},
			handover.Answer{Outcome: handover.HandingOver, Again: 7 * time.Second},
		},
		{
			"not yet, and nonsense",
			reply{202, map[string]string{"Retry-After": "-1"}, ""},
			handover.Answer{Outcome: handover.HandingOver},
		},
		{
			"no",
			reply{409, nil, "no replica"},
			handover.Answer{Outcome: handover.Refused, Message: "the Service answers 409 Conflict: no replica"},
		},
		{
			"no such path",
			reply{404, nil, ""},
			handover.Answer{Outcome: handover.Refused, Message: "the Service answers 404 Not Found"},
		},
		{
			"a redirect is not followed",
			reply{307, map[string]string{"Location": "http://127.0.0.1:1/"}, ""},
			handover.Answer{Outcome: handover.Refused, Message: "the Service answers 307 Temporary Redirect"},
		},
		{
			"control characters",
			reply{500, nil, "a\x1b[31m\x00\xff"},
			handover.Answer{Outcome: handover.Refused, Message: "the Service answers 500 Internal Server Error: a[31m�"},
		},
		{
			"a long body",
			reply{500, nil, strings.Repeat("x", 10_000)},
			handover.Answer{
				Outcome: handover.Refused,
				Message: "the Service answers 500 Internal Server Error: " + strings.Repeat("x", maxMessage-3) + "…",
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) { expectAnswer(t, tt.reply, tt.want) })
	}
}

// TestJSONReplies: a reply can say more than its status does, and nothing else.
func TestJSONReplies(t *testing.T) {
	const handedOver, handingOver, refused = handover.HandedOver, handover.HandingOver, handover.Refused
	for _, tt := range []struct {
		name, body string
		status     int
		want       handover.Answer
	}{
		{"no field", `{}`, 200, handover.Answer{Go: true, Outcome: handedOver}},
		{
			"handed over", `{"outcome":"handed-over","leader":"db-1","message":"db-1 leads instead of db-0."}`, 200,
			handover.Answer{Go: true, Outcome: handedOver, Leader: "db-1", Message: "db-1 leads instead of db-0"},
		},
		{"not leading", `{"outcome":"not-leading"}`, 200, handover.Answer{Go: true, Outcome: handover.NotLeading}},
		{
			"no replica", `{"outcome":"no-replica","message":"no replica"}`, 200,
			handover.Answer{Go: true, Outcome: handover.NoReplica, Message: "no replica"},
		},
		{"invalid", `{"outcome":"invalid"}`, 200, handover.Answer{Go: true, Outcome: handover.Invalid}},
		{"handing over", `{"outcome":"handing-over"}`, 202, handover.Answer{Outcome: handingOver}},
		{"a group that is behind", `{"outcome":"group-behind"}`, 202, handover.Answer{Outcome: handover.GroupBehind}},
		{
			"refused", `{"outcome":"refused","message":"wrong password","leader":"db-1"}`, 409,
			handover.Answer{Outcome: refused, Leader: "db-1", Message: "the Service answers 409 Conflict: wrong password"},
		},
		{"200 is no refusal", `{"outcome":"refused"}`, 200, handover.Answer{Go: true, Outcome: handedOver}},
		{"200 does not wait", `{"outcome":"group-behind","retryAfter":3}`, 200, handover.Answer{Go: true, Outcome: handedOver}},
		{"202 does not let go", `{"outcome":"not-leading"}`, 202, handover.Answer{Outcome: handingOver}},
		{
			"409 does not let go", `{"outcome":"handed-over"}`, 409,
			handover.Answer{Outcome: refused, Message: "the Service answers 409 Conflict"},
		},
		{"nobody but the agent restarts", `{"outcome":"restarting"}`, 202, handover.Answer{Outcome: handingOver}},
		{"an unknown outcome", `{"outcome":"x"}`, 202, handover.Answer{Outcome: handingOver}},
		{"a half second", `{"retryAfter":0.5}`, 202, handover.Answer{Outcome: handingOver, Again: time.Second / 2}},
		{"more exact than the header", `{"retryAfter":1.25}`, 202, handover.Answer{Outcome: handingOver, Again: 1250 * time.Millisecond}},
		{"too long", `{"retryAfter":1e300}`, 202, handover.Answer{Outcome: handingOver, Again: 7 * time.Second}},
		{"negative", `{"retryAfter":-1}`, 202, handover.Answer{Outcome: handingOver, Again: 7 * time.Second}},
		{
			"control characters", `{"leader":"db\u001b\n1","message":"a\u0000b"}`, 202,
			handover.Answer{Outcome: handingOver, Leader: "db 1", Message: "ab"},
		},
		{"no JSON", `<html>`, 202, handover.Answer{Outcome: handingOver}},
		{"a long one", `{"message":"` + strings.Repeat("x", 10_000) + `"}`, 200, handover.Answer{Go: true, Outcome: handedOver}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			headers := map[string]string{"Content-Type": "application/json; charset=utf-8"}
			if strings.Contains(tt.body, "retryAfter") {
				headers["Retry-After"] = "7"
			}
			expectAnswer(t, reply{tt.status, headers, tt.body}, tt.want)
		})
	}
}

// TestStatusOf: the status says whether the pod may go.
func TestStatusOf(t *testing.T) {
	for outcome, want := range map[handover.Outcome]int{
		handover.NotLeading: 200, handover.HandedOver: 200, handover.NoReplica: 200, handover.Invalid: 200,
		handover.HandingOver: 202, handover.GroupBehind: 202, handover.Refused: 409,
		handover.Restarting: 409, handover.Replaced: 409, handover.Unfit: 409, "": 409,
	} {
		if got := StatusOf(handover.Answer{Outcome: outcome}); got != want {
			t.Errorf("%q: got %d, want %d", outcome, got, want)
		}
	}
}

// TestServicePort: the annotation names a port by its name or its number, or leaves the choice.
func TestServicePort(t *testing.T) {
	for name, tt := range map[string]struct {
		annotation string             // NUMBER is the number of the port that answers
		ports      map[string][]int32 // before and after the port of this name
		isCalled   bool
	}{
		"the only port":           {"asked", map[string][]int32{PortName: {}}, true},
		"the first port":          {"asked", map[string][]int32{"web": {}, "after": {1}}, true},
		"the usual name":          {"asked", map[string][]int32{"before": {1}, PortName: {}}, true},
		"a name":                  {"asked:db", map[string][]int32{"before": {1}, "db": {}}, true},
		"a number":                {"asked:NUMBER", map[string][]int32{"before": {1}, "db": {}}, true},
		"nothing after the colon": {"asked:", map[string][]int32{PortName: {}}, true},
		"an unknown name":         {"asked:x", map[string][]int32{PortName: {}}, false},
		"an unknown number":       {"asked:1", map[string][]int32{PortName: {}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			var calls atomic.Int32
			service := serve(t, func(http.ResponseWriter, *http.Request) { calls.Add(1) })
			number := service.Spec.Ports[0].Port
			service.Spec.Ports = nil
			for _, name := range []string{"before", PortName, "web", "db", "after"} {
				if numbers, ok := tt.ports[name]; ok {
					numbers = append(numbers, number)
					service.Spec.Ports = append(service.Spec.Ports, corev1.ServicePort{Name: name, Port: numbers[0]})
				}
			}
			annotation := strings.Replace(tt.annotation, "NUMBER", fmt.Sprint(number), 1)
			got, err := New(fake.NewClientset(service)).Release(t.Context(), handover.Request{Pod: pod(annotation)})
			want := handover.Answer{Go: true, Outcome: handover.HandedOver}
			if !tt.isCalled {
				_, port, _ := strings.Cut(annotation, ":")
				want = handover.Answer{Go: true, Outcome: handover.Invalid, Message: "the Service asked has no port " + port}
			}
			if err != nil || got != want || (calls.Load() == 1) != tt.isCalled {
				t.Errorf("got %+v, %v, and %d calls, want %+v", got, err, calls.Load(), want)
			}
		})
	}
}

// TestServiceThatNobodyMayCall: no connection is made. A mistake of the pod lets it go, and the message says what is
// wrong; a Service that is missing may come.
func TestServiceThatNobodyMayCall(t *testing.T) {
	for name, tt := range map[string]struct {
		annotation string
		change     func(*corev1.Service, *fake.Clientset)
		want       string
		isError    bool
	}{
		"no annotation":      {"", nil, "the pod has no annotation node-drainer.io/hand-over-service", false},
		"a port alone":       {":80", nil, "the pod has no annotation node-drainer.io/hand-over-service", false},
		"no such Service":    {"other", nil, "the namespace shop has no Service other", true},
		"another namespace":  {"asked", func(s *corev1.Service, _ *fake.Clientset) { s.Namespace = "pay" }, "has no Service asked", true},
		"a path to escape":   {"../pods", nil, "no Service ../pods", true},
		"headless":           {"asked", func(s *corev1.Service, _ *fake.Clientset) { s.Spec.ClusterIP = corev1.ClusterIPNone }, "must not be headless", false},
		"without an address": {"asked", func(s *corev1.Service, _ *fake.Clientset) { s.Spec.ClusterIP = "" }, "has no cluster IP", false},
		"ExternalName": {"asked", func(s *corev1.Service, _ *fake.Clientset) {
			s.Spec.Type, s.Spec.ExternalName = corev1.ServiceTypeExternalName, "127.0.0.1"
		}, "nor of the type ExternalName", false},
		"no right": {"asked", func(_ *corev1.Service, c *fake.Clientset) {
			c.PrependReactor("get", "services", func(clienttesting.Action) (bool, kruntime.Object, error) {
				return true, nil, errors.New("forbidden")
			})
		}, "get the Service asked: forbidden", true},
	} {
		t.Run(name, func(t *testing.T) {
			service := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the Service was called") })
			client := fake.NewClientset()
			if tt.change != nil {
				tt.change(service, client)
			}
			if err := client.Tracker().Add(service); err != nil {
				t.Fatal(err)
			}
			got, err := New(client).Release(t.Context(), handover.Request{Pod: pod(tt.annotation)})
			switch {
			case tt.isError && (err == nil || !strings.Contains(err.Error(), tt.want) || got != handover.Answer{}):
				t.Errorf("got %+v, %v, want the error %q", got, err, tt.want)
			case !tt.isError && (err != nil || !got.Go || got.Outcome != handover.Invalid || !strings.Contains(got.Message, tt.want)):
				t.Errorf("got %+v, %v, want %q", got, err, tt.want)
			}
		})
	}
}

// TestQuestionIsComplete: each field is there, whatever its value is.
func TestQuestionIsComplete(t *testing.T) {
	var body []byte
	service := serve(t, func(_ http.ResponseWriter, r *http.Request) { body, _ = io.ReadAll(r.Body) })
	_, err := New(fake.NewClientset(service)).Release(t.Context(), handover.Request{Pod: pod("asked")})
	want := `{"namespace":"shop","pod":"db-0","uid":"uid-1","node":"node-1","deadline":"0001-01-01T00:00:00Z",` +
		`"last":false,"leaving":[]}`
	if err != nil || string(body) != want {
		t.Errorf("asked %s, %v, want %s", body, err, want)
	}
}

// TestServersWordsStayOut: what a server sends gets into no message, except for the body, which is one line of printable
// characters. Events are for people.
func TestServersWordsStayOut(t *testing.T) {
	const evil = "evil words"
	for name, tt := range map[string]struct {
		sends string
		want  string // the message or the error
	}{
		"the reason of a status":     {"HTTP/1.1 409 \x1b[31m" + evil + "\r\n\r\n", "the Service answers 409 Conflict"},
		"a status of its own":        {"HTTP/1.1 599 " + evil + "\r\n\r\n", "the Service answers 599"},
		"no status":                  {"HTTP/1.1 " + evil + "\r\n\r\n", "no valid HTTP"},
		"another protocol":           {evil + "\r\n\r\n", "no valid HTTP"},
		"a broken header":            {"HTTP/1.1 409 Conflict\r\n" + evil + "\r\n\r\n", "no valid HTTP"},
		"a length that is no number": {"HTTP/1.1 409 Conflict\r\nContent-Length: " + evil + "\r\n\r\n", "no valid HTTP"},
		"an unknown encoding":        {"HTTP/1.1 409 Conflict\r\nTransfer-Encoding: " + evil + "\r\n\r\n", "no valid HTTP"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := askConn(t, func(c net.Conn) {
				_, _ = fmt.Fprint(c, tt.sends)
				_ = c.(*net.TCPConn).CloseWrite()
			})
			said := got.Message
			if err != nil {
				said = err.Error()
			}
			if got.Go || !strings.Contains(said, tt.want) || strings.Contains(said, "evil") {
				t.Errorf("got %+v, %v, want %q", got, err, tt.want)
			}
		})
	}
}

// TestReleaseFromHostileServers: whatever a server sends, and however slowly, the call ends in time, and takes little memory.
func TestReleaseFromHostileServers(t *testing.T) {
	for _, tt := range []struct {
		name   string
		behave func(net.Conn)
	}{
		{"silence", func(net.Conn) {}},
		{"closes", func(c net.Conn) { _ = c.Close() }},
		{"an endless header", func(c net.Conn) { flood(c, "HTTP/1.1 200 OK\r\n", "X-Much: "+strings.Repeat("x", 1000)+"\r\n") }},
		{"an endless status line", func(c net.Conn) { flood(c, "HTTP/1.1 200 ", strings.Repeat("x", 1000)) }},
		{"no HTTP", func(c net.Conn) { flood(c, "", "$9000000000000000000\r\n") }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := allocated()
			got, err := askConn(t, tt.behave)
			if err == nil {
				t.Errorf("got %+v", got)
			}
			if took := allocated() - before; took > 5<<20 {
				t.Errorf("%d bytes were allocated", took)
			}
		})
	}
	t.Run("endless interim responses", func(t *testing.T) {
		got, err := askConn(t, func(c net.Conn) { flood(c, "", "HTTP/1.1 102 Processing\r\n\r\n") })
		if err != nil || got.Outcome != handover.Refused {
			t.Errorf("got %+v, %v", got, err)
		}
	})
	t.Run("an endless body", func(t *testing.T) {
		before := allocated()
		got, err := askConn(t, func(c net.Conn) { flood(c, "HTTP/1.1 200 OK\r\n\r\n", strings.Repeat("x", 1000)) })
		if err != nil || !got.Go || len(got.Message) > maxMessage+3 || allocated()-before > 5<<20 {
			t.Errorf("got %+v, %v", got, err)
		}
	})
}

// flood writes the beginning, and then the rest again and again until the connection is closed.
func flood(c net.Conn, beginning, rest string) {
	for _, err := fmt.Fprint(c, beginning); err == nil; _, err = fmt.Fprint(c, rest) {
	}
}

func allocated() uint64 {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.TotalAlloc
}

// askConn asks a server that behaves like that on its connection, for half a second.
func askConn(t *testing.T, behave func(net.Conn)) (handover.Answer, error) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if c, err := listener.Accept(); err == nil {
			defer c.Close()
			behave(c)
			_, _ = c.Read(make([]byte, 10))
			for _, err := c.Read(make([]byte, 1000)); err == nil; _, err = c.Read(make([]byte, 1000)) {
			}
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	client := fake.NewClientset(serviceAt(t, listener.Addr()))
	answer, err := New(client).Release(ctx, handover.Request{Pod: pod("asked")})
	_ = listener.Close()
	<-done
	return answer, err
}
