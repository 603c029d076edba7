package config_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/node-drainer/node-drainer/internal/config"
)

// pages are what users read of the configuration, but for the generated reference.
func pages(t *testing.T) map[string]string {
	t.Helper()
	names, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	text := map[string]string{}
	for _, name := range append(names, "../../README.md") {
		page, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		text[filepath.Base(name)] = string(page)
	}
	return text
}

// TestEveryVariableOfTheDocsExists: a name that has one of our prefixes is a variable that is there.
func TestEveryVariableOfTheDocsExists(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, v := range config.Variables() {
		known[v.Name] = true
	}
	name := regexp.MustCompile(`\b(QUEUE|HOOK|NODE|DRAIN|LOG)_[A-Z_]+\b`)
	for page, text := range pages(t) {
		for _, found := range name.FindAllString(text, -1) {
			if !known[found] {
				t.Errorf("%s names %s, which is no variable", page, found)
			}
		}
	}
}

// TestTheSettingsOfTheDocsAreRead: what a reader copies from a page is a configuration without mistakes.
func TestTheSettingsOfTheDocsAreRead(t *testing.T) {
	t.Parallel()
	block := regexp.MustCompile("(?s)```sh\n(.*?)```")
	setting := regexp.MustCompile(`^(QUEUE|HOOK|NODE|DRAIN|LOG)_[A-Z_]+=`)
	read := 0
	for page, text := range pages(t) {
		for _, found := range block.FindAllStringSubmatch(text, -1) {
			env := environ()
			for line := range strings.Lines(found[1]) {
				line, _, _ = strings.Cut(line, " #")
				line = strings.TrimSpace(line)
				if setting.MatchString(line) && !strings.Contains(line, " ") {
					env = append(env, line)
					read++
				}
			}
			if _, err := config.ReadAgent(env); err != nil {
				t.Errorf("%s: %q: %v", page, env, err)
			}
		}
	}
	if read == 0 {
		t.Error("the docs show no setting at all")
	}
}
