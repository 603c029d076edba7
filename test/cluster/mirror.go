package cluster

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// Mirror serves the programs of a folder for this platform as their releases do, for KUBE_MIRROR. Sums is the text of
// sums.txt for it.
type Mirror struct {
	Sums  string
	files map[string][]byte // By path.
}

// NewMirror returns a mirror of the programs in the folder.
func NewMirror(ctx context.Context, binaries string) (*Mirror, error) {
	b, err := newBuilder(ctx, io.Discard)
	if err != nil {
		return nil, err
	}
	m := &Mirror{Sums: sumsHeader, files: map[string][]byte{}}
	for _, p := range programs(nil) {
		content, err := os.ReadFile(filepath.Join(binaries, p.name))
		if err != nil {
			return nil, err
		}
		url, member := release(p, b.version(p), runtime.GOOS, runtime.GOARCH)
		if content, err = pack(url, member, content); err != nil {
			return nil, fmt.Errorf("pack %s: %w", p.name, err)
		}
		sum := sha256.Sum256(content)
		m.Sums += hex.EncodeToString(sum[:]) + "  " + url + "\n"
		m.files[strings.TrimPrefix(url, "https:/")] = content
	}
	return m, nil
}

// ServeHTTP sends a file.
func (m *Mirror) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	content, found := m.files[r.URL.Path]
	if !found {
		http.NotFound(w, r)
		return
	}
	_, _ = w.Write(content) // The client reports what fails.
}

// pack puts a program into an archive of the kind that the URL names, if any.
func pack(url, member string, content []byte) ([]byte, error) {
	var out bytes.Buffer
	switch {
	case strings.HasSuffix(url, ".zip"):
		archive := zip.NewWriter(&out)
		w, err := archive.Create(member)
		if err == nil {
			_, err = w.Write(content)
		}
		if err == nil {
			err = archive.Close()
		}
		return out.Bytes(), err
	case strings.HasSuffix(url, ".tar.gz"):
		compressed, err := gzip.NewWriterLevel(&out, gzip.BestSpeed)
		if err != nil {
			return nil, err
		}
		archive := tar.NewWriter(compressed)
		err = archive.WriteHeader(&tar.Header{Name: member, Mode: 0o755, Size: int64(len(content))})
		if err == nil {
			_, err = archive.Write(content)
		}
		if err == nil {
			err = archive.Close()
		}
		if err == nil {
			err = compressed.Close()
		}
		return out.Bytes(), err
	}
	return content, nil
}
