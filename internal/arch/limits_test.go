package arch

import (
	"fmt"
	"go/ast"
	"go/types"
	"path"
	"strings"
	"testing"
)

// golangci-lint limits the length of functions.
const (
	maxFileLines = 400
	maxMainLines = 60 // of cmd/*/main.go
	maxMethods   = 15 // of one type; not in tests
)

// unlimited are the types that may have more methods: the observer has one for each fact.
var unlimited = map[string]bool{"internal/observe.Observer": true}

// methodsOf counts the methods that a file declares, by type.
func methodsOf(syntax *ast.File) map[string]int {
	count := map[string]int{}
	for _, decl := range syntax.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok && f.Recv != nil {
			receiver := strings.TrimPrefix(types.ExprString(f.Recv.List[0].Type), "*")
			name, _, _ := strings.Cut(receiver, "[")
			count[name]++
		}
	}
	return count
}

// lengthProblems returns the file if it is too long.
func lengthProblems(s source) []string {
	limit := maxFileLines
	if strings.HasPrefix(s.file, "cmd/") && path.Base(s.file) == "main.go" {
		limit = maxMainLines
	}
	if s.lines > limit {
		return []string{fmt.Sprintf("%s has %d lines, more than %d", s.file, s.lines, limit)}
	}
	return nil
}

// methodProblems returns the types with too many methods.
func methodProblems(sources []source) (problems []string) {
	count := map[string]int{}
	for _, s := range sources {
		for receiver, n := range s.methods {
			if !s.isTest() {
				count[path.Dir(s.file)+"."+receiver] += n
			}
		}
	}
	for name, methods := range count {
		if methods > maxMethods && !unlimited[name] {
			problems = append(problems, fmt.Sprintf("%s has %d methods, more than %d", name, methods, maxMethods))
		}
	}
	return problems
}

func TestLengthProblems(t *testing.T) {
	for _, tt := range []struct {
		file  string
		lines int
		want  string
	}{
		{"pkg/drain/a_test.go", 400, ""},
		{"pkg/drain/a_test.go", 401, "has 401 lines"},
		{"cmd/agent/main.go", 60, ""},
		{"cmd/agent/main.go", 61, "has 61 lines"},
		{"cmd/agent/clients.go", 61, ""},
	} {
		expectProblem(t, lengthProblems(source{file: tt.file, lines: tt.lines}), tt.want)
	}
}

func TestMethodProblems(t *testing.T) {
	for _, tt := range []struct {
		name, a, b string // files of a package, with eight functions each
		receiver   string
		want       string
	}{
		{"of a package", "pkg/p/a.go", "pkg/p/b.go", "(v T)", "pkg/p.T has 16 methods"},
		{"of a generic type", "pkg/p/a.go", "pkg/p/b.go", "(v *T[K])", "pkg/p.T has 16 methods"},
		{"of two packages", "pkg/p/a.go", "pkg/q/a.go", "(v T)", ""},
		{"in a test", "pkg/p/a.go", "pkg/p/a_test.go", "(v T)", ""},
		{"functions", "pkg/p/a.go", "pkg/p/b.go", "", ""},
		{"of the observer", "internal/observe/a.go", "internal/observe/b.go", "(o *Observer)", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text := []byte("package p\n" + strings.Repeat("func "+tt.receiver+" F() {}\n", 8))
			sources := []source{parse(t, tt.a, text), parse(t, tt.b, text)}
			expectProblem(t, methodProblems(sources), tt.want)
		})
	}
}
