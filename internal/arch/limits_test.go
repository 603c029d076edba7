package arch

import (
	"fmt"
	"path"
	"strings"
	"testing"
)

// golangci-lint limits the length of functions.
const (
	maxFileLines = 500
	maxMainLines = 60 // of cmd/*/main.go
)

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

func TestLengthProblems(t *testing.T) {
	for _, tt := range []struct {
		file  string
		lines int
		want  string
	}{
		{"pkg/drain/a_test.go", 500, ""},
		{"pkg/drain/a_test.go", 501, "has 501 lines"},
		{"cmd/agent/main.go", 60, ""},
		{"cmd/agent/main.go", 61, "has 61 lines"},
		{"cmd/agent/clients.go", 61, ""},
	} {
		expectProblem(t, lengthProblems(source{file: tt.file, lines: tt.lines}), tt.want)
	}
}
