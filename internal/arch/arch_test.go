package arch

import (
	"bytes"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// source is one Go file of the module.
type source struct {
	file    string // slash-separated, relative to the module's root
	imports []string
	lines   int
}

func (s source) isTest() bool { return strings.HasSuffix(s.file, "_test.go") }

// TestModule checks all Go files of the module, whatever their build tags.
func TestModule(t *testing.T) {
	sources := parseAll(t)
	var problems []string
	for _, s := range sources {
		problems = slices.Concat(problems, importProblems(s), lengthProblems(s))
	}
	for _, problem := range problems {
		t.Error(problem)
	}
	if !slices.ContainsFunc(sources, func(s source) bool { return s.file == "internal/event/event.go" }) {
		t.Error("the files of the module were not found")
	}
}

// parseAll returns all Go files of the module.
func parseAll(t *testing.T) (sources []source) {
	t.Helper()
	walk(t, func(file string, read func() []byte) {
		if path.Ext(file) == ".go" {
			sources = append(sources, parse(t, file, read()))
		}
	})
	return sources
}

// walk calls visit with the path of every file of the module, except for testdata and hidden folders, and with what
// reads it.
func walk(t *testing.T, visit func(file string, read func() []byte)) {
	t.Helper()
	root := os.DirFS("../..")
	err := fs.WalkDir(root, ".", func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && file != "." && (entry.Name() == "testdata" || strings.HasPrefix(entry.Name(), ".")):
			return fs.SkipDir
		case entry.IsDir():
			return nil
		}
		visit(file, func() []byte {
			text, err := fs.ReadFile(root, file)
			if err != nil {
				t.Fatal(err)
			}
			return text
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func parse(t *testing.T, file string, text []byte) source {
	t.Helper()
	syntax, err := parser.ParseFile(token.NewFileSet(), file, text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	s := source{file: file, lines: bytes.Count(text, []byte("\n"))}
	for _, spec := range syntax.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		s.imports = append(s.imports, imported)
	}
	return s
}

func expectProblem(t *testing.T, problems []string, want string) {
	t.Helper()
	switch {
	case want == "" && len(problems) > 0:
		t.Errorf("got %q, want no problem", problems)
	case want != "" && (len(problems) != 1 || !strings.Contains(problems[0], want)):
		t.Errorf("got %q, want one problem with %q", problems, want)
	}
}
