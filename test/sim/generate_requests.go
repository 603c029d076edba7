package sim

import (
	"math/rand/v2"
	"slices"
	"time"
)

// requestGenerator makes what asks for drains of nodes whose instances stay.
type requestGenerator struct{ *generator }

// all adds the annotation that asks for the drain of a node to a quarter of all worlds, alarms to another, and those
// that change a drain to a third one. It delays the evictions of some installs.
func (g requestGenerator) all() {
	for i := range g.spec.Clusters {
		for k := range g.spec.Clusters[i].Installs {
			if install := &g.spec.Clusters[i].Installs[k]; g.chance(8) {
				install.Settings = append(install.Settings, "DRAIN_EVICTION_DELAY="+oneOf(g.generator, "30s", "2m", "20m"))
			}
		}
	}
	if g.chance(4) {
		g.add("annotate")
	}
	g.Rand = rand.New(rand.NewPCG(g.spec.Seed, 16))
	if g.chance(4) {
		g.set("EVENT_ALARM", "drain", "cordon", "replace", "ignore")
		if g.chance(3) {
			g.set("EVENT_ALARM_MAX_PER_HOUR", "1", "2")
		}
		g.add("alarm")
	}
	g.Rand = rand.New(rand.NewPCG(g.spec.Seed, 18))
	if g.chance(4) {
		g.add(oneOf(g.generator, "hold", "extend"))
	}
	g.Rand = rand.New(rand.NewPCG(g.spec.Seed, 19))
	for i := range g.spec.Steps {
		if s := &g.spec.Steps[i]; s.Do == "annotate" && g.chance(2) {
			s.N = 1 + g.IntN(4)
		}
	}
	g.Rand = rand.New(rand.NewPCG(g.spec.Seed, 20))
	for i := range g.spec.Clusters {
		for k := range g.spec.Clusters[i].Installs {
			g.spec.Clusters[i].Installs[k].ByNode = g.chance(5)
		}
	}
	slices.SortStableFunc(g.spec.Steps, func(a, b Step) int { return int(a.At - b.At) })
}

// set sets a variable of each install.
func (g requestGenerator) set(variable string, values ...string) {
	for i := range g.spec.Clusters {
		for k := range g.spec.Clusters[i].Installs {
			install := &g.spec.Clusters[i].Installs[k]
			install.Settings = append(install.Settings, variable+"="+oneOf(g.generator, values...))
		}
	}
}

// add adds steps of a kind that concern the nodes of other steps, at about the same time, or any nodes.
func (g requestGenerator) add(kind string) {
	others := slices.Clone(g.spec.Steps)
	for range 1 + g.IntN(2) {
		s := Step{Do: kind, Same: true, For: oneOf(g.generator, 0, g.between(0, time.Minute), g.between(0, time.Hour))}
		if kind == "alarm" && g.chance(4) {
			s.N = 1 // The alarm is not on.
		}
		near := oneOf(g.generator, others...)
		group := oneOf(g.generator, oneOf(g.generator, g.spec.Clusters...).Groups...)
		ofGroup := func(c Cluster) bool { return c.has(near.On) }
		if slices.ContainsFunc(g.spec.Clusters, ofGroup) && !g.chance(3) {
			s.On, s.Node = near.On, near.Node
		} else { // No other step has chosen this one, or will.
			s.On, s.Node = group.Name, group.Nodes+g.IntN(group.Nodes)
		}
		s.At = max(0, near.At+g.between(-2*time.Minute, 10*time.Minute))
		g.spec.Steps = append(g.spec.Steps, s)
	}
}
