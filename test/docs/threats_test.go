package docs

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestThreats: each threat of docs/security.md has an id of its own, and names the tests that show what the page says, or
// what does.
func TestThreats(t *testing.T) {
	t.Parallel()
	id := regexp.MustCompile(`^[A-Z][1-9][0-9]?$`)
	shown := regexp.MustCompile("^(`Test\\w+`(, | for the policy; )?)*(accepted|Kubernetes)?$")
	var ids []string
	inTable := false
	for line := range strings.Lines(Pages(t)["docs/security.md"]) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		switch {
		case strings.HasPrefix(line, "| Id |"):
			inTable = true
			continue
		case !strings.HasPrefix(line, "|"):
			inTable = false
		}
		if !inTable || strings.HasPrefix(line, "| ---") {
			continue
		}
		one, by := strings.TrimSpace(cells[0]), strings.TrimSpace(cells[len(cells)-1])
		if !id.MatchString(one) || slices.Contains(ids, one) {
			t.Errorf("%q is no id, or another threat has it", one)
		}
		if by == "" || !shown.MatchString(by) {
			t.Errorf("%s is shown by %q", one, by)
		}
		ids = append(ids, one)
	}
	if len(ids) < 40 {
		t.Errorf("only %d threats were found: %q", len(ids), ids)
	}
}
