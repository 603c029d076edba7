package observe_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

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
				listener := make(pipes)
				server := observe.Server(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					time.Sleep(tt.takes)
					_, _ = io.WriteString(w, strings.Repeat("x", tt.body))
				}))
				served := make(chan error, 1)
				go func() { served <- server.Serve(listener) }()
				client, other := net.Pipe()
				defer func() {
					close(listener)
					_ = client.Close()
					if err := <-served; !errors.Is(err, net.ErrClosed) {
						t.Error(err)
					}
				}()
				listener <- other
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
