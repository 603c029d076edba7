//go:build e2e

package image

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// layout is a folder in the form of the OCI image layout: what a registry would serve.
type layout string

type descriptor struct {
	MediaType string
	Digest    string
	Size      int64
	Platform  struct{ OS, Architecture string }
}

// variant is an image for one platform.
type variant struct {
	platform string // of the index
	config   struct {
		OS, Architecture, Created string
		Config                    struct {
			User       string
			Env        []string
			Entrypoint []string
			Cmd        []string
			Labels     map[string]string
		}
	}
	size  int64 // of all that is pulled
	files map[string]file
}

// file is an entry of a layer, and what stands in it.
type file struct {
	tar.Header
	content []byte
}

// digest is the digest of what the layout holds.
func (l layout) digest(t *testing.T) descriptor {
	t.Helper()
	var index struct{ Manifests []descriptor }
	l.decode(t, "index.json", &index)
	if len(index.Manifests) != 1 {
		t.Fatalf("the layout holds %d images, want 1", len(index.Manifests))
	}
	return index.Manifests[0]
}

// variants reads an image of several platforms.
func (l layout) variants(t *testing.T) []variant {
	t.Helper()
	var index struct{ Manifests []descriptor }
	l.decode(t, blob(l.digest(t)), &index)
	var variants []variant
	for _, d := range index.Manifests {
		variants = append(variants, l.variant(t, d))
	}
	return variants
}

func (l layout) variant(t *testing.T, d descriptor) variant {
	t.Helper()
	var manifest struct {
		Config descriptor
		Layers []descriptor
	}
	l.decode(t, blob(d), &manifest)
	v := variant{platform: d.Platform.OS + "/" + d.Platform.Architecture, files: map[string]file{}}
	l.decode(t, blob(manifest.Config), &v.config)
	v.size = d.Size + manifest.Config.Size
	for _, layer := range manifest.Layers {
		v.size += layer.Size
		if !strings.HasSuffix(layer.MediaType, "+gzip") {
			t.Errorf("%s has a layer that is not compressed: %s", v.platform, layer.MediaType)
		}
		l.unpack(t, layer, v.files)
	}
	return v
}

func (l layout) unpack(t *testing.T, layer descriptor, into map[string]file) {
	t.Helper()
	compressed, err := os.Open(filepath.Join(string(l), blob(layer)))
	if err != nil {
		t.Fatal(err)
	}
	defer compressed.Close()
	plain, err := gzip.NewReader(compressed)
	if err != nil {
		t.Fatal(err)
	}
	for archive := tar.NewReader(plain); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		into[strings.Trim(header.Name, "/")] = file{*header, content}
	}
}

func (l layout) decode(t *testing.T, name string, into any) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(string(l), name))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(content, into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// blob is the path of what a descriptor describes.
func blob(d descriptor) string {
	return "blobs/" + strings.ReplaceAll(d.Digest, ":", "/")
}
