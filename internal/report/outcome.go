package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

const (
	codeError    = 1 // Also of a wrong usage, and of an error before there was any group.
	codeOutdated = 2 // Of a plan alone, and only if it is asked for.
)

// ending is what an outcome means to who started the program.
type ending struct {
	outcome Outcome
	code    int
	text    string
}

// endings are all outcomes, the worst first. Codes are in the order 130, 1, 3, 4, 5, 6, 7, 0. Skipped stands
// apart: it has the code of an error, but the failure that caused it says more.
func endings() []ending {
	return []ending{
		{Interrupted, 130, "the trigger was stopped"},
		{Error, codeError, "AWS or Kubernetes refused a call, or a flag is wrong"},
		{Refused, codeError, "the preflight found what would do harm; nothing was changed"},
		{Failed, 3, "the refresh failed, or somebody cancelled it"},
		{RolledBack, 4, "the refresh was rolled back"},
		{TimedOut, 5, "the time of --timeout was over"},
		{Stalled, 5, "nothing moved for the time of --stall-timeout"},
		{Conflict, 6, "another refresh of the group is under way"},
		{Incomplete, 7, "it ended, but outdated or retained instances remain"},
		{Skipped, codeError, "the group was not begun, since another one failed"},
		{Detached, 0, "the refresh goes on; it was not to be waited for"},
		{Done, 0, "no outdated instance is left"},
		{Nothing, 0, "there was no outdated instance"},
	}
}

// rank is the place of the outcome among the endings: the smaller, the worse. What is not known, such as the
// empty outcome of a group that has not ended, counts as an error.
func (o Outcome) rank() int {
	all := endings()
	of := func(wanted Outcome) int {
		return slices.IndexFunc(all, func(e ending) bool { return e.outcome == wanted })
	}
	if at := of(o); at >= 0 {
		return at
	}
	return of(Error)
}

// ExitCode is what a program ends with if all that it did ended so. An outcome that is not known has the code
// of an error.
func (o Outcome) ExitCode() int { return endings()[o.rank()].code }

// good tells whether there is nothing to be done about the outcome.
func (o Outcome) good() bool { return o.ExitCode() == 0 }

// Worst is the outcome of a rollout of several groups: the worst of theirs by the rank of their exit codes,
// which is 130, 1, 3, 4, 5, 6, 7, 0. A group that was skipped is never worse than the failure that caused it.
// Of no groups it is Nothing.
func Worst(groups []Group) Outcome {
	worst := Nothing
	for _, g := range groups {
		if g.Outcome.rank() < worst.rank() {
			worst = g.Outcome
		}
	}
	return worst
}

// ExitCodes is the text of the exit codes for --help and the documentation: one line for each code, the codes
// in their order, each line with the outcomes that end with it.
func ExitCodes() string {
	meanings := map[int][]string{
		codeOutdated: {"plan with --detailed-exitcode: there are outdated instances, or a run would be refused"},
	}
	for _, e := range slices.Backward(endings()) {
		meanings[e.code] = append(meanings[e.code], fmt.Sprintf("%s: %s", e.outcome, e.text))
	}
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
