package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestEveryTestExists: pages name tests as what shows a statement.
func TestEveryTestExists(t *testing.T) {
	there := set{}
	root := Root(t)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != root:
			return filepath.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		there.and(find(string(text), `(?m)^func (Test\w+)\(`))
		return err
	})
	if err != nil || len(there) == 0 {
		t.Fatalf("found %d tests: %v", len(there), err)
	}
	assertExist(t, "test", there, func(_, _, code string) set { return find(code, `(?m)^(Test[A-Z]\w*)(?:/.*)?$`) })
}
