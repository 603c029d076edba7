package sim

import (
	"slices"
	"time"
)

// rareGenerator adds states that few clusters are in, each to one in some ten worlds.
type rareGenerator struct{ *generator }

func (g rareGenerator) all() {
	events := rareEvents{g}
	for _, add := range []struct {
		chance int
		to     func()
	}{
		{8, g.tolerant},
		{14, g.pinned},
		{12, g.held},
		{14, g.attached},
		{30, g.large},
		{20, g.uncounted},
		{7, events.admission},
		{10, events.rejoin},
		{8, events.mislead},
		{8, events.misleadLaunch},
		{16, events.misleadMaintenance},
		{40, events.flood},
		{7, events.standby},
		{12, g.restarted},
		{8, events.hang},
		{8, events.stopAgent},
		{12, events.configure},
		{12, events.uncordon},
	} {
		if g.chance(add.chance) {
			add.to()
		}
	}
	slices.SortStableFunc(g.spec.Steps, func(a, b Step) int { return int(a.At - b.At) })
}

// clusterWithSteps returns a cluster, rather one that something happens to.
func (g rareGenerator) clusterWithSteps() *Cluster {
	on := oneOf(g.generator, g.spec.Steps...).On
	for i := range g.spec.Clusters {
		if g.spec.Clusters[i].has(on) {
			return &g.spec.Clusters[i]
		}
	}
	return &g.spec.Clusters[g.IntN(len(g.spec.Clusters))]
}

// add adds a small workload, changed, to a cluster.
func (g rareGenerator) add(name string, change func(*Workload)) {
	w := Workload{
		Name: name, Kind: oneOf(g.generator, "deployment", "deployment", "statefulset"), Replicas: 1 + g.IntN(2),
		Start: g.between(time.Second, 10*time.Second),
		Grace: oneOf(g.generator, time.Second, 30*time.Second, 30*time.Second, 5*time.Minute),
	}
	w.Stop = g.between(0, min(w.Grace, 10*time.Second))
	if g.chance(4) {
		w.Budgets = []Budget{g.budget(w.Replicas)}
	}
	change(&w)
	c := g.clusterWithSteps()
	c.Workloads = append(c.Workloads, w)
}

// tolerant adds pods that tolerate every taint: the scheduler may put them back on the node that they have left.
func (g rareGenerator) tolerant() {
	g.add("tolerant", func(w *Workload) {
		w.Tolerant = true
		if g.chance(3) {
			w.Kind = "operated"
		} else if g.chance(2) {
			w.Pinned, w.PinnedTo = "selector", g.IntN(8)
		}
		if g.chance(4) {
			w.Priority = 2_000_000_000
		}
	})
}

// pinned adds pods that fit one node only.
func (g rareGenerator) pinned() {
	g.add("pinned", func(w *Workload) {
		w.Pinned, w.PinnedTo = oneOf(g.generator, "name", "name", "selector"), g.IntN(8)
	})
}

// held adds pods with a finalizer.
func (g rareGenerator) held() {
	g.add("held", func(w *Workload) {
		w.Held = g.between(time.Second, oneOf(g.generator, time.Minute, time.Minute, 2*time.Hour))
	})
}

// attached adds pods whose volumes stay attached for a while.
func (g rareGenerator) attached() {
	g.add("attached", func(w *Workload) {
		w.Detach = g.between(time.Second, oneOf(g.generator, 10*time.Second, 10*time.Minute))
	})
}

// restarted adds a Deployment that is restarted to replace its pods.
func (g rareGenerator) restarted() {
	g.add("restarted", func(w *Workload) {
		w.Kind = "restarted"
		if g.chance(4) {
			w.Detach = g.between(time.Second, time.Minute)
		}
		w.Unready = g.chance(8)
	})
	if g.chance(2) {
		requestGenerator(g).set("DRAIN_SINGLE_REPLICAS", "restart")
	}
}

// large adds pods with a large annotation.
func (g rareGenerator) large() {
	g.add("large", func(w *Workload) { w.Bytes = 32 << 10 })
}

// uncounted adds budgets whose pods cannot be counted.
func (g rareGenerator) uncounted() {
	c := g.clusterWithSteps()
	budget := &Budget{MaxUnavailable: "1"}
	if len(c.Daemons) == 0 || g.chance(2) {
		c.Workloads = append(c.Workloads, Workload{
			Name: "operated", Kind: "operated", Grace: 10 * time.Second, Start: time.Second, Budgets: []Budget{*budget},
		})
		return
	}
	d := &c.Daemons[g.IntN(len(c.Daemons))]
	d.Tolerant, d.Budget = false, budget
}
