package refresh

import (
	"cmp"
	"slices"
	"time"
)

// Span is a time at the shortest, and at the longest.
type Span struct{ Shortest, Longest time.Duration }

// Expected returns how long a rollout takes that replaces instances in this order, whose nodes take so long to drain. A
// new node is Ready at the time start after the launch of its instance, and between batches passes as long as it says.
// It returns false for node groups: EKS decides how many of their nodes it replaces at once.
//
// At the shortest new instances launch while the nodes of old ones are drained, and a refresh waits for drains only
// at its end; at the longest one follows the other. AWS documents neither that nor the order of a refresh.
func (f Facts) Expected(g Group, drains []Span, start, between time.Duration) (s Span, isKnown bool) {
	switch {
	case f.Mode == ModeNodegroup || len(drains) == 0:
		return Span{}, false
	case f.Mode == ModeRefresh:
		return f.refreshExpected(g, drains, start), true
	}
	last := len(drains)
	if f.Mode == ModeUnhealthy && f.Surge > 0 { // as many launch first, and as many terminate at the end
		last = max(last-f.Surge, 0)
		s = longestOf(drains[last:]).plus(Span{start, start})
	}
	var pause time.Duration // before the first batch
	for batch := range slices.Chunk(drains[:last], max(f.Batch, 1)) {
		slowest := longestOf(batch)
		s = s.plus(Span{pause + max(start, slowest.Shortest), pause + start + slowest.Longest})
		pause = between
	}
	return s, true
}

func (f Facts) refreshExpected(g Group, drains []Span, start time.Duration) Span {
	start = max(start, f.warmup(g))
	rounds := (len(drains) + f.atOnce(g) - 1) / f.atOnce(g)
	s := Span{max(time.Duration(rounds)*start, longestOf(drains).Shortest), time.Duration(rounds) * start}
	longest := slices.SortedFunc(slices.Values(drains), func(a, b Span) int { return cmp.Compare(b.Longest, a.Longest) })
	for _, d := range longest[:rounds] { // no two of them in one round
		s.Longest += d.Longest
	}
	for _, percent := range f.Preferences.Checkpoints {
		if delay := f.Preferences.CheckpointDelay; percent < 100 && delay != nil {
			s = s.plus(Span{*delay, *delay})
		}
	}
	if bake := f.Preferences.Bake; bake != nil {
		s = s.plus(Span{*bake, *bake})
	}
	return s
}

// atOnce is how many instances a refresh replaces at a time.
func (f Facts) atOnce(g Group) int {
	left, _ := f.leastInService(g)
	if _, high := f.percentages(g); left >= g.Desired && high != nil {
		return max(g.Desired*(*high-100)/100, 1)
	}
	return max(g.Desired-left, 1)
}

// warmup is how long a new instance warms up in a refresh.
func (f Facts) warmup(g Group) time.Duration {
	if f.Mode == ModeRefresh && f.Preferences.Warmup != nil {
		return *f.Preferences.Warmup
	}
	return g.Warmup
}

func longestOf(spans []Span) (longest Span) {
	for _, s := range spans {
		longest = Span{max(longest.Shortest, s.Shortest), max(longest.Longest, s.Longest)}
	}
	return longest
}

func (s Span) plus(o Span) Span { return Span{s.Shortest + o.Shortest, s.Longest + o.Longest} }
