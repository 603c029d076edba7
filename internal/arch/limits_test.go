package arch

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"strings"
	"testing"
)

const (
	maxFileLines     = 400
	maxMainLines     = 60 // of cmd/*/main.go
	maxFunctionLines = 40 // of the body, without comments; not in tests, whose tables may be long
	maxMethods       = 15 // of one type; not in tests
)

// unlimited are the types that may have more methods: the observer has one for each fact.
var unlimited = map[string]bool{"internal/observe.Observer": true}

// function is a function of a source.
type function struct {
	name, receiver string // receiver is the name of its type, or ""
	lines          int
}

// functionsOf returns the functions that a file declares.
func functionsOf(files *token.FileSet, syntax *ast.File, text []byte) (all []function) {
	lines := strings.Split(string(text), "\n")
	for _, decl := range syntax.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok || f.Body == nil {
			continue
		}
		first, last := files.Position(f.Body.Lbrace).Line, files.Position(f.Body.Rbrace).Line
		n := 0
		for i := first; i < last-1; i++ { // the lines between those of the braces
			if !strings.HasPrefix(strings.TrimSpace(lines[i]), "//") {
				n++
			}
		}
		all = append(all, function{name: f.Name.Name, receiver: receiverOf(f), lines: n})
	}
	return all
}

func receiverOf(f *ast.FuncDecl) string {
	if f.Recv == nil || len(f.Recv.List) == 0 {
		return ""
	}
	kind := f.Recv.List[0].Type
	for {
		switch of := kind.(type) {
		case *ast.StarExpr:
			kind = of.X
		case *ast.IndexExpr:
			kind = of.X
		case *ast.IndexListExpr:
			kind = of.X
		case *ast.Ident:
			return of.Name
		default:
			return ""
		}
	}
}

// lengthProblems returns the file if it is too long, and its functions that are too long.
func lengthProblems(s source) (problems []string) {
	limit := maxFileLines
	if strings.HasPrefix(s.file, "cmd/") && path.Base(s.file) == "main.go" {
		limit = maxMainLines
	}
	if s.lines > limit {
		problems = append(problems, fmt.Sprintf("%s has %d lines, more than %d", s.file, s.lines, limit))
	}
	for _, f := range s.functions {
		if !s.isTest() && f.lines > maxFunctionLines {
			problems = append(problems,
				fmt.Sprintf("%s: the function %s has %d lines, more than %d", s.file, f.name, f.lines, maxFunctionLines))
		}
	}
	return problems
}

// methodProblems returns the types with too many methods.
func methodProblems(sources []source) (problems []string) {
	count := map[string]int{}
	for _, s := range sources {
		for _, f := range s.functions {
			if f.receiver != "" && !s.isTest() {
				count[path.Dir(s.file)+"."+f.receiver]++
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
		name, file               string
		fileLines, functionLines int
		want                     string
	}{
		{"file of 400 lines", "pkg/drain/a.go", 400, 0, ""},
		{"file of 401 lines", "pkg/drain/a.go", 401, 0, "has 401 lines"},
		{"file of 401 lines of test", "test/awsim/a.go", 401, 0, "has 401 lines"},
		{"test of 401 lines", "pkg/drain/a_test.go", 401, 0, "has 401 lines"},
		{"main of 60 lines", "cmd/agent/main.go", 60, 0, ""},
		{"main of 61 lines", "cmd/agent/main.go", 61, 0, "has 61 lines"},
		{"file of 61 lines beside main", "cmd/agent/clients.go", 61, 0, ""},
		{"function of 40 lines", "pkg/drain/a.go", 99, 40, ""},
		{"function of 41 lines", "pkg/drain/a.go", 99, 41, "function f has 41 lines"},
		{"test function of 41 lines", "pkg/drain/a_test.go", 99, 41, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := source{file: tt.file, lines: tt.fileLines, functions: []function{{name: "f", lines: tt.functionLines}}}
			expectProblem(t, lengthProblems(s), tt.want)
		})
	}
}

func TestMethodProblems(t *testing.T) {
	const few = `package p
func (v T) A() {}
func (v *T) B() { /* a comment */
	_ = 1 // behind code
	// on a line of its own

	_ = 2
}
func c() {}
`
	s := parse(t, "pkg/p/a.go", []byte(few))
	if len(s.functions) != 3 || s.functions[1].receiver != "T" || s.functions[1].lines != 3 || s.functions[2].receiver != "" {
		t.Errorf("functions: %+v", s.functions)
	}
	for _, tt := range []struct {
		name, file, receiver string
		methods              int
		want                 string
	}{
		{"15 methods", "pkg/p/a.go", "T", 15, ""},
		{"16 methods", "pkg/p/a.go", "T", 16, "pkg/p.T has 16 methods"},
		{"16 methods in a test", "pkg/p/a_test.go", "T", 16, ""},
		{"16 functions", "pkg/p/a.go", "", 16, ""},
		{"16 methods of the observer", "internal/observe/a.go", "Observer", 16, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sources := []source{{file: tt.file}, {file: path.Join(path.Dir(tt.file), "b.go")}}
			for range tt.methods {
				sources[0].functions = append(sources[0].functions, function{receiver: tt.receiver})
			}
			expectProblem(t, methodProblems(sources), tt.want)
		})
	}
}
