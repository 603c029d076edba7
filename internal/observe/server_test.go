package observe_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/node-drainer/node-drainer/internal/observe"
)

// pipes is a listener in memory, so that the connections are of the bubble.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	c, open := <-p
	if !open {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (p pipes) Close() error   { return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

// TestLongHeader: a client cannot have the server keep much.
func TestLongHeader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		listener, served := serve(t, http.NotFoundHandler())
		client := listener.connect()
		go func() { // the server may stop reading
			_, _ = io.WriteString(client, "GET / HTTP/1.1\r\nHost: x\r\nX: "+strings.Repeat("x", 20<<10)+"\r\n\r\n")
		}()
		answer, err := io.ReadAll(client)
		if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 431") {
			t.Errorf("answered %q, %v", answer, err)
		}
		_ = client.Close()
		served()
	})
}

// TestManyConnections: connections that do nothing take no more than some memory, and keep nobody else out: the oldest
// are closed.
func TestManyConnections(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		listener, served := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		const get = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
		used := func(c net.Conn) string {
			_, _ = io.WriteString(c, get)
			answer, _ := bufio.NewReader(c).ReadString('\n')
			return answer
		}
		idle := listener.connect() // it has been of use
		if answer := used(idle); !strings.Contains(answer, "200") {
			t.Fatalf("answered %q", answer)
		}
		var silent []net.Conn
		for range 1000 {
			silent = append(silent, listener.connect())
			synctest.Wait()
		}
		last := listener.connect()
		if answer := used(last); !strings.Contains(answer, "200") {
			t.Errorf("answered %q, while many connections are open", answer)
		}
		open := 0
		for _, c := range append(silent, idle) {
			_ = c.SetReadDeadline(time.Now().Add(time.Millisecond))
			if _, err := c.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
				open++
			}
			_ = c.Close()
		}
		if open == 0 || open > 500 {
			t.Errorf("%d of 1,001 connections are open", open)
		}
		_ = last.Close()
		served()
	})
}

// TestScrapesAtOnce: an answer takes memory until it is read.
func TestScrapesAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gather := make(chan struct{})
		registry := prometheus.NewRegistry()
		registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "slow"}, func() float64 {
			<-gather
			return 1
		}))
		handler, codes := observe.Handler(registry, nil), make(chan int, 100)
		for range cap(codes) {
			go func() {
				w := httptest.NewRecorder()
				handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
				codes <- w.Code
			}()
		}
		synctest.Wait()
		refused := len(codes)
		close(gather)
		synctest.Wait()
		close(codes)
		counts := map[int]int{}
		for code := range codes {
			counts[code]++
		}
		if refused != 90 || counts[http.StatusServiceUnavailable] != 90 || counts[http.StatusOK] != 10 {
			t.Errorf("%d were refused at once; answers: %v", refused, counts)
		}
	})
}

// serve serves the handler until served is called, with listener closed.
func serve(t *testing.T, handler http.Handler) (listener pipes, served func()) {
	t.Helper()
	listener = make(pipes)
	server, ended := observe.Server(handler), make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	return listener, func() {
		close(listener)
		if err := <-ended; !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	}
}

// connect returns the side of a client.
func (p pipes) connect() net.Conn {
	client, other := net.Pipe()
	p <- other
	return client
}

// TestServerTimeouts: no client keeps a connection by doing nothing, and a scrape may take a minute.
func TestServerTimeouts(t *testing.T) {
	t.Parallel()
	const get = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
	for name, tt := range map[string]struct {
		request string
		takes   time.Duration // the handler
		body    int           // the handler's, in bytes
		reads   bool          // whether the client reads the answer
		answer  string        // what begins it
		within  time.Duration // in which the connection is closed
	}{
		"half a header":           {"GET / HTTP/1.1\r\n", 0, 1, true, "", 5 * time.Second},
		"half a body":             {"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhalf", 0, 1, true, "HTTP/1.1 200", 10 * time.Second},
		"idle after an answer":    {get, 0, 1, true, "HTTP/1.1 200", 2 * time.Minute},
		"an answer not read":      {get, 0, 1 << 20, false, "", time.Minute},
		"a scrape of a minute":    {get, 59 * time.Second, 1, true, "HTTP/1.1 200", 3 * time.Minute},
		"a scrape without an end": {get, time.Hour, 1, true, "", time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				listener, served := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					time.Sleep(tt.takes)
					_, _ = io.WriteString(w, strings.Repeat("x", tt.body))
				}))
				defer served()
				client := listener.connect()
				defer func() { _ = client.Close() }()
				start := time.Now()
				if _, err := io.WriteString(client, tt.request); err != nil {
					t.Fatal(err)
				}
				if !tt.reads {
					time.Sleep(tt.within + time.Second)
				}
				_ = client.SetReadDeadline(start.Add(3 * time.Hour)) // It fails if the connection is closed already.
				answer, err := io.ReadAll(bufio.NewReader(client))
				if took := time.Since(start); err != nil || took > tt.within+2*time.Second || len(answer) > 1<<19 {
					t.Errorf("after %v: %d bytes and %v, want the connection closed within %v", took, len(answer), err, tt.within)
				}
				if !strings.HasPrefix(string(answer), tt.answer) {
					t.Errorf("the answer is %q, want %q", answer, tt.answer)
				}
			})
		})
	}
}
