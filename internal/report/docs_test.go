package report

import (
	"os"
	"strings"
	"testing"

	"github.com/node-drainer/node-drainer/test/docs"
)

// TestNodesInTheRunbook: docs/runbook.md shows what trigger nodes prints.
func TestNodesInTheRunbook(t *testing.T) {
	t.Parallel()
	printed, err := os.ReadFile("testdata/nodes.text")
	if err != nil {
		t.Fatal(err)
	}
	table, _, _ := strings.Cut(string(printed), "\n\n")
	if !strings.Contains(docs.Pages(t)["docs/runbook.md"], "```text\n"+table+"\n```") {
		t.Errorf("docs/runbook.md does not show\n%s", table)
	}
}
