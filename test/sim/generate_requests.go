package sim

import (
	"slices"
	"time"
)

// requestGenerator makes what asks for drains of nodes whose instances stay.
type requestGenerator struct{ *generator }

// all adds the annotation that asks for the drain of a node to a quarter of all worlds, and delays the evictions
// of some installs.
func (g requestGenerator) all() {
	for i := range g.spec.Clusters {
		for k := range g.spec.Clusters[i].Installs {
			if install := &g.spec.Clusters[i].Installs[k]; g.chance(8) {
				install.Settings = append(install.Settings, "DRAIN_EVICTION_DELAY="+oneOf(g.generator, "30s", "2m", "20m"))
			}
		}
	}
	if !g.chance(4) {
		return
	}
	for range 1 + g.IntN(2) {
		g.spec.Steps = append(g.spec.Steps, g.annotate())
	}
	slices.SortStableFunc(g.spec.Steps, func(a, b Step) int { return int(a.At - b.At) })
}

// annotate returns a step that asks for the drain of a node: of one that another step concerns, at about the same time,
// or of any.
func (g requestGenerator) annotate() Step {
	s := Step{Do: "annotate", Same: true, For: oneOf(g.generator, 0, g.between(0, time.Minute), g.between(0, time.Hour))}
	near := oneOf(g.generator, g.spec.Steps...)
	group := oneOf(g.generator, oneOf(g.generator, g.spec.Clusters...).Groups...)
	ofGroup := func(c Cluster) bool { return c.has(near.On) }
	if slices.ContainsFunc(g.spec.Clusters, ofGroup) && !g.chance(3) {
		s.On, s.Node = near.On, near.Node
	} else { // No other step has chosen this one, or will.
		s.On, s.Node = group.Name, group.Nodes+g.IntN(group.Nodes)
	}
	s.At = max(0, near.At+g.between(-2*time.Minute, 10*time.Minute))
	return s
}
