package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestEveryTestExists: pages name tests as what shows a statement, and the Makefile those that it runs or leaves out.
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
	for name := range find(read(t, filepath.Join(root, "Makefile")), `\b(Test[A-Z]\w*)\b`) {
		if !there[name] {
			t.Errorf("the Makefile names the test %s, which is not there", name)
		}
	}
}

// TestGoIsOfAnExample: the Go on a page is a part of an example, whose tests run it.
func TestGoIsOfAnExample(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(Root(t), "examples/*/*.go"))
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for page, text := range Pages(t) {
		for _, block := range Blocks(text, "go") {
			found++
			if !slices.ContainsFunc(files, func(file string) bool { return strings.Contains(read(t, file), block.Text) }) {
				t.Errorf("%s: no file below examples has these lines:\n%s", page, block.Text)
			}
		}
	}
	if found == 0 {
		t.Error("the pages have no Go")
	}
}
