package docs

import (
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestAddingAKind: docs/architecture.md names all files of the product that a kind of event touches, as paths in the diff.
func TestAddingAKind(t *testing.T) {
	t.Parallel()
	diffs := Blocks(Pages(t)["docs/architecture.md"], "diff")
	if len(diffs) != 1 {
		t.Fatalf("the page has %d diffs, want that of a kind", len(diffs))
	}
	var want []string
	for line := range strings.Lines(diffs[0].Text) {
		if path, ok := strings.CutPrefix(line, " "); ok {
			want = append(want, strings.TrimSpace(path))
		}
	}
	var got []string
	for _, folder := range []string{"cmd", "internal", "pkg"} {
		err := filepath.WalkDir(filepath.Join("../..", folder), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			for line := range strings.Lines(read(t, path)) {
				code, _, _ := strings.Cut(line, "//")
				if strings.Contains(code, "CapacityBlockExpir") {
					name := strings.TrimPrefix(filepath.ToSlash(path), "../../")
					got = append(got, name)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if got = slices.Compact(got); !slices.Equal(got, want) || len(want) > 4 {
		t.Errorf("the product names the kind in %q, the page says %q", got, want)
	}
}
