package arch

import (
	"bytes"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// source is one Go file of the module.
type source struct {
	file      string // slash-separated, relative to the module's root
	imports   []string
	lines     int
	functions []function
}

func (s source) isTest() bool { return strings.HasSuffix(s.file, "_test.go") }

// TestModule checks all Go files of the module, whatever their build tags.
func TestModule(t *testing.T) {
	root := moduleRoot(t)
	var sources []source
	walk(t, root, func(file string) {
		if filepath.Ext(file) == ".go" {
			text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file)))
			if err != nil {
				t.Fatal(err)
			}
			sources = append(sources, parse(t, file, text))
		}
	})
	problems := methodProblems(sources)
	for _, s := range sources {
		problems = slices.Concat(problems, importProblems(s), lengthProblems(s))
	}
	for _, problem := range problems {
		t.Error(problem)
	}
	if !slices.ContainsFunc(sources, func(s source) bool { return s.file == "pkg/event/event.go" }) {
		t.Error("the files of the module were not found")
	}
}

func moduleRoot(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil || !strings.Contains(string(mod), module) {
		t.Fatalf("%s is not the root of %s: %v", root, module, err)
	}
	return root
}

func parse(t *testing.T, file string, text []byte) source {
	t.Helper()
	files := token.NewFileSet()
	syntax, err := parser.ParseFile(files, file, text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	s := source{file: file, lines: bytes.Count(text, []byte("\n")), functions: functionsOf(files, syntax, text)}
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
