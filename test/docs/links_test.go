package docs

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// TestLinks: every link within the repository has a file at its end, and the heading that it names.
func TestLinks(t *testing.T) {
	t.Parallel()
	root, pages := Root(t), Pages(t)
	checked := 0
	for name, page := range pages {
		for _, target := range targets(page) {
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			checked++
			file, anchor, _ := strings.Cut(target, "#")
			if file = path.Join(path.Dir(name), file); strings.HasPrefix(target, "#") {
				file = name
			}
			if _, err := os.Stat(filepath.Join(root, file)); err != nil || strings.HasPrefix(file, "..") {
				t.Errorf("%s links to %s, which is not there", name, target)
			} else if anchor != "" && !anchors(pages[file])[anchor] {
				t.Errorf("%s links to %s, and %s has no such heading", name, target, file)
			}
		}
	}
	if checked < 100 {
		t.Errorf("only %d links were found", checked)
	}
}

// targets are where the links and pictures of a page lead to.
func targets(page string) []string {
	prose := regexp.MustCompile("`[^`\n]*`").ReplaceAllString(Prose(page), "``")
	var all []string
	for _, m := range regexp.MustCompile(`\]\(([^)\s]+)\)|(?:href|src|srcset)="([^"]+)"`).FindAllStringSubmatch(prose, -1) {
		all = append(all, m[1]+m[2])
	}
	return all
}

// anchors are the names by which GitHub lets the headings of a page be linked to. It gives the second of a name
// the end -1.
func anchors(page string) map[string]bool {
	all, seen := map[string]bool{}, map[string]int{}
	for _, m := range regexp.MustCompile(`(?m)^#{1,6} (.+)$`).FindAllStringSubmatch(Prose(page), -1) {
		name := slug(m[1])
		if times := seen[name]; times > 0 {
			all[fmt.Sprintf("%s-%d", name, times)] = true
		} else {
			all[name] = true
		}
		seen[name]++
	}
	for _, m := range regexp.MustCompile(`<a (?:id|name)="([^"]+)"`).FindAllStringSubmatch(page, -1) {
		all[m[1]] = true
	}
	return all
}

// slug is GitHub's name for a heading: in small letters, spaces as hyphens, without punctuation and without the
// target of a link.
func slug(heading string) string {
	heading = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`).ReplaceAllString(heading, "$1")
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, strings.TrimSpace(heading))
}

// TestCodeEndsOnItsLine: a line break within a span of code is shown as a space, and hides the span from the tests.
func TestCodeEndsOnItsLine(t *testing.T) {
	t.Parallel()
	for name, page := range Pages(t) {
		for line := range strings.Lines(Prose(page)) {
			if strings.Count(line, "`")%2 == 1 {
				t.Errorf("%s: code goes on after the end of the line: %s", name, line)
			}
		}
	}
}

// TestEveryPageIsInTheIndex: docs/README.md leads to every page below docs.
func TestEveryPageIsInTheIndex(t *testing.T) {
	t.Parallel()
	pages := Pages(t)
	index := map[string]bool{"docs/README.md": true}
	for _, target := range targets(pages["docs/README.md"]) {
		file, _, _ := strings.Cut(target, "#")
		index[path.Join("docs", file)] = true
	}
	for name := range pages {
		if strings.HasPrefix(name, "docs/") && !index[name] {
			t.Errorf("docs/README.md does not lead to %s", name)
		}
	}
}

// TestTablesAreWhole: what looks like a row of a table is below the head of one, so that it is shown as a table.
func TestTablesAreWhole(t *testing.T) {
	t.Parallel()
	rule := regexp.MustCompile(`^\|( ?:?-+:? ?\|)+$`)
	for name, page := range Pages(t) {
		for paragraph := range strings.SplitSeq(Prose(page), "\n\n") {
			lines := strings.Split(strings.Trim(paragraph, "\n"), "\n")
			isRow := func(line string) bool { return strings.HasPrefix(line, "|") }
			rows := slices.IndexFunc(lines, isRow)
			switch {
			case rows < 0:
			case rows > 0 || slices.ContainsFunc(lines, func(line string) bool { return !isRow(line) }):
				t.Errorf("%s: a table is not a paragraph of its own: %s", name, lines[0])
			case len(lines) < 3 || !rule.MatchString(lines[1]):
				t.Errorf("%s: a table has no head: %s", name, lines[0])
			}
		}
	}
}
