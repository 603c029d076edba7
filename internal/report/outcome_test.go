package report

import (
	"strings"
	"testing"
)

// TestWorst: each outcome is worse than those after it. Only a group that has not ended, which counts as an error, has
// none.
func TestWorst(t *testing.T) {
	t.Parallel()
	order := []Outcome{
		Interrupted, Error, Refused, Failed, RolledBack, TimedOut, Stalled, Conflict, Incomplete, Skipped, Detached, Done, Nothing,
	}
	for n, worse := range order {
		for _, better := range order[n:] {
			if got := Worst([]Group{{Outcome: Nothing}, {Outcome: better}, {Outcome: worse}, {Outcome: better}}); got != worse {
				t.Errorf("the worst of %q and %q is %q", worse, better, got)
			}
		}
	}
	if got := Worst([]Group{{Outcome: Done}, {}}); got != "" || got.ExitCode() != 1 {
		t.Errorf("the worst is %q, with the code %d", got, got.ExitCode())
	}
	if got := Worst(nil); got != Nothing {
		t.Errorf("the worst of no groups is %q", got)
	}
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	want := `    0  nothing: there was no outdated instance
       done: no outdated instance is left
       detached: the refresh continues; the trigger did not wait for it
    1  skipped: the group was not started, because another one failed
       refused: the preflight refused the rollout; nothing was changed
       error: AWS or Kubernetes refused a call, or a flag is wrong
    2  plan with --detailed-exitcode: there are outdated instances, and a run would replace them
    3  gated: a gate did not pass; nothing further is replaced until the trigger is run again
       failed: the refresh failed or was cancelled, or a node was not ready in time
    4  rolled-back: the refresh was rolled back
    5  stalled: no progress for the time of --stall-timeout
       timed-out: timed out (--timeout)
    6  conflict: another refresh of the group is active
    7  incomplete: it ended, but outdated or retained instances remain, nodes were not drained, or something was not given back
       migrate: an option has no equivalent, or is unknown
    8  ineffective: the group launches instances that are outdated as well; no further one was replaced
  130  interrupted: the trigger was stopped
`
	if got := ExitCodes(); got != want {
		t.Errorf("%s, want\n%s", got, want)
	}
	if n := strings.Count(want, "\n"); n != len(outcomes())+2 {
		t.Errorf("%d lines for %d outcomes, the plan's and that of migrate", n, len(outcomes()))
	}
}
