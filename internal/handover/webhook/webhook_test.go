package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/node-drainer/node-drainer/pkg/handover"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var loopback = handover.Networks{netip.MustParsePrefix("127.0.0.0/8")}

// podOf is the pod that a server plays.
func podOf(t *testing.T, listener net.Addr) handover.Pod {
	t.Helper()
	address := netip.MustParseAddrPort(listener.String())
	return handover.Pod{
		Namespace: "shop", Name: "db-0", Node: "node-1", IP: address.Addr().String(),
		Ports: []handover.Port{{Name: PortName, Number: int32(address.Port())}},
	}
}

func serve(t *testing.T, handler http.HandlerFunc) handover.Pod {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return podOf(t, server.Listener.Addr())
}

func TestRelease(t *testing.T) {
	deadline := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, tt := range []struct {
		name    string
		status  int
		headers map[string]string
		body    string
		want    handover.Answer
	}{
		{"yes", 200, nil, "", handover.Answer{Go: true, Outcome: handover.HandedOver}},
		{"yes, with words", 200, nil, "db-1 leads.\n", handover.Answer{Go: true, Outcome: handover.HandedOver, Message: "db-1 leads"}},
		{"not yet", 202, nil, "2 of 3\nin sync", handover.Answer{Outcome: handover.HandingOver, Message: "2 of 3 in sync"}},
		{"not yet, and when", 202, map[string]string{"Retry-After": "7"}, "", handover.Answer{Outcome: handover.HandingOver, Again: 7 * time.Second}},
		{"not yet, and nonsense", 202, map[string]string{"Retry-After": "-1"}, "", handover.Answer{Outcome: handover.HandingOver}},
		{"no", 409, nil, "no replica", handover.Answer{Outcome: handover.Refused, Message: "the pod answers 409 Conflict: no replica"}},
		{"no such path", 404, nil, "", handover.Answer{Outcome: handover.Refused, Message: "the pod answers 404 Not Found"}},
		{
			"a redirect is not followed", 307,
			map[string]string{"Location": "http://127.0.0.1:1/"},
			"",
			handover.Answer{Outcome: handover.Refused, Message: "the pod answers 307 Temporary Redirect"},
		},
		{
			"control characters", 500, nil, "a\x1b[31m\x00\xff",
			handover.Answer{Outcome: handover.Refused, Message: "the pod answers 500 Internal Server Error: a?[31m??"},
		},
		{
			"a long body", 500, nil, strings.Repeat("x", 10_000),
			handover.Answer{Outcome: handover.Refused, Message: "the pod answers 500 Internal Server Error: " + strings.Repeat("x", 200)},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
			var calls atomic.Int32
			pod := serve(t, func(w http.ResponseWriter, r *http.Request) {
				calls.Add(1)
				var got Question
				if err := json.NewDecoder(r.Body).Decode(&got); err != nil || r.Method != http.MethodPost || r.URL.Path != "/hand-over" {
					t.Errorf("%s %s: %v", r.Method, r.URL, err)
				}
				if want := (Question{"shop", "db-0", "node-1", deadline, true}); got != want {
					t.Errorf("asked %+v, want %+v", got, want)
				}
				if r.Header.Get("Authorization")+r.Header.Get("Cookie") != "" {
					t.Errorf("headers: %v", r.Header)
				}
				for name, value := range tt.headers {
					w.Header().Set(name, value)
				}
				w.WriteHeader(tt.status)
				_, _ = w.Write([]byte(tt.body))
			})
			got, err := New(loopback).Release(t.Context(), handover.Request{Pod: pod, Deadline: deadline, Last: true})
			if err != nil || got != tt.want {
				t.Errorf("got %+v, %v, want %+v", got, err, tt.want)
			}
			if calls.Load() != 1 {
				t.Errorf("%d calls", calls.Load())
			}
		})
	}
}

// TestReleaseWhomNobodyMayCall: no connection is made, and the message says what to write.
func TestReleaseWhomNobodyMayCall(t *testing.T) {
	pod := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the pod was called") })
	for _, tt := range []struct {
		name   string
		change func(*handover.Pod)
		want   string
	}{
		{"loopback", func(*handover.Pod) {}, "DRAIN_HAND_OVER_NETWORKS"},
		{"the network of the node", func(p *handover.Pod) { p.IP, p.HostNetwork = "10.0.0.1", true }, "hostNetwork"},
		{"no port", func(p *handover.Pod) { p.Ports = nil }, "node-drainer.io/hand-over-port"},
		{"a wrong port", func(p *handover.Pod) {
			p.Annotations = map[string]string{handover.PortAnnotation: "web"}
		}, `node-drainer.io/hand-over-port is "web": must be a number`},
		{"no address", func(p *handover.Pod) { p.IP = "" }, "no IP address"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			one := pod
			tt.change(&one)
			got, err := New(nil).Release(t.Context(), handover.Request{Pod: one})
			if err != nil || !got.Go || got.Outcome != handover.Invalid || !strings.Contains(got.Message, tt.want) {
				t.Errorf("got %+v, %v, want %q", got, err, tt.want)
			}
		})
	}
}

// TestReleaseFromHostilePods: whatever a pod sends, and however slowly, the call ends in time, and takes little memory.
func TestReleaseFromHostilePods(t *testing.T) {
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

// askConn asks a pod that behaves like that on its connection, for half a second.
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
	answer, err := New(loopback).Release(ctx, handover.Request{Pod: podOf(t, listener.Addr())})
	_ = listener.Close()
	<-done
	return answer, err
}
