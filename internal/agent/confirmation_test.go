package agent_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/node-drainer/node-drainer/internal/agent"
	"github.com/node-drainer/node-drainer/internal/ec2"
	"github.com/node-drainer/node-drainer/pkg/queue"
)

// TestConfirmation: each row of the tables "Confirmation" of docs/architecture.md is a case here, and each case a row.
func TestConfirmation(t *testing.T) {
	t.Parallel()
	denied := stateIs(silent(never, terminating))
	unanswered := []string{"cordon", "hold unconfirmed drain"}
	longAgo := func(f *fixture) queue.Message {
		began := f.start.Add(-10 * time.Minute)
		m := reservationInterruption(&fixture{start: began})
		m.SentAt = began
		return m
	}
	ec2Silent := func(d time.Duration) given { return ec2Says(silent(d, ec2.Instance{State: running, Spot: true})) }
	var rows []string
	for _, tt := range []struct {
		row     string
		given   given
		message source
		steps   []string
		outcome agent.Outcome
	}{
		{"terminating, or returning to the warm pool", inState("Terminating:Wait"), termination, drainedBy("1h0m0s"), agent.Drained},
		{"", inState("Warmed:Pending:Wait"), termination, drainedBy("1h0m0s"), agent.Drained},
		{"past its hooks", inState("Terminating:Proceed"), termination, nil, agent.Gone},
		{"", inState("Terminated"), termination, nil, agent.Gone},
		{"", inState(warmedStopped), termination, nil, agent.Gone},
		{
			"no answer", stateIs(silent(3*time.Second, terminating)), termination,
			append([]string{"cordon"}, drainedBy("1h0m3.75s..1h0m4.5s")...), agent.Drained,
		},
		{
			"no answer for 5 s", stateIs(silent(7*time.Second, terminating)), termination,
			append(slices.Clip(unanswered), drainedBy("1h0m7.75s..1h0m9.3s")...), agent.Drained,
		},
		{
			"no answer for 10 s", with(denied, pendingIs(always(true))), termination,
			append(slices.Clip(unanswered), drainedBy("1h0m10s..1h0m20s")...), agent.Drained,
		},
		{"", denied, termination, unanswered, agent.Gone},
		{"in service, any other state, or another group than the message names", inState(inService), termination, nil, agent.Unconfirmed},
		{"", inState("Standby"), termination, nil, agent.Unconfirmed},
		{"no group", inState(inNoGroup), termination, nil, agent.Unconfirmed},
		{"", with(inState(inNoGroup), cordoned("", -time.Minute, time.Hour, 0)), termination, nil, agent.Gone},

		{
			"for a Spot warning, a request that runs on", func(f *fixture) { f.spot = always(ec2.SpotStatus("fulfilled")) },
			spotWarning, append(drainedWithoutHook("1h0m0s"), "uncordon"), agent.Unconfirmed,
		},
		{"what the event requires", nil, spotWarning, drainedWithoutHook("1m55s"), agent.Drained},
		{"", nil, reservationInterruption, drainedWithoutHook("55s"), agent.Drained},
		{"", ec2State("stopping"), stateChange("stopping"), drainedWithoutHook("25s"), agent.Drained},
		{"shutting down, whatever the event", ec2State("shutting-down"), spotWarning, drainedWithoutHook("1m55s"), agent.Drained},
		{"stopped or terminated", ec2State("terminated"), spotWarning, nil, agent.Gone},
		{"", ec2State("terminated"), stateChange("terminated"), drainedWithoutHook("0s"), agent.Drained},
		{
			"no answer", ec2Silent(never), spotWarning, append([]string{"cordon"}, drainedWithoutHook("1m55s")...), agent.Drained,
		},
		{
			"none of these, or running a minute after the deadline", ec2State(running), spotWarning, nil, agent.Unconfirmed,
		},
		{"", nil, longAgo, nil, agent.Unconfirmed},
	} {
		if tt.row != "" {
			rows = append(rows, tt.row)
		}
		each(t, rows[len(rows)-1], with(inState(inService), tt.given), func(t *testing.T, f *fixture) {
			mustHandle(t, f, f.agent(), tt.message)
			f.wantSteps(t, tt.steps...)
			f.wantOutcome(t, tt.outcome)
		})
	}
	if diff := cmp.Diff(rows, rowsOfPage(t)); diff != "" {
		t.Errorf("the rows of docs/architecture.md differ from the cases (-cases +page):\n%s", diff)
	}
}

var (
	inParentheses = regexp.MustCompile(` \([^)]*\)`)
	link          = regexp.MustCompile(`\[([^]]*)\]\([^)]*\)`)
)

// rowsOfPage returns the first cells of the tables "Confirmation", without links and what is in parentheses, and of one
// that lists examples after a colon only what comes before.
func rowsOfPage(t *testing.T) (rows []string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Confirmation\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for line := range strings.Lines(section) {
		cells := strings.Split(line, " | ")
		cell, isRow := strings.CutPrefix(cells[0], "| ")
		if !isRow || len(cells) < 2 || strings.HasSuffix(cell, " reports") || strings.HasPrefix(cell, "---") {
			continue
		}
		cell = inParentheses.ReplaceAllString(link.ReplaceAllString(cell, "$1"), "")
		cell, _, _ = strings.Cut(cell, ":")
		rows = append(rows, cell)
	}
	return rows
}
