package cli

import (
	"testing"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// TestPlanExitCode: where a run would end before it changes anything, a plan has its exit code; else it is 2 on request
// if anything is outdated.
func TestPlanExitCode(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name           string
		plan           report.Plan
		want, detailed int
	}{
		{"nothing is outdated", report.Plan{}, 0, 0},
		{"something is outdated", report.Plan{Outdated: 1}, 0, 2},
		{"everything outdated is kept", report.Plan{Kept: 1}, 0, 2},
		{"a node group without nodes is outdated", report.Plan{Reasons: []refresh.Reason{{}}}, 0, 2},
		{"a run would be refused", report.Plan{Outdated: 1, Refused: []string{"suspended"}}, 1, 1},
		{"a run would be a conflict", report.Plan{Outdated: 1, Refused: []string{refresh.CheckActive}}, 6, 6},
		{"a run would be refused for two reasons", report.Plan{Refused: []string{refresh.CheckActive, "suspended"}}, 1, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			plans := []report.Plan{{}, tt.plan}
			if got, detailed := planExitCode(plans, false), planExitCode(plans, true); got != tt.want || detailed != tt.detailed {
				t.Errorf("got %d, and %d with --detailed-exitcode; want %d and %d", got, detailed, tt.want, tt.detailed)
			}
		})
	}
}
