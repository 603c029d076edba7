package rollout_test

import (
	"net/url"
	"testing"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/pkg/refresh"
	"github.com/node-drainer/node-drainer/test/awsim"
)

// several runs the trigger for several groups, and expects how these end.
func (w *world) several(want ...report.Outcome) {
	w.Helper()
	end, err := w.run(w.Context(), "")
	w.must(err)
	for n, g := range end.Groups {
		if g.Outcome != want[n] {
			w.Errorf("%s: outcome %q (%s), want %q", g.Name, g.Outcome, g.Message, want[n])
		}
	}
}

// TestSeveralGroups: all groups are checked before one is changed, the limits on groups hold, and each group has an
// outcome.
func TestSeveralGroups(t *testing.T) {
	const left, failed, skipped = report.Detached, report.Error, report.Skipped
	for name, tt := range map[string]struct {
		together refresh.Phase
		parallel int
		failFast bool
		last     report.Outcome
		calls    string
	}{
		"one fails, the others go on":            {refresh.NoPhase, 1, false, left, "Start, Start"},
		"fail fast":                              {refresh.NoPhase, 1, true, skipped, "Start"},
		"all at once":                            {refresh.NoPhase, 0, false, left, "Start, Start"},
		"checked together":                       {refresh.PhaseCheck, 1, false, skipped, ""},
		"checked together, and then all at once": {refresh.PhaseCheck, 0, false, skipped, ""},
	} {
		inWorld(t, name, awsim.Group{}, func(w *world) {
			w.addGroups("x", "y")
			w.cfg.Together, w.cfg.Parallel, w.cfg.FailFast, w.cfg.Wait = tt.together, tt.parallel, tt.failFast, false
			w.Inject(awsim.Fault{
				Action: "DescribeInstanceRefreshes", Code: "AccessDenied",
				Match: func(form url.Values, _ []byte) bool { return form.Get("AutoScalingGroupName") == "x" },
			})
			first := left
			if tt.calls == "" {
				first = skipped
			}
			w.several(first, failed, tt.last)
			w.expectCalls(tt.calls)
		})
	}
}
