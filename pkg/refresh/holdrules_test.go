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
		code := map[bool]string{true: "7", false: "-"}[r.Reported]
		row := "| " + strings.Join([]string{"`" + string(r.Kind) + "`", r.Record, r.Expires, r.Ends, code}, " | ") + " |\n"
		if !strings.Contains(string(page), row) {
			t.Errorf("docs/rollout-modes.md lacks the row\n%s", row)
		}
		if seen[r.Kind] {
			t.Errorf("%s has two rules", r.Kind)
		}
		seen[r.Kind] = true
	}
}
