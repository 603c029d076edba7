package report

import (
	"strings"
	"testing"

	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// TestHolds: plan and status show what is held, by whom and until when, also if nothing is outdated.
func TestHolds(t *testing.T) {
	t.Parallel()
	holds := []refresh.Hold{
		{Kind: refresh.HoldSurge, Text: "desired capacity raised from 10 to 12", Owner: "ci-1/42", Expires: started},
		{Kind: refresh.HoldProcesses, Text: "suspended: AZRebalance"},
	}
	const want = `  HELD BY  EXPIRES               WHAT
  ci-1/42  2026-11-21T12:03:04Z  desired capacity raised from 10 to 12
  nobody   -                     suspended: AZRebalance
`
	outdated := Plan{Group: "workers", Holds: holds, Outdated: 1, Instances: []Planned{{ID: "i-0a01", Outdated: true}}}
	for name, show := range map[string]func(Reporter){
		"a plan":                        func(r Reporter) { r.Plan([]Plan{outdated}, 0) },
		"a plan without outdated nodes": func(r Reporter) { r.Plan([]Plan{{Group: "workers", Holds: holds}}, 0) },
		"a status":                      func(r Reporter) { r.Status(Rollout{Groups: []Group{{Name: "workers", Holds: holds}}}) },
	} {
		var text, document strings.Builder
		show(reporters(&text)["text"])
		show(reporters(&document)["json"])
		if !strings.Contains(text.String(), want) {
			t.Errorf("%s:\n%s", name, text.String())
		}
		if part := `"owner": "ci-1/42"`; !strings.Contains(document.String(), part) {
			t.Errorf("the JSON of %s lacks %s:\n%s", name, part, document.String())
		}
	}
}
