package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/node-drainer/node-drainer/test/awsim"
)

// tell writes a line of progress every five seconds.
func (p *play) tell(ctx context.Context, o options, out io.Writer) {
	for pause(ctx, 5*time.Second) {
		if err := p.fleet.revive(); err != nil {
			_, _ = fmt.Fprintln(out, err)
		}
		closed, open := p.progress()
		kills, terms := p.fleet.deaths()
		const format = "%5.0fs  %d of %d begun, hooks: %d open, %d closed; %d kills, %d TERMs, %d faults hit\n"
		_, _ = fmt.Fprintf(out, format,
			time.Since(p.start).Seconds(), p.begun(), o.terminations, open, closed, kills, terms, p.hits.Load())
	}
}

func (p *play) progress() (closed, open int) {
	for _, a := range p.aws.Ledger() {
		switch {
		case a.Group == abroad:
		case a.ClosedAt.IsZero():
			open++
		default:
			closed++
		}
	}
	return closed, open
}

// begun counts the terminations so far.
func (p *play) begun() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for what, times := range p.done {
		if isGoing(what) {
			n += times
		}
	}
	return n
}

// summary tells what has been done, and which promises were broken.
func (p *play) summary(out io.Writer, o options, f facts, faults []broken, dir, settled string) {
	line := func(what, format string, args ...any) {
		_, _ = fmt.Fprintf(out, "  %-18s %s\n", what, fmt.Sprintf(format, args...))
	}
	kills, terms := p.fleet.deaths()
	_, _ = fmt.Fprintf(out, "\nseed %d, %d agents, election %v, %s:\n", o.seed, o.agents, o.elect,
		time.Since(p.start).Round(time.Second))
	line("terminations", "%d: %s", p.begun(), p.kinds(newPlan(o.seed, o.terminations, o.each).going()))
	line("traps", "%s", p.kinds(map[string]int{canceled: 1, forgedSpot: 1, forgedHook: 1, foreign: 1}))
	line("agents", "%d killed (%d times all at once), %d TERMed", kills, p.done[killAll], terms)
	line("API server", "stopped %d times, away for %s; other parts of the control plane mended %d times",
		len(f.Outages), away(f.Outages), p.done[mended])
	line("machine", "stood still %d times, for %s", len(f.Stalls), away(f.Stalls))
	line("AWS", "%d faults, %d calls hit; %d messages duplicated", p.done[fault], p.hits.Load(), p.copies)
	evictions, deletions := removals(f)
	line("pods", "%d evicted, %d deleted past their budget", evictions, deletions)
	hooks, notices := excuses(f)
	line("excused", "%d hooks timed out, %d of %d notices of EC2", hooks, notices, len(f.Interruptions))
	longest := longestDrain(f.Actions)
	line("longest drain", "%.1fs (%s)", longest.ClosedAt.Sub(longest.StartedAt).Seconds(), longest.InstanceID)
	if work, lead, err := handOvers(dir, f); err != nil {
		line("longest hand-over", "unknown: %v", err)
	} else {
		line("longest hand-over", "of the lead: %.1fs after kill -9, %.1fs after TERM; of work: %.1fs and %.1fs",
			lead[killed].Seconds(), lead[stopped].Seconds(), work[killed].Seconds(), work[stopped].Seconds())
	}
	line("end", "%s", settled)
	if len(faults) == 0 {
		line("verdict", "all promises kept")
		return
	}
	line("verdict", "%d promises broken", len(faults))
	accuse(out, faults)
}

// accuse tells of each promise that was broken how often, and how at first.
func accuse(out io.Writer, faults []broken) {
	const most, longest = 12, 1000
	by := map[string][]broken{}
	for _, b := range faults {
		by[b.Promise] = append(by[b.Promise], b)
	}
	for _, promise := range slices.Sorted(maps.Keys(by)) {
		_, _ = fmt.Fprintf(out, "\nBROKEN %d times: %s\n", len(by[promise]), promise)
		for _, b := range by[promise][:min(most, len(by[promise]))] {
			_, _ = fmt.Fprintf(out, "  - %s\n", b.How[:min(longest, len(b.How))])
		}
	}
}

// kinds tells how often each was done.
func (p *play) kinds(of map[string]int) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []string
	for what := range of {
		all = append(all, fmt.Sprintf("%d %s", p.done[what], what))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

func away(spans []span) (all time.Duration) {
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

// excuses counts what is not judged since nobody could have done better.
func excuses(f facts) (hooks, notices int) {
	for _, a := range f.Actions {
		if f.leaderless(a) {
			hooks++
		}
	}
	for _, i := range f.Interruptions {
		if f.helpless(i) {
			notices++
		}
	}
	return hooks, notices
}

func longestDrain(all []awsim.Action) (longest awsim.Action) {
	for _, a := range all {
		longer := a.ClosedAt.Sub(a.StartedAt) > longest.ClosedAt.Sub(longest.StartedAt)
		if a.Hook == ourHook && a.Group != abroad && longer {
			longest = a
		}
	}
	return longest
}
