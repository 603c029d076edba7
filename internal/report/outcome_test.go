package report

import (
	"strings"
	"testing"
)

func TestExitCode(t *testing.T) {
	t.Parallel()
	for outcome, want := range map[Outcome]int{
		Done: 0, Nothing: 0, Detached: 0,
		Refused: 1, Error: 1, Skipped: 1, "": 1, "unknown": 1,
		Failed: 3, RolledBack: 4, TimedOut: 5, Stalled: 5, Conflict: 6, Incomplete: 7, Interrupted: 130,
	} {
		if got := outcome.ExitCode(); got != want {
			t.Errorf("%q has the code %d, want %d", outcome, got, want)
		}
	}
}

func TestWorst(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		outcomes []Outcome
		want     Outcome
	}{
		"no groups":                                        {nil, Nothing},
		"one group":                                        {[]Outcome{Stalled}, Stalled},
		"all done":                                         {[]Outcome{Done, Done}, Done},
		"done is worse than nothing":                       {[]Outcome{Nothing, Done, Nothing}, Done},
		"detached is worse than done":                      {[]Outcome{Done, Detached, Nothing}, Detached},
		"interrupted is worse than an error":               {[]Outcome{Error, Interrupted, Failed}, Interrupted},
		"an error is worse than a failure":                 {[]Outcome{Failed, Error, RolledBack}, Error},
		"refused is worse than a failure":                  {[]Outcome{Refused, Failed}, Refused},
		"failed is worse than rolled back":                 {[]Outcome{RolledBack, Failed}, Failed},
		"rolled back is worse than timed out":              {[]Outcome{TimedOut, RolledBack, Stalled}, RolledBack},
		"timed out is worse than a conflict":               {[]Outcome{Conflict, TimedOut}, TimedOut},
		"stalled is worse than a conflict":                 {[]Outcome{Stalled, Conflict}, Stalled},
		"a conflict is worse than incomplete":              {[]Outcome{Incomplete, Conflict}, Conflict},
		"incomplete is worse than done":                    {[]Outcome{Done, Incomplete, Detached}, Incomplete},
		"skipped is no worse than the failure before it":   {[]Outcome{Failed, Skipped, Skipped}, Failed},
		"skipped is no worse than the conflict before it":  {[]Outcome{Skipped, Conflict}, Conflict},
		"skipped is no worse than the remainder before it": {[]Outcome{Skipped, Incomplete}, Incomplete},
		"skipped is worse than done":                       {[]Outcome{Done, Skipped}, Skipped},
		"a group that has not ended is an error":           {[]Outcome{Done, ""}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var groups []Group
			for _, outcome := range row.outcomes {
				groups = append(groups, Group{Outcome: outcome})
			}
			if got := Worst(groups); got != row.want {
				t.Errorf("%q, want %q", got, row.want)
			}
		})
	}
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	want := `    0  nothing: there was no outdated instance
       done: no outdated instance is left
       left: the refresh continues; the trigger did not wait for it
    1  skipped: the group was not started, because another one failed
       refused: the preflight refused the rollout; nothing was changed
       error: AWS or Kubernetes refused a call, or a flag is wrong
    2  plan with --detailed-exitcode: there are outdated instances, or a run would be refused
    3  failed: the refresh failed or was cancelled
    4  rolled-back: the refresh was rolled back
    5  stalled: no progress for the time of --stall-timeout
       timed-out: timed out (--timeout)
    6  conflict: another refresh of the group is active
    7  incomplete: it ended, but outdated or retained instances remain
  130  interrupted: the trigger was stopped
`
	if got := ExitCodes(); got != want {
		t.Errorf("%s, want\n%s", got, want)
	}
	if n := strings.Count(want, "\n"); n != len(outcomes())+1 {
		t.Errorf("%d lines for %d outcomes and the plan's", n, len(outcomes()))
	}
}
