//go:build unix

package gate

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestCommand: the exit code of the command decides, and its output is part of the error.
func TestCommand(t *testing.T) {
	t.Parallel()
	at := Point{Group: "workers", Phase: "batch", Replaced: 2, Total: 5}
	for command, want := range map[string]string{
		"true": "", "exit 0": "",
		"exit 3":                                "gate command: exit status 3",
		"echo 'no  peers'; echo >&2 'x'; false": "gate command: exit status 1: no peers x",
		"test $GATE_GROUP.$GATE_PHASE.$GATE_REPLACED.$GATE_TOTAL = workers.batch.2.5": "",
		"sleep 1000 & true":                             "",
		"head -c 100000 /dev/zero | tr '\\0' y; exit 1": "exit status 1: " + strings.Repeat("y", mostShown),
		"no-such-program":                               ErrNoCommand.Error() + ": exit status 127",
		"/etc/passwd":                                   ErrNoCommand.Error() + ": exit status 126",
	} {
		err := Gate{Command: command}.Try(t.Context(), at)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", command, err, want)
		}
	}
}

// TestCommandIsKilled: when the time is over, the command is killed, and so is what it has started, although that
// ignores signals and keeps the output open.
func TestCommandIsKilled(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "pid")
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	started := time.Now()
	command := "trap '' TERM INT; sh -c 'echo $$ > " + file + "; exec sleep 1000' & wait"
	err := Gate{Command: command}.Try(ctx, Point{})
	if err == nil || !strings.Contains(err.Error(), context.DeadlineExceeded.Error()) || time.Since(started) > 10*time.Second {
		t.Errorf("%v after %v", err, time.Since(started))
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	for isAlive(pid) { // The kernel may need a moment; the time of the test ends this.
		time.Sleep(time.Millisecond)
	}
}

func isAlive(pid int) bool {
	status, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return syscall.Kill(pid, 0) == nil && !strings.Contains(string(status), ") Z ")
}

// TestURL: a status of success passes, also after a redirect on the same host.
func TestURL(t *testing.T) {
	t.Parallel()
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer other.Close()
	mux := http.NewServeMux()
	mux.HandleFunc("/ok", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	mux.HandleFunc("/bad", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "3 of 5\nshards", http.StatusServiceUnavailable)
	})
	mux.HandleFunc("/hangs", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	mux.Handle("/here", http.RedirectHandler("/ok", http.StatusFound))
	mux.Handle("/elsewhere", http.RedirectHandler(other.URL, http.StatusFound))
	mux.Handle("/loop", http.RedirectHandler("/loop", http.StatusFound))
	server := httptest.NewServer(mux)
	defer server.Close()
	for path, want := range map[string]string{
		"/ok": "", "/here": "", "/bad": " answered 503 Service Unavailable: 3 of 5 shards",
		"/elsewhere": "redirected to " + other.Listener.Addr().String(), "/loop": "redirected to", "/hangs": "deadline exceeded",
		"/none": "404 Not Found",
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		err := Gate{URL: server.URL + path}.Try(ctx, Point{})
		cancel()
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
	}
}

// TestURLIsSecret: a URL may have a token, and errors are shown in the logs of CI and in Events.
func TestURLIsSecret(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.HandleFunc("/no/", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusForbidden) })
	mux.HandleFunc("/redirects/", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://user:secret@other.example/secret?token=secret#secret", http.StatusFound)
	})
	mux.HandleFunc("/closes/", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	server := httptest.NewServer(mux)
	defer server.Close()
	host := server.Listener.Addr().String()
	for name, tt := range map[string]struct{ url, want string }{
		"refused":       {"http://user:secret@" + host + "/no/secret?token=secret#secret", "gate URL: " + host + " answered 403 Forbidden: no"},
		"redirected":    {"http://" + host + "/redirects/secret?token=secret", "redirected to other.example"},
		"no answer":     {"http://" + host + "/closes/secret?token=secret", "EOF"},
		"no connection": {"http://user:secret@127.0.0.1:1/secret?token=secret", "connection refused"},
		"no URL":        {"http://user:secret@" + host + "/secret\x7f", "invalid control character"},
	} {
		err := Gate{URL: tt.url}.Try(t.Context(), Point{})
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %s", name, err, tt.want)
		}
	}
}

// TestBoth: the command and the URL must both pass.
func TestBoth(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	for command, want := range map[string]string{"true": "404", "exit 7": "exit status 7"} {
		if err := (Gate{command, server.URL}).Try(t.Context(), Point{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", command, err)
		}
	}
}
