//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/node-drainer/node-drainer/test/docs"
)

// TestDocumentedObjects: the API server admits every object of the documentation and of the examples, and knows each of its
// fields. Blocks of resources that an operator defines have a comment that says what they need.
func TestDocumentedObjects(t *testing.T) {
	t.Parallel()
	c, applied := shared(t), 0
	namespace := c.Namespace(t)
	apply := func(what, objects string) {
		file := filepath.Join(t.TempDir(), "objects.yaml")
		objects = strings.ReplaceAll(objects, "namespace: shop", "namespace: "+namespace)
		if err := os.WriteFile(file, []byte(objects), 0o600); err != nil {
			t.Fatal(err)
		}
		applied++
		if _, err := c.Kubectl(t.Context(), "apply", "--dry-run=server", "--validate=strict", "-f", file); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	for page, text := range docs.Pages(t) {
		for i, block := range docs.Blocks(text, "yaml") {
			if strings.HasPrefix(block.Text, "apiVersion: ") && !strings.HasPrefix(block.Mark, "needs ") {
				apply(fmt.Sprintf("block %d of %s", i, page), block.Text)
			}
		}
	}
	examples, err := filepath.Glob(filepath.Join(docs.Root(t), "examples", "*", "*.yaml"))
	if err != nil || len(examples) < 2 {
		t.Fatalf("there are %d files in examples, want those of redis at least: %v", len(examples), err)
	}
	for _, file := range examples {
		objects, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		apply(file, string(objects))
	}
	if applied < 4 {
		t.Errorf("there are %d blocks of objects, want those of stateful.md and of examples/redis at least", applied)
	}
}
