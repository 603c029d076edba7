package realnodes

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/node-drainer/node-drainer/test/harness"
)

// program is a file of an image, and where it is here.
type program struct{ path, from string }

// inRoot returns static programs for the root folder of an image.
func inRoot(static ...string) (all []program) {
	for _, from := range static {
		all = append(all, program{"/" + filepath.Base(from), from})
	}
	return all
}

// withLibraries returns a program, at a path of an image, and the libraries that it is linked with, as ldd lists them.
func withLibraries(path, from string) ([]program, error) {
	output, err := exec.Command("ldd", from).Output()
	if err != nil {
		return nil, fmt.Errorf("list the libraries of %s: %w", from, err)
	}
	all := []program{{path, from}}
	for word := range strings.FieldsSeq(string(output)) {
		if filepath.IsAbs(word) {
			all = append(all, program{word, word})
		}
	}
	return all, nil
}

// writeImage writes an archive, as docker save does, of an image that holds programs and runs the first. containerd
// imports it, so that no registry is needed.
func writeImage(path, tag, user string, programs []program) error {
	layer, err := layerOf(programs)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(layer)
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux", "created": time.Unix(0, 0).UTC(),
		"config": map[string]any{"Entrypoint": []string{programs[0].path}, "User": user},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + hex.EncodeToString(sum[:])}},
	})
	if err != nil {
		return err
	}
	manifest, err := json.Marshal([]map[string]any{{
		"Config": "config.json", "RepoTags": []string{tag}, "Layers": []string{"layer.tar"},
	}})
	if err != nil {
		return err
	}
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, f := range []struct {
		name    string
		content []byte
	}{{"config.json", config}, {"layer.tar", layer}, {"manifest.json", manifest}} {
		if err := addFile(w, f.name, 0o644, f.content); err != nil {
			return err
		}
	}
	return errors.Join(w.Close(), os.WriteFile(path, archive.Bytes(), 0o600))
}

// layerOf returns a layer of the programs, and a /tmp.
func layerOf(programs []program) ([]byte, error) {
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	if err := w.WriteHeader(&tar.Header{Name: "tmp/", Typeflag: tar.TypeDir, Mode: 0o1777}); err != nil {
		return nil, err
	}
	for _, p := range programs {
		content, err := os.ReadFile(p.from)
		if err != nil {
			return nil, err
		}
		if err := addFile(w, strings.TrimPrefix(p.path, "/"), 0o755, content); err != nil {
			return nil, err
		}
	}
	return layer.Bytes(), w.Close()
}

func addFile(w *tar.Writer, name string, mode int64, content []byte) error {
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: mode, Size: int64(len(content))}); err != nil {
		return err
	}
	_, err := w.Write(content)
	return err
}

// imported is the root of a containerd that has all images, as a machine image has them.
func imported() string { return filepath.Join(Isolated(), "images") }

// importImages has a containerd import the images once, for all nodes.
func importImages(ctx context.Context) error {
	archives, err := filepath.Glob(filepath.Join(programsIn(Isolated()), "*.tar"))
	if err != nil {
		return err
	}
	n := &node{dir: filepath.Join(Isolated(), "importer")}
	err = errors.Join(os.MkdirAll(n.path("logs"), 0o755), n.writeContainerdConfig(imported()))
	if err != nil {
		return err
	}
	containerd, err := n.spawn("containerd", nil, "--config", n.path("containerd.toml"))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	err = harness.Eventually(ctx, func() string {
		for _, archive := range archives {
			output, err := exec.CommandContext(ctx, "ctr", "--address", n.socket(), "--namespace", "k8s.io",
				"images", "import", archive).CombinedOutput()
			if err != nil {
				return fmt.Sprintf("import %s: %v: %s", archive, err, output)
			}
		}
		return ""
	})
	return errors.Join(err, containerd.Process.Signal(os.Interrupt), containerd.Wait())
}

// copyImages makes the root of a containerd that has all images. What never changes is shared by links: files of images
// are read only. The databases are copied.
func copyImages(root string) error {
	if output, err := exec.Command("cp", "-a", "--link", imported(), root).CombinedOutput(); err != nil {
		return fmt.Errorf("copy the images: %w: %s", err, output)
	}
	for _, database := range []string{
		"io.containerd.metadata.v1.bolt/meta.db", "io.containerd.snapshotter.v1.overlayfs/metadata.db",
	} {
		path := filepath.Join(root, database)
		content, err := os.ReadFile(path)
		if err := errors.Join(err, os.Remove(path), os.WriteFile(path, content, 0o600)); err != nil {
			return err
		}
	}
	return nil
}
