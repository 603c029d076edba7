package arch

import (
	"path"
	"slices"
	"strings"
	"testing"
)

// reach returns the packages of the module that a package contains when it is linked, by their paths in the module,
// whatever the build tags are.
func reach(sources []source, from string) map[string]bool {
	imports := map[string][]string{}
	for _, s := range sources {
		if dir := path.Dir(s.file); !s.isTest() {
			imports[dir] = append(imports[dir], s.imports...)
		}
	}
	reached, next := map[string]bool{}, []string{from}
	for len(next) > 0 {
		dir := next[0]
		if next = next[1:]; reached[dir] {
			continue
		}
		reached[dir] = true
		for _, imported := range imports[dir] {
			if inside, isInside := strings.CutPrefix(imported, module+"/"); isInside {
				next = append(next, inside)
			}
		}
	}
	return reached
}

// TestAgentHandsNothingOver: the agent, which may evict pods on all nodes, reads no Secret and speaks to no pod. The
// program that does has rights in one namespace.
func TestAgentHandsNothingOver(t *testing.T) {
	sources := parseAll(t)
	reached := map[string]map[string]bool{}
	for _, program := range []string{"cmd/agent", "cmd/trigger", "cmd/handover"} {
		reached[program] = reach(sources, program)
	}
	for _, tt := range []struct {
		name     string
		programs []string
	}{
		{"internal/handover/redis", []string{"cmd/handover"}},
		{"internal/handover/redis/resp", []string{"cmd/handover"}},
		{"internal/handover/surge", []string{"cmd/handover"}},
		{"internal/handover/server", []string{"cmd/handover"}},
		{"internal/handover/workload", []string{"cmd/handover"}},
		{"internal/handover/program", []string{"cmd/handover"}},
		{"internal/handover/webhook", []string{"cmd/agent", "cmd/handover"}},
		{"internal/handover/restart", []string{"cmd/agent"}},
	} {
		for program, all := range reached {
			if want := slices.Contains(tt.programs, program); all[tt.name] != want {
				t.Errorf("%s contains %s: %t, want %t", program, tt.name, all[tt.name], want)
			}
		}
	}
}
