package refresh

import (
	"os"
	"strings"
	"testing"
)

// TestHoldRules: docs/rollout-modes.md says of each hold what becomes of it, as the rules do.
func TestHoldRules(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/rollout-modes.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[HoldKind]bool{}
	for _, r := range HoldRules() {
		row := "| " + strings.Join([]string{
			"`" + string(r.Kind) + "`", r.Record, r.Expires, r.Ends, r.Windows, r.Fails,
		}, " | ") + " |\n"
		if !strings.Contains(string(page), row) {
			t.Errorf("docs/rollout-modes.md lacks the row\n%s", row)
		}
		if seen[r.Kind] {
			t.Errorf("%s has two rules", r.Kind)
		}
		if seen[r.Kind] = true; r.Reported != (r.Fails == exitCode) {
			t.Errorf("%s is reported: %t, and the page says %q", r.Kind, r.Reported, r.Fails)
		}
	}
}
