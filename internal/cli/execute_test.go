package cli

import (
	"testing"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// TestDetailedExitCode: the code is 2 if a run would replace, keep or refuse something.
func TestDetailedExitCode(t *testing.T) {
	t.Parallel()
	refused := []refresh.Finding{{Check: "target", Level: refresh.Refuse}}
	warned := []refresh.Finding{{Check: "max-size", Level: refresh.Warn}}
	for _, tt := range []struct {
		name    string
		plan    report.Plan
		allowed []string
		want    int
	}{
		{"nothing is outdated", report.Plan{}, nil, 0},
		{"something is outdated", report.Plan{Outdated: 1}, nil, 2},
		{"everything outdated is kept", report.Plan{Kept: 1}, nil, 2},
		{"a run would be refused", report.Plan{Findings: refused}, nil, 2},
		{"a run would be refused, and is allowed", report.Plan{Findings: refused}, []string{"target"}, 0},
		{"a run would have a warning", report.Plan{Findings: warned}, nil, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := detailedExitCode([]report.Plan{{}, tt.plan}, tt.allowed); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}
