package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

const (
	exitError    = 1 // Also for usage errors, and errors before any group was found.
	exitOutdated = 2 // Only for plans with --detailed-exitcode.
)

// outcomeInfo describes an outcome for users.
type outcomeInfo struct {
	outcome Outcome
	code    int
	text    string
}

// outcomes returns all outcomes, the worst first. Codes are in the order 130, 1, 8, 3, 4, 5, 6, 7, 0. Only
// Skipped is out of order: it has the code of an error, but the failure that caused it matters more.
func outcomes() []outcomeInfo {
	return []outcomeInfo{
		{Interrupted, 130, "the trigger was stopped"},
		{Error, exitError, "AWS or Kubernetes refused a call, or a flag is wrong"},
		{Refused, exitError, "the preflight refused the rollout; nothing was changed"},
		{Ineffective, 8, "the group launches instances that are outdated as well; no further one was replaced"},
		{Failed, 3, "the refresh failed or was cancelled, or a node was not ready in time"},
		{Gated, 3, "a gate did not pass; nothing further is replaced until the trigger is run again"},
		{RolledBack, 4, "the refresh was rolled back"},
		{TimedOut, 5, "timed out (--timeout)"},
		{Stalled, 5, "no progress for the time of --stall-timeout"},
		{Conflict, 6, "another refresh of the group is active"},
		{
			Incomplete, 7, "it ended, but outdated or retained instances remain, nodes were not drained, or something was " +
				"not given back",
		},
		{Skipped, exitError, "the group was not started, because another one failed"},
		{Detached, 0, "the refresh continues; the trigger did not wait for it"},
		{Done, 0, "no outdated instance is left"},
		{Nothing, 0, "there was no outdated instance"},
	}
}

// Outcomes returns all outcomes, the worst first.
func Outcomes() (all []string) {
	for _, e := range outcomes() {
		all = append(all, string(e.outcome))
	}
	return all
}

// rank returns the severity of the outcome: the smaller, the worse. An unknown one, such as the empty outcome
// of a group that has not ended, counts as an error.
func (o Outcome) rank() int {
	at := slices.IndexFunc(outcomes(), func(e outcomeInfo) bool { return e.outcome == o })
	if at < 0 {
		return Error.rank()
	}
	return at
}

// ExitCode returns the exit code for the outcome. An unknown outcome has the code of an error.
func (o Outcome) ExitCode() int { return outcomes()[o.rank()].code }

// isSuccess reports whether the exit code is 0.
func (o Outcome) isSuccess() bool { return o.ExitCode() == 0 }

// Worst returns the worst outcome of the groups, in the order 130, 1, 8, 3, 4, 5, 6, 7, 0 of their exit codes. A
// skipped group is never worse than the failure that caused it. Without groups it is Nothing.
func Worst(groups []Group) Outcome {
	worst := Nothing
	for _, g := range groups {
		if g.Outcome.rank() < worst.rank() {
			worst = g.Outcome
		}
	}
	return worst
}

// ExpectedExitCode returns the exit code of a run that ends before it changes anything in one of the groups, else 0.
func ExpectedExitCode(plans []Plan) int {
	groups := make([]Group, len(plans))
	for n, p := range plans {
		groups[n].Outcome = cmp.Or(p.Expected(), Nothing)
	}
	return Worst(groups).ExitCode()
}

// ExitCodes returns the exit codes with their outcomes, for --help and the documentation.
func ExitCodes() string {
	meanings := map[int][]string{
		exitOutdated: {"plan with --detailed-exitcode: there are outdated instances, and a run would replace them"},
	}
	for _, e := range slices.Backward(outcomes()) {
		meanings[e.code] = append(meanings[e.code], fmt.Sprintf("%s: %s", e.outcome, e.text))
	}
	migrated := Incomplete.ExitCode()
	meanings[migrated] = append(meanings[migrated], "migrate: an option has no equivalent, or is unknown")
	var b strings.Builder
	for _, code := range slices.Sorted(maps.Keys(meanings)) {
		for n, meaning := range meanings[code] {
			label := ""
			if n == 0 {
				label = fmt.Sprint(code)
			}
			fmt.Fprintf(&b, "%5s  %s\n", label, meaning)
		}
	}
	return b.String()
}
