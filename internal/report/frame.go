package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// block is what a frame shows of a group: one line, and more where there is room.
type block struct {
	bar     line
	details []line
}

// frame is what a terminal of that size shows of a rollout: for each group how far it is, then the nodes that
// are draining, then the newest of the recent changes. It has rows-1 lines at most, as the cursor stands
// below it, and its lines have cols-1 cells at most, as some terminals wrap a line that is full. Where there
// is not room for all, groups that are over or wait are counted first, then details are left out, then nodes,
// then changes.
func frame(r Rollout, recent []change, cols, rows int) []line {
	cols, room := max(cols-1, 1), max(rows-1, 1)
	all := []line{heading(r)}
	room--
	shown, rest := selected(r.Groups, room)
	blocks := make([]block, 0, len(shown))
	name := nameCells(shown, cols)
	for _, g := range shown {
		blocks = append(blocks, g.block(name, cols))
	}
	if room -= len(shown); len(rest) > 0 {
		room--
	}
	drains := drainLines(r, cols)
	room -= unfold(blocks, room-min(len(drains), leastDrains)-min(len(recent), leastRecent)-1)
	for _, b := range blocks {
		all = append(append(all, b.bar), b.details...)
	}
	all = append(all, restLine(rest)...)
	some := fewer(drains, room-min(len(recent), leastRecent)-1)
	all = append(append(all, some...), recentLines(recent, room-len(some))...)
	for n := range all {
		all[n] = all[n].clean().fit(cols)
	}
	return all[:min(len(all), max(rows-1, 1))]
}

const (
	leastDrains = 4 // So many draining nodes come before the details of groups.
	leastRecent = 3 // So many changes come before further draining nodes.
)

func heading(r Rollout) line {
	gone, total := 0, 0
	for _, g := range r.Groups {
		gone, total = gone+g.Gone, total+g.Total
	}
	return line{
		{bold, duration(r.At.Sub(r.Started))},
		{plain, fmt.Sprintf("  %s, %d of %d old instances gone", count(len(r.Groups), "group"), gone, total)},
	}
}

// selected are the groups that are shown on so many lines, in their order, and the others. Two thirds of the
// lines are for groups. Where that does not do for all, those that wait or went well have one third at most.
func selected(groups []Group, room int) (shown, rest []Group) {
	most := max(room*2/3, 1)
	if len(groups) <= most {
		return groups, nil
	}
	byInterest := slices.Clone(groups)
	slices.SortStableFunc(byInterest, func(a, b Group) int { return cmp.Compare(a.interest(), b.interest()) })
	telling := 0
	for _, g := range groups {
		if g.interest() <= 1 {
			telling++
		}
	}
	most = min(most-1, max(telling, room/3))
	shown, rest = byInterest[:most], byInterest[most:]
	slices.SortFunc(shown, func(a, b Group) int { return cmp.Compare(a.Name, b.Name) })
	return shown, rest
}

// interest is how much a group is to be shown: the smaller, the more. 0 and 1 are of groups that have news to
// tell.
func (g Group) interest() int {
	switch {
	case g.Outcome == "" && g.Phase != Queued:
		return 0
	case g.Outcome != "" && !g.Outcome.good():
		return 1
	case g.Outcome == "":
		return 2
	}
	return 3
}

// restLine counts the groups that are not shown, by their outcome or phase.
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
	return []line{aside(fmt.Sprintf("… and %s: %s", count(len(rest), "group"), strings.Join(words, ", ")))}
}

// unfold keeps the details of as many blocks as there is room for, and returns how many lines they take.
func unfold(blocks []block, room int) int {
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

// nameCells is how wide the column of the names is: up to a third of the whole.
func nameCells(groups []Group, cols int) int {
	widest := 0
	for _, g := range groups {
		widest = max(widest, width(clean(g.Name)))
	}
	return min(widest, cols/3)
}

func (g Group) block(name, cols int) block {
	b := block{bar: line{{bold, pad(clean(g.Name), name) + "  "}}}
	b.bar = append(b.bar, bar(g, max(cols/4, 10))...)
	numbers := fmt.Sprintf(" %3d %%  %d/%d gone  ", g.percent(), g.Gone, g.Total)
	b.bar = append(b.bar, span{plain, numbers}, g.state())
	if g.Outcome != "" || g.Phase == Queued {
		return b
	}
	indent := strings.Repeat(" ", name+2)
	b.details = append(b.details, text(indent, g.counts()))
	for _, part := range []string{g.Target, g.Reason} {
		if part != "" {
			b.details = append(b.details, aside(indent, part))
		}
	}
	return b
}

// bar draws how many of the old instances are gone and how many are going, in that many cells.
func bar(g Group, cells int) line {
	full, half := 0, 0
	if g.Total > 0 {
		going := len(g.find(func(i Instance) bool { return i.Old && i.going() && !i.retained() }))
		full = within(g.Gone*cells/g.Total, cells)
		half = within((g.Gone+going)*cells/g.Total, cells) - full
	}
	return line{
		{green, strings.Repeat("█", full)},
		{yellow, strings.Repeat("▒", half)},
		{faint, strings.Repeat("░", cells-full-half)},
	}
}

// within is n, but no less than nothing and no more than most.
func within(n, most int) int { return min(max(n, 0), most) }

// state says where the group is, in a word or two.
func (g Group) state() span {
	switch {
	case g.Outcome.good():
		return span{green, string(g.Outcome)}
	case g.Outcome != "":
		return span{styleOf(g.Outcome.level()), joined(": ", string(g.Outcome), g.Message)}
	case g.Status == "" || g.Phase == Queued || g.Phase == Draining:
		return span{plain, string(g.Phase)}
	}
	return span{styleOf(levelOf(g.Status)), g.Status}
}

// drainLines are the nodes that are draining, those first that something holds up.
func drainLines(r Rollout, cols int) []line {
	var all []Instance
	for _, g := range r.Groups {
		all = append(all, g.find(Instance.draining)...)
	}
	slices.SortStableFunc(all, blockedFirst)
	id, node := 0, 0
	for _, d := range all {
		id, node = max(id, width(clean(d.ID))), max(node, width(clean(d.nodeName())))
	}
	var lines []line
	for _, d := range all {
		said := span{plain, cmp.Or(d.drain(), d.State)}
		if d.blocked() {
			said.style = yellow
		}
		whose := fmt.Sprintf("  %s  %s  ", pad(clean(d.ID), id), pad(clean(d.nodeName()), min(node, cols/3)))
		if cols < roomy { // What holds it up matters more than both of its names.
			whose = fmt.Sprintf("  %s  ", pad(clean(cmp.Or(d.nodeName(), d.ID)), min(max(node, id), cols/4)))
		}
		lines = append(lines, line{{plain, whose}, said})
	}
	return lines
}

// roomy is how many columns there must be for a draining node to be told with the id of its instance.
const roomy = 110

// fewer is as many of the nodes' lines as there is room for, below an empty one.
func fewer(drains []line, room int) []line {
	if len(drains) == 0 || room < 2 {
		return nil
	}
	all := append([]line{text()}, drains...)
	if len(all) <= room {
		return all
	}
	left := len(all) - (room - 1)
	return append(all[:room-1:room-1], aside("  … and ", count(left, "more draining node")))
}

// shortID is how much of the id of a refresh is shown, where room is scarce.
const shortID = 8

// recentLines are the newest of the changes, as many as there is room for, below an empty line.
func recentLines(recent []change, room int) []line {
	if len(recent) == 0 || room < 2 {
		return nil
	}
	all := []line{text()}
	for _, c := range recent[max(len(recent)-(room-1), 0):] {
		if id := c.group.Refresh; len(id) > shortID {
			c.text = strings.ReplaceAll(c.text, id, id[:shortID]+ellipsis)
		}
		all = append(all, c.line())
	}
	return all
}
