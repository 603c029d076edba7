package sim

import "time"

// groups adds replicated groups with a leader to a third of all worlds.
func (g *generator) groups() {
	if !g.chance(3) {
		return
	}
	for i := range g.spec.Clusters {
		c := &g.spec.Clusters[i]
		c.Workloads = append(c.Workloads, g.replicated())
		for k := range c.Installs {
			if g.chance(4) {
				timeout := "DRAIN_HAND_OVER_TIMEOUT=" + oneOf(g, "0s", "10s", "5m")
				c.Installs[k].Settings = append(c.Installs[k].Settings, timeout)
			}
		}
	}
}

func (g *generator) replicated() Workload {
	w := Workload{
		Name: "db", Kind: oneOf(g, "statefulset", "statefulset", "deployment"), Replicas: oneOf(g, 1, 2, 3, 3, 3),
		Start: g.between(time.Second, 20*time.Second), Grace: oneOf(g, 30*time.Second, 30*time.Second, 5*time.Minute),
		Group: &ReplicatedGroup{
			Sync: g.between(0, oneOf(g, 10*time.Second, time.Minute)), Elects: g.between(time.Second, 15*time.Second),
			Answers: g.between(0, oneOf(g, time.Second, 5*time.Second)), Deaf: g.chance(8),
		},
	}
	w.Stop = g.between(0, 10*time.Second)
	if g.chance(2) {
		w.Budgets = []Budget{{MaxUnavailable: "1"}}
	}
	return w
}
