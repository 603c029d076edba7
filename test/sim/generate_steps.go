package sim

import (
	"slices"
	"time"
)

// stepGenerator makes the steps of a world.
type stepGenerator struct{ *generator }

// steps adds what happens to the nodes.
func (g stepGenerator) steps() {
	at := time.Duration(0)
	for range 1 + g.IntN(1+2*g.size) {
		cluster := oneOf(g.generator, g.spec.Clusters...)
		group := oneOf(g.generator, cluster.Groups...)
		s := Step{At: at, On: group.Name, Node: g.IntN(group.Nodes), Do: g.kindOfStep(group)}
		switch s.Do {
		case "terminate", "replace":
			s.N = 1 + g.IntN(group.Nodes)
			if !g.chance(3) {
				s.N = 1
			}
		case "forge":
			s.N = g.IntN(5)
		case "maintain":
			s.For = oneOf(g.generator, 10*time.Minute, time.Hour, 3*time.Hour, 6*time.Hour)
			s.N = oneOf(g.generator, 1, 1, group.Nodes)
		case "expire":
			s.For = oneOf(g.generator, 10*time.Minute, 10*time.Minute, 10*time.Minute) // EC2 announces it in time
		case "interrupt", "reclaim":
			s.For = oneOf(g.generator, 2*time.Minute, 2*time.Minute, 90*time.Second)
		}
		g.spec.Steps = append(g.spec.Steps, s)
		g.follow(s, cluster, group.Spot)
		at += g.between(0, oneOf(g.generator, 10*time.Second, 3*time.Minute, 20*time.Minute))
	}
	slices.SortStableFunc(g.spec.Steps, func(a, b Step) int { return int(a.At - b.At) })
}

func (g stepGenerator) kindOfStep(group Group) string {
	kinds := []string{
		"terminate", "terminate", "terminate", "terminate", "replace", "replace", "maintain", "kill", "forge",
		"cordon",
	}
	if group.Spot {
		kinds = append(kinds, "interrupt", "interrupt", "recommend")
	} else if g.chance(3) {
		kinds = append(kinds, "reclaim", "expire", "bypass", "stop")
	}
	if group.Pool != nil {
		kinds = append(kinds, "shrink", "shrink", "shrink", "shrink")
	} else if g.chance(4) {
		kinds = append(kinds, "refresh", "volumes", "volumes")
	}
	return oneOf(g.generator, kinds...)
}

// follow adds what happens to the same node after a step, and what happens to it after that.
func (g stepGenerator) follow(s Step, c Cluster, spot bool) {
	for did := []string{s.Do}; len(did) < 4; did = append(did, s.Do) {
		next := g.next(s, g.kindOfNext(did, spot), c)
		if next.Do == "" {
			return
		}
		g.spec.Steps = append(g.spec.Steps, next)
		if next.On != s.On {
			return
		}
		s = next
	}
}

// next returns the step of a kind that follows a step.
func (g stepGenerator) next(s Step, kind string, c Cluster) Step {
	next := s
	next.At, next.N, next.Same = s.At+g.between(time.Second, oneOf(g.generator, 10*time.Minute, time.Hour)), 1, true
	next.Do = kind
	switch kind {
	case "interrupt":
		next.For = 2 * time.Minute
		next.At = s.At + g.between(time.Second, time.Hour) // in any part of a drain
	case "interrupt-next":
		next.At, next.For = s.At, 2*time.Minute
	case "lose":
		next.At, next.On = max(0, s.At-time.Second), oneOf(g.generator, c.Installs...).Name
	case "restart":
		next.At, next.On, next.Node = max(0, s.At+g.between(-20*time.Second, 10*time.Second)), c.Name, g.IntN(3)
	case "budgets":
		next.On, next.Node = c.Name, g.IntN(3)
	case "maintain":
		next.For = oneOf(g.generator, 10*time.Minute, time.Hour, 3*time.Hour)
	case "forge":
		next.N = g.IntN(5)
	}
	return next
}

// kindOfNext returns what follows the steps that a node had; empty if nothing does.
func (g stepGenerator) kindOfNext(did []string, spot bool) string {
	three := func(kinds ...string) []string { return slices.Repeat(kinds, 3) }
	after := map[string][]string{
		"shrink":    three("grow", "grow"),
		"cordon":    three("forge", "maintain", "terminate", "recommend"),
		"maintain":  three("cancel", "terminate"),
		"recommend": three("terminate", "terminate"),
		"replace":   three("interrupt-next"),
		"terminate": append(three("interrupt", "interrupt"), "resend", "kill", "lose", "restart"),
	}
	last := did[len(did)-1]
	kinds := append([]string{"", "", "", "", "", "", "budgets"}, after[last]...)
	if last == "terminate" && slices.Contains(did, "maintain") {
		kinds = append(kinds, three("cancel", "cancel")...)
	}
	kind := oneOf(g.generator, kinds...)
	if ofSpot := []string{"interrupt", "interrupt-next", "recommend"}; !spot && slices.Contains(ofSpot, kind) {
		return ""
	}
	return kind
}
