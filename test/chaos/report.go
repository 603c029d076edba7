package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/node-drainer/node-drainer/internal/retry"
	"github.com/node-drainer/node-drainer/test/awsim"
)

// printProgress writes a line of progress every five seconds.
func (x report) printProgress(ctx context.Context, o options, out io.Writer) {
	for retry.Sleep(ctx, 5*time.Second) {
		if err := x.fleet.restartExited(); err != nil {
			_, _ = fmt.Fprintln(out, err)
		}
		closed, open := x.hooks()
		kills, terms := x.fleet.signals()
		const format = "%5.0fs  %d of %d started, hooks: %d open, %d closed; %d kills, %d TERMs, %d faulty calls\n"
		_, _ = fmt.Fprintf(out, format,
			time.Since(x.start).Seconds(), x.started(), o.terminations, open, closed, kills, terms, x.hits.Load())
	}
}

func (x report) hooks() (closed, open int) {
	for _, a := range x.aws.Ledger() {
		switch {
		case a.Group == otherCluster:
		case a.ClosedAt.IsZero():
			open++
		default:
			closed++
		}
	}
	return closed, open
}

// started counts the terminations so far.
func (x report) started() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	n := 0
	for what, times := range x.done {
		if isTermination(what) {
			n += times
		}
	}
	return n
}

// summary prints what was done, and which promises were broken.
func (x report) summary(out io.Writer, o options, f facts, violations []violation, settled string) {
	line := func(what, format string, args ...any) {
		_, _ = fmt.Fprintf(out, "  %-18s %s\n", what, fmt.Sprintf(format, args...))
	}
	kills, terms := x.fleet.signals()
	_, _ = fmt.Fprintf(out, "\nseed %d, %d agents, election %v, %s:\n", o.seed, o.agents, o.elect,
		time.Since(x.start).Round(time.Second))
	line("terminations", "%d: %s", x.started(), x.kinds(newPlan(o.seed, o.terminations, o.each).terminating()))
	line("decoys", "%s", x.kinds(map[string]int{canceled: 1, forgedSpot: 1, forgedHook: 1, foreignMessage: 1}))
	line("agents", "%d killed (%d times all at once), %d stopped with SIGTERM", kills, x.done[killAll], terms)
	line("API server", "stopped %d times for %s in total; other parts of the control plane restarted %d times",
		len(f.Outages), total(f.Outages), x.done[restarted])
	line("machine", "stalled %d times, for %s in total", len(f.Stalls), total(f.Stalls))
	line("AWS", "%d faults hit %d calls; %d messages duplicated", x.done[fault], x.hits.Load(), x.copies)
	evictions, deletions := removals(f)
	line("pods", "%d evicted, %d deleted bypassing their budget", evictions, deletions)
	hooks, notices := countExcused(f)
	line("excused", "%d hooks that timed out, %d of %d EC2 notices", hooks, notices, len(f.Interruptions))
	longest := longestDrain(f.Actions)
	line("longest drain", "%.1fs (%s)", longest.ClosedAt.Sub(longest.StartedAt).Seconds(), longest.InstanceID)
	line("end", "%s", settled)
	if len(violations) == 0 {
		line("result", "all promises kept")
		return
	}
	line("result", "%d promises broken", len(violations))
	printViolations(out, violations)
}

// printViolations prints for each broken promise how often it was broken, and the first cases.
func printViolations(out io.Writer, violations []violation) {
	const most, longest = 12, 1000
	by := map[string][]violation{}
	for _, b := range violations {
		by[b.Promise] = append(by[b.Promise], b)
	}
	for _, promise := range slices.Sorted(maps.Keys(by)) {
		_, _ = fmt.Fprintf(out, "\nBROKEN %d times: %s\n", len(by[promise]), promise)
		for _, b := range by[promise][:min(most, len(by[promise]))] {
			_, _ = fmt.Fprintf(out, "  - %s\n", b.How[:min(longest, len(b.How))])
		}
	}
}

// kinds formats how often each kind of step was done.
func (x report) kinds(of map[string]int) string {
	x.mu.Lock()
	defer x.mu.Unlock()
	var all []string
	for what := range of {
		all = append(all, fmt.Sprintf("%d %s", x.done[what], what))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

func total(spans []span) (all time.Duration) {
	for _, s := range spans {
		all += s.To.Sub(s.From)
	}
	return all.Round(100 * time.Millisecond)
}

func removals(f facts) (evictions, deletions int) {
	for _, r := range f.Requests {
		if isEviction(r) {
			evictions++
		}
		if isDeletion(r) {
			deletions++
		}
	}
	return evictions, deletions
}

// countExcused counts what is not judged because no agent could have done better.
func countExcused(f facts) (hooks, notices int) {
	for _, a := range f.Actions {
		if f.excusedByOutage(a) {
			hooks++
		}
	}
	for _, i := range f.Interruptions {
		if f.excusedNotice(i) {
			notices++
		}
	}
	return hooks, notices
}

func longestDrain(all []awsim.Action) (longest awsim.Action) {
	for _, a := range all {
		longer := a.ClosedAt.Sub(a.StartedAt) > longest.ClosedAt.Sub(longest.StartedAt)
		if a.Hook == ourHook && a.Group != otherCluster && longer {
			longest = a
		}
	}
	return longest
}
