package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/node-drainer/node-drainer/internal/text"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// block is the part of a frame for one group: one line, and details if there is space.
type block struct {
	bar     line
	details []line
}

// frame returns a live view of a rollout: the progress of each group, the draining nodes, and the newest
// changes. It has at most rows-1 lines, because the cursor is below it, and lines of at most cols-1 cells,
// because some terminals wrap a full line. If there is too little space, it first counts the finished and
// queued groups instead of listing them, and then leaves out details, nodes and changes, in this order.
func frame(r Rollout, recent []Change, cols, rows int) []line {
	cols, room := max(cols-1, 1), max(rows-1, 1)
	all := []line{heading(r)}
	room--
	shown, rest := selectGroups(r.Groups, room)
	blocks := make([]block, 0, len(shown))
	name := nameCells(shown, cols)
	for _, g := range shown {
		blocks = append(blocks, g.block(name, cols))
	}
	if room -= len(shown); len(rest) > 0 {
		room--
	}
	drains := drainLines(r, cols)
	room -= showDetails(blocks, room-min(len(drains), minDrains)-min(len(recent), minRecent)-1)
	for _, b := range blocks {
		all = append(append(all, b.bar), b.details...)
	}
	all = append(all, restLine(rest)...)
	some := limitDrains(drains, room-min(len(recent), minRecent)-1)
	all = append(append(all, some...), recentLines(recent, room-len(some))...)
	for n := range all {
		all[n] = all[n].clean().fit(cols)
	}
	return all[:min(len(all), max(rows-1, 1))]
}

const (
	minDrains = 4 // Draining nodes that are shown rather than the details of groups.
	minRecent = 3 // Changes that are shown rather than further draining nodes.
)

func heading(r Rollout) line {
	gone, total := 0, 0
	for _, g := range r.Groups {
		gone, total = gone+g.Gone, total+g.Total
	}
	return line{
		{bold, formatDuration(r.At.Sub(r.Started))},
		{plain, fmt.Sprintf("  %s, %d of %d old instances gone", text.Count(len(r.Groups), "group"), gone, total)},
	}
}

// selectGroups returns the groups that are shown, sorted by name, and the others. Two thirds of the lines are
// for groups. If there are more groups, those that are queued or succeeded get at most one third.
func selectGroups(groups []Group, room int) (shown, rest []Group) {
	most := max(room*2/3, 1)
	if len(groups) <= most {
		return groups, nil
	}
	byInterest := slices.Clone(groups)
	slices.SortStableFunc(byInterest, func(a, b Group) int { return cmp.Compare(a.priority(), b.priority()) })
	important := 0
	for _, g := range groups {
		if g.priority() <= 1 {
			important++
		}
	}
	most = min(most-1, max(important, room/3))
	shown, rest = byInterest[:most], byInterest[most:]
	slices.SortFunc(shown, func(a, b Group) int { return cmp.Compare(a.Name, b.Name) })
	return shown, rest
}

// priority is the order in which groups are shown: the smallest first. 0 and 1 are running and failed groups.
func (g Group) priority() int {
	switch {
	case g.Outcome == "" && g.Phase != Queued:
		return 0
	case g.Outcome != "" && !g.Outcome.isSuccess():
		return 1
	case g.Outcome == "":
		return 2
	}
	return 3
}

// restLine counts the groups that are not shown, by outcome or phase.
func restLine(rest []Group) []line {
	if len(rest) == 0 {
		return nil
	}
	counts := map[string]int{}
	for _, g := range rest {
		counts[cmp.Or(string(g.Outcome), string(g.Phase))]++
	}
	var words []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		words = append(words, fmt.Sprintf("%d %s", counts[name], name))
	}
	return []line{faintLine("… and ", text.Count(len(rest), "group"), ": ", strings.Join(words, ", "))}
}

// showDetails removes the details of the blocks for which there is no space, and returns how many lines the
// others take.
func showDetails(blocks []block, room int) int {
	used := 0
	for n, b := range blocks {
		if used+len(b.details) > room {
			blocks[n].details = nil
			continue
		}
		used += len(b.details)
	}
	return used
}

// nameCells returns the width of the column of names: up to a third of the line.
func nameCells(groups []Group, cols int) int {
	widest := 0
	for _, g := range groups {
		widest = max(widest, width(text.Clean(g.Name)))
	}
	return min(widest, cols/3)
}

func (g Group) block(name, cols int) block {
	b := block{bar: line{{bold, pad(text.Clean(g.Name), name) + "  "}}}
	b.bar = append(b.bar, bar(g, max(cols/4, 10))...)
	numbers := fmt.Sprintf("  %d/%d gone  ", g.Gone, g.Total)
	if g.Mode == refresh.ModeRefresh {
		numbers += fmt.Sprintf("AWS %d %%  ", g.Percent)
	}
	b.bar = append(b.bar, span{plain, numbers}, g.state())
	if g.Outcome != "" || g.Phase == Queued {
		return b
	}
	indent := strings.Repeat(" ", name+2)
	b.details = append(b.details, plainLine(indent, g.counts()))
	for _, part := range []string{g.Target, g.Reason} {
		if part != "" {
			b.details = append(b.details, faintLine(indent, part))
		}
	}
	return b
}

// bar draws how many of the old instances are replaced, and how many are terminating, in that many cells.
func bar(g Group, cells int) line {
	full, half := 0, 0
	if g.Total > 0 {
		going := len(g.find(func(i Instance) bool { return i.Old && i.terminating() && !i.retained() }))
		full = clamp(g.Gone*cells/g.Total, cells)
		half = clamp((g.Gone+going)*cells/g.Total, cells) - full
	}
	return line{
		{green, strings.Repeat("█", full)},
		{yellow, strings.Repeat("▒", half)},
		{faint, strings.Repeat("░", cells-full-half)},
	}
}

// clamp limits n to the range from 0 to limit.
func clamp(n, limit int) int { return min(max(n, 0), limit) }

// state returns the outcome, status or phase of the group.
func (g Group) state() span {
	switch {
	case g.Outcome.isSuccess():
		return span{green, string(g.Outcome)}
	case g.Outcome != "":
		return span{styleOf(g.Outcome.level()), joinNonEmpty(": ", string(g.Outcome), g.Message)}
	case g.Status == "" || g.Phase == Queued || g.Phase == Draining:
		return span{plain, string(g.Phase)}
	}
	return span{styleOf(levelOf(g.Status)), g.Status}
}

// drainLines returns the draining nodes, the blocked ones first.
func drainLines(r Rollout, cols int) []line {
	var all []Instance
	for _, g := range r.Groups {
		all = append(all, g.find(Instance.draining)...)
	}
	sortFirst(all, Instance.blocked)
	id, node := 0, 0
	for _, d := range all {
		id, node = max(id, width(text.Clean(d.ID))), max(node, width(text.Clean(d.nodeName())))
	}
	var lines []line
	for _, d := range all {
		said := span{plain, cmp.Or(d.drainMessage(), d.State)}
		if d.blocked() {
			said.style = yellow
		}
		whose := fmt.Sprintf("  %s  %s  ", pad(text.Clean(d.ID), id), pad(text.Clean(d.nodeName()), min(node, cols/3)))
		if cols < wideTerminal { // The reason matters more than both names.
			whose = fmt.Sprintf("  %s  ", pad(text.Clean(cmp.Or(d.nodeName(), d.ID)), min(max(node, id), cols/4)))
		}
		lines = append(lines, line{{plain, whose}, said})
	}
	return lines
}

// wideTerminal is the columns from which a draining node is shown with its instance id.
const wideTerminal = 110

// limitDrains returns an empty line, and as many lines of nodes as there is space for.
func limitDrains(drains []line, room int) []line {
	if len(drains) == 0 || room < 2 {
		return nil
	}
	all := append([]line{plainLine()}, drains...)
	if len(all) <= room {
		return all
	}
	left := len(all) - (room - 1)
	return append(all[:room-1:room-1], faintLine("  … and ", text.Count(left, "more draining node")))
}

// shortIDLength is the length of a shortened refresh id.
const shortIDLength = 8

// recentLines returns an empty line, and as many of the newest changes as there is space for.
func recentLines(recent []Change, room int) []line {
	if len(recent) == 0 || room < 2 {
		return nil
	}
	all := []line{plainLine()}
	for _, c := range recent[max(len(recent)-(room-1), 0):] {
		if id := c.Group.Refresh; len(id) > shortIDLength {
			c.Text = strings.ReplaceAll(c.Text, id, id[:shortIDLength]+ellipsis)
		}
		all = append(all, c.line())
	}
	return all
}
