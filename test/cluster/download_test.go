package cluster

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

const releasedURL = "https://releases.example.com/v1/kwok"

// mirrored returns a downloader into an empty folder that gets everything from a mirror with the handler.
func mirrored(t *testing.T, serve http.HandlerFunc) *downloader {
	t.Helper()
	mirror := httptest.NewServer(serve)
	t.Cleanup(mirror.Close)
	t.Setenv(mirrorVariable, mirror.URL+"/")
	return newDownloader(t.TempDir())
}

func sumOf(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

func TestDownload(t *testing.T) {
	content := []byte("#!/bin/sh\n")
	for name, row := range map[string]struct {
		url, member string
		content     []byte
	}{
		"a program":          {releasedURL, "", content},
		"a program in a zip": {releasedURL + ".zip", "v1/kwok", packed(t, ".zip", content)},
		"a program in a tar": {releasedURL + ".tar.gz", "v1/kwok", packed(t, ".tar.gz", content)},
	} {
		t.Run(name, func(t *testing.T) {
			d := mirrored(t, func(w http.ResponseWriter, r *http.Request) {
				if "https:/"+r.URL.Path != row.url {
					t.Errorf("asked for %s", r.URL)
				}
				_, _ = w.Write(row.content)
			})
			err := d.fetch(t.Context(), file{program{name: kwok}, row.url, row.member, sumOf(row.content)})
			if err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(filepath.Join(d.dir, kwok))
			if err != nil || !bytes.Equal(got, content) {
				t.Errorf("it holds %q: %v", got, err)
			}
			if lacking := missing(d.dir, []program{{name: kwok}}); len(lacking) > 0 {
				t.Error("it cannot be executed")
			}
			assertFiles(t, d.dir, kwok)
		})
	}
}

func TestFailedDownloadLeavesNothing(t *testing.T) {
	whole := []byte("the whole program")
	stop := make(chan struct{})
	t.Cleanup(func() { close(stop) })
	for want, serve := range map[string]http.HandlerFunc{
		"has the SHA-256 sum": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("something else")) },
		"unexpected EOF": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "17")
			_, _ = w.Write(whole[:5])
		},
		"404 Not Found": http.NotFound,
		"no answer for 100ms": func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-r.Context().Done():
			case <-stop:
			}
		},
		"Body: no answer for 100ms": func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write(whole[:5])
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		},
		"redirected from http://": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "gopher://example.com/", http.StatusFound)
		},
	} {
		t.Run(want, func(t *testing.T) {
			d := mirrored(t, serve)
			d.silence = 100 * time.Millisecond
			err := d.fetch(t.Context(), file{program{name: kwok}, releasedURL, "", sumOf(whole)})
			if err == nil || !strings.Contains(err.Error(), strings.TrimPrefix(want, "Body: ")) {
				t.Errorf("download: %v", err)
			}
			assertFiles(t, d.dir)
		})
	}
}

// TestWithoutDownloads: each program that cannot be downloaded is named with the reason, and is left to the build.
func TestWithoutDownloads(t *testing.T) {
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	t.Setenv(mirrorVariable, closed.URL)
	var log bytes.Buffer
	b, err := newBuilder(t.Context(), &log)
	if err != nil {
		t.Fatal(err)
	}
	b.out = t.TempDir()
	lacking, err := b.download(t.Context(), programs(nil))
	if err != nil || len(lacking) != len(programs(nil)) {
		t.Errorf("left to the build: %s, %v", names(lacking), err)
	}
	for _, p := range programs(nil) {
		if !regexp.MustCompile("(Cannot download|no download of).*" + p.name).MatchString(log.String()) {
			t.Errorf("it does not say why %s is built:\n%s", p.name, &log)
		}
	}
	assertFiles(t, b.out)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.download(ctx, programs(nil)); err == nil {
		t.Error("it does not end with the context")
	}
}

// TestSums: sums.txt has the sums of the versions in binaries/go.mod. The README promises downloads on Linux.
func TestSums(t *testing.T) {
	b, err := newBuilder(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	known, used := sums(sumsFile), map[string]bool{}
	for _, goos := range []string{"linux", "darwin"} {
		for _, goarch := range []string{"amd64", "arm64"} {
			for _, p := range programs([]string{Kubectl}) {
				url, _ := release(p, b.version(p), goos, goarch)
				used[url] = true
				if goos == "linux" && !regexp.MustCompile("^[0-9a-f]{64}$").MatchString(known[url]) {
					t.Errorf("sums.txt has no sum of %s: run make sums", url)
				}
			}
		}
	}
	for url := range known {
		if !used[url] {
			t.Errorf("sums.txt has a sum of %s, which nothing downloads: run make sums", url)
		}
	}
}

func assertFiles(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != len(want) {
		t.Errorf("in the folder: %v %v, want %v", entries, err, want)
	}
}

// packed is pack.
func packed(t *testing.T, url string, content []byte) []byte {
	t.Helper()
	archive, err := pack(url, "v1/kwok", content)
	if err != nil {
		t.Fatal(err)
	}
	return archive
}

// TestPublishedSums: what dl.k8s.io and GitHub publish becomes sums.txt.
func TestPublishedSums(t *testing.T) {
	const sum, digest = "aa00", "bb11"
	d := mirrored(t, func(w http.ResponseWriter, r *http.Request) {
		path := strings.TrimPrefix(r.URL.Path, "/")
		switch {
		case strings.HasPrefix(path, "dl.k8s.io/release/v") && strings.Contains(path, "/bin/linux/"):
			_, _ = w.Write([]byte(sum + "\n"))
		case strings.HasPrefix(path, "api.github.com/repos/kubernetes-sigs/kwok/releases/tags/v"):
			_, tag, _ := strings.Cut(path, "/tags/")
			_, _ = w.Write([]byte(`{"assets": [{"digest": "sha256:` + digest + `", "browser_download_url": ` +
				`"https://github.com/kubernetes-sigs/kwok/releases/download/` + tag + `/kwok-linux-arm64"}]}`))
		case strings.HasPrefix(path, "api.github.com/repos/etcd-io/etcd/releases/tags/v"):
			_, _ = w.Write([]byte(`{"assets": []}`))
		default:
			http.NotFound(w, r)
		}
	})
	if d.mirror == "" {
		t.Fatal("there is no mirror")
	}
	text, err := PublishedSums(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for url, got := range sums(text) {
		want := sum
		if strings.Contains(url, "kwok-linux-arm64") {
			want = digest
		}
		if got != want {
			t.Errorf("%s has the sum %q", url, got)
		}
	}
	if n := len(sums(text)); n != 9 {
		t.Errorf("%d sums, want those of 4 programs on 2 platforms and of kwok on one:\n%s", n, text)
	}
}
