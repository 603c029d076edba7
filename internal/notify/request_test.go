package notify_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/node-drainer/node-drainer/internal/notify"
)

func matches(pattern, text string) bool {
	return regexp.MustCompile("^" + pattern + "$").MatchString(text)
}

// outcome is what is recorded of a message.
type outcome struct {
	drains int
	err    error
}

type recorder chan outcome

func (r recorder) NotificationSent(drains int, _ bool)              { r <- outcome{drains: drains} }
func (r recorder) NotificationFailed(drains int, err error, _ bool) { r <- outcome{drains, err} }

// post posts one message by HTTP, and returns what is recorded.
func post(t *testing.T, change func(*notify.Config)) outcome {
	t.Helper()
	n, err := notify.New(configure(change), "prod", http.DefaultTransport)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop() // it posts at once
	n.Add(drainOf(0, notify.Drained))
	recorded := make(recorder, 1)
	n.Run(ctx, recorded)
	return <-recorded
}

func TestRequest(t *testing.T) {
	t.Parallel()
	var got *http.Request
	var body []byte
	service := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
	}))
	defer service.Close()
	sent := post(t, func(c *notify.Config) {
		c.URL, c.Headers = service.URL+"/services/"+secret+"?a=b", `{"authorization": "Bearer `+secret+`", "user-agent": "me"}`
	})
	if sent.err != nil || sent.drains != 1 {
		t.Fatalf("recorded %+v", sent)
	}
	if got.Method != http.MethodPost || got.URL.RequestURI() != "/services/"+secret+"?a=b" {
		t.Errorf("got %s %s", got.Method, got.URL)
	}
	for name, want := range map[string]string{
		"Content-Type": "application/json", "Authorization": "Bearer " + secret, "User-Agent": "me",
	} {
		if value := got.Header.Get(name); value != want {
			t.Errorf("%s is %q, want %q", name, value, want)
		}
	}
	if !strings.Contains(string(body), drainedText) {
		t.Errorf("the body is %s", body)
	}
}

// TestErrors: no error contains the path or the query of the URL, which net/http adds to its errors.
func TestErrors(t *testing.T) {
	t.Parallel()
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "no such URL: "+r.URL.String(), http.StatusNotFound)
	}))
	t.Cleanup(service.Close)
	broken := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	t.Cleanup(broken.Close)
	for name, tt := range map[string]struct{ url, want string }{
		"refused":        {"http://127.0.0.1:1", "connection refused"},
		"not encrypted":  {strings.Replace(service.URL, "http:", "https:", 1), "server gave HTTP response to HTTPS client"},
		"not found":      {service.URL, "the answer is 404 Not Found"},
		"closed":         {broken.URL, "EOF"},
		"invalid scheme": {"http://127.0.0.1:99999", "invalid port"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failed := post(t, func(c *notify.Config) { c.URL = tt.url + "/" + secret + "?sig=" + secret })
			if failed.err == nil || !strings.Contains(failed.err.Error(), tt.want) || strings.Contains(failed.err.Error(), secret) {
				t.Errorf("the error is %v, want %s", failed.err, tt.want)
			}
		})
	}
}
