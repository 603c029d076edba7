//go:build e2e

package main

import (
	"context"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/test/cluster"
	"github.com/node-drainer/node-drainer/test/harness"
)

var cold = flag.Bool("cold", false, "run TestMakeDemoInAClone with empty caches of Go")

// TestMakeDemoInAClone is what a newcomer runs: git clone, and make demo, which downloads the control plane, here from a
// mirror on this machine.
func TestMakeDemoInAClone(t *testing.T) {
	binaries, err := cluster.Binaries(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	mirror, err := cluster.NewMirror(t.Context(), binaries)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(mirror)
	t.Cleanup(server.Close)

	dir, began := t.TempDir(), time.Now()
	clone := filepath.Join(dir, "node-drainer")
	_, _ = execute(t, "", nil, "git", "clone", "--quiet", "../..", clone)
	if err := os.WriteFile(filepath.Join(clone, "test/cluster/sums.txt"), []byte(mirror.Sums), 0o600); err != nil {
		t.Fatal(err)
	}
	env := []string{"XDG_CACHE_HOME=" + filepath.Join(dir, "cache"), "KUBE_BINARIES=", "KUBE_MIRROR=" + server.URL, "DEMO_KEEP="}
	if *cold {
		env = append(env, "GOCACHE="+filepath.Join(dir, "go-build"), "GOMODCACHE="+filepath.Join(dir, "mod"),
			"GOFLAGS=-modcacherw") // So that the folder can be removed.
	} else {
		cache, _ := execute(t, "", nil, "go", "env", "GOCACHE") // By default a folder of XDG_CACHE_HOME.
		env = append(env, "GOCACHE="+strings.TrimSpace(cache))
	}
	// As make demo does first, to know its time.
	_, compiler := execute(t, clone, env, "make", "bin/demo/demo")
	compiled := time.Since(began)
	output, _ := execute(t, clone, env, "make", "demo")
	t.Logf("from the clone to the last line: %v, of which the clone and the compiler took %v, with %v of processor time\n%s",
		time.Since(began).Round(time.Second), compiled.Round(time.Second), compiler.Round(time.Second), output)
	for _, want := range []string{"with the right SHA-256 sums", "12/12 moved", "naming the token"} {
		if !strings.Contains(output, want) {
			t.Errorf("%q is missing", want)
		}
	}
	if strings.Contains(output, "Building") {
		t.Error("it has built the control plane")
	}
}

// execute runs a command, and returns its output and its processor time.
func execute(
	t *testing.T, dir string, env []string, name string, args ...string,
) (output string, processor time.Duration) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	text, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, text)
	}
	return string(text), cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
}

// TestDemoWithoutDownloads: where nothing can be downloaded, the demo says so within ten seconds, and builds.
func TestDemoWithoutDownloads(t *testing.T) {
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	t.Cleanup(silent.Close)
	for name, url := range map[string]string{"a closed port": closed.URL, "a server that never answers": silent.URL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cache := t.TempDir()
			d := newDemo(t, "KUBE_BINARIES=", "KUBE_MIRROR="+url, "XDG_CACHE_HOME="+cache)
			messages := harness.NewProcess(d.cmd)
			began := time.Now()
			d.cmd.Stdout, d.cmd.Stderr = &d.stdout, messages
			if err := messages.Start(); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if err := harness.Eventually(ctx, func() string {
				if strings.Contains(messages.Output(), "from Go modules") {
					return ""
				}
				return "it does not build"
			}); err != nil {
				t.Errorf("%v\n%s", err, messages.Output())
			}
			t.Logf("after %v:\n%s", time.Since(began), messages.Output())
			if !strings.Contains(messages.Output(), "Cannot download etcd") {
				t.Error("it does not say why it builds")
			}
			messages.Signal(os.Interrupt)
			if code, err := messages.WaitEnd(t.Context()); err != nil || code != harness.ExitInterrupted {
				t.Errorf("exit code %d, %v", code, err)
			}
			left, err := filepath.Glob(filepath.Join(cache, "node-drainer", "*", "[^.]*"))
			half, err2 := filepath.Glob(filepath.Join(cache, "node-drainer", "*", ".half*"))
			if err != nil || err2 != nil || len(left)+len(half) > 0 {
				t.Errorf("left: %v %v", left, half)
			}
		})
	}
}
