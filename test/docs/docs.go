// Package docs reads the pages of this repository, for the tests that compare them with the code.
package docs

import (
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/node-drainer/node-drainer/test/chart"
)

// Root returns the root of the repository.
func Root(t testing.TB) string {
	t.Helper()
	root, err := chart.Root()
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// Pages returns the Markdown files of the repository, by their path from its root.
func Pages(t testing.TB) map[string]string {
	t.Helper()
	root := os.DirFS(Root(t))
	pages := map[string]string{}
	elsewhere := []string{".git", "bin", "dist", "node_modules", "testdata"}
	err := fs.WalkDir(root, ".", func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains(elsewhere, entry.Name()):
			return fs.SkipDir
		case entry.IsDir() || path.Ext(file) != ".md":
			return nil
		}
		text, err := fs.ReadFile(root, file)
		pages[file] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return pages
}

// Block is a fenced code block of a page.
type Block struct {
	Mark string // what the HTML comment before it says, as "needs a real account"; empty without one
	Text string
}

// fence finds a fenced block, with the comment on the line before it.
func fence() *regexp.Regexp {
	return regexp.MustCompile("(?ms)^(?:<!-- ([^\n]*?) -->\n)?```([a-z]*)\n(.*?)^```$")
}

// Blocks returns the fenced blocks of a page that are in a language.
func Blocks(page, language string) []Block {
	var all []Block
	for _, m := range fence().FindAllStringSubmatch(page, -1) {
		if m[2] == language {
			all = append(all, Block{Mark: m[1], Text: m[3]})
		}
	}
	return all
}

// Commands returns the lines that a shell would run: continued lines and those of one quoted text are joined, comments
// are cut off.
func (b Block) Commands() []string {
	var commands []string
	open := ""
	for line := range strings.Lines(strings.ReplaceAll(b.Text, "\\\n", " ")) {
		line, _, _ = strings.Cut(" "+strings.TrimSpace(line), " #")
		words := strings.Fields(open + line)
		command := strings.Join(words, " ")
		if open = ""; strings.Count(command, "'")%2 == 1 {
			open = command + " "
		} else if len(words) > 0 {
			commands = append(commands, command)
		}
	}
	return commands
}

// Prose returns a page without its fenced blocks.
func Prose(page string) string { return fence().ReplaceAllString(page, "") }

// Spans returns what the prose of a page has between backticks.
func Spans(page string) []string {
	var all []string
	for _, m := range regexp.MustCompile("`([^`\n]+)`").FindAllStringSubmatch(Prose(page), -1) {
		all = append(all, m[1])
	}
	return all
}
