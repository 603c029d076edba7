package sim

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/node-drainer/node-drainer/internal/retry"
)

// Version is a change of the version of the agent that a replica runs, At so long after the start of the world: the
// process that runs is told to stop, or crashes, and the next one is of the other version.
type Version struct {
	At      time.Duration
	On      string // the install
	Replica int    `json:",omitempty"`
	Old     bool   `json:",omitempty"` // the next process is of the older commit
	Crash   int    `json:",omitempty"` // after how many more writes the process crashes; it is told to stop if it is 0
}

// killedAfter is how long the kubelet gives a process that is to stop: as long as the chart says.
const killedAfter = 30 * time.Second

// startVersions has the versions of the agents change, each at its time.
func (w *world) startVersions(ctx context.Context) {
	for _, v := range w.spec.Versions {
		for _, a := range w.agentsOf(v.On) {
			if a.replica == v.Replica {
				w.work.Go(func() { a.changeVersion(ctx, v) })
			}
		}
	}
}

// onlyKnown returns the variables that have one of the names.
func onlyKnown(environ, names []string) []string {
	return slices.DeleteFunc(environ, func(s string) bool {
		name, _, _ := strings.Cut(s, "=")
		return !slices.Contains(names, name)
	})
}

func (a *agent) changeVersion(ctx context.Context, v Version) {
	if !retry.Sleep(ctx, time.Until(a.world.began.Add(v.At))) {
		return
	}
	a.world.log.add("version", a.name, "old", v.Old, "crash", v.Crash)
	a.mu.Lock()
	a.old = v.Old
	a.mu.Unlock()
	if v.Crash > 0 {
		a.crashAfter(v.Crash)
		return
	}
	a.terminate(ctx)
}

// terminate tells the process that runs to stop, as the kubelet does, and kills it if it does not in time.
func (a *agent) terminate(ctx context.Context) {
	if p := a.stopProcess(); p != nil && retry.Sleep(ctx, killedAfter) && a.runs(p) {
		p.crash()
	}
}

// stopProcess tells the process that runs to stop, and returns it; nil if none runs, or it has crashed.
func (a *agent) stopProcess() *process {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.process == nil || !a.ended.IsZero() {
		return nil
	}
	a.ended = time.Now()
	a.process.kill(errStopped)
	return a.process
}

// stops reports whether a process of an install is told to stop, and has neither ended nor crashed.
func (c *cluster) stops(install string) bool {
	return slices.ContainsFunc(c.agents, func(a *agent) bool {
		a.mu.Lock()
		p, told := a.process, !a.ended.IsZero()
		a.mu.Unlock()
		return a.Name == install && p != nil && told && !p.hasCrashed()
	})
}

// runs reports whether a process of the agent has not ended.
func (a *agent) runs(p *process) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.process == p
}

// addVersions upgrades each install of a world during one of its steps, and returns it to the older version later. Half
// of the installs have two replicas. The second follows within an hour: until then, processes of both versions run.
func addVersions(s *Spec) {
	g := &generator{Rand: rand.New(rand.NewPCG(s.Seed, 18))}
	for i := range s.Clusters {
		for k := range s.Clusters[i].Installs {
			install := &s.Clusters[i].Installs[k]
			install.Old = true
			if g.chance(2) {
				install.Replicas = 2
			}
			at := oneOf(g, s.Steps...).At + g.between(0, oneOf(g, time.Minute, 10*time.Minute, time.Hour))
			back := at + g.between(30*time.Second, oneOf(g, 5*time.Minute, time.Hour, 4*time.Hour))
			for n := range install.Replicas {
				s.Versions = append(s.Versions,
					Version{At: at, On: install.Name, Replica: n, Crash: oneOf(g, 0, 0, 1+g.IntN(10))},
					Version{At: back, On: install.Name, Replica: n, Old: true, Crash: oneOf(g, 0, 0, 1+g.IntN(10))})
				later := g.between(10*time.Second, oneOf(g, time.Minute, 10*time.Minute, time.Hour))
				at, back = at+later, back+later
			}
		}
	}
	slices.SortStableFunc(s.Versions, func(a, b Version) int { return int(a.At - b.At) })
}

// OfOneVersion returns the world with all processes of one version. They start and end at the same times.
func (s Spec) OfOneVersion(old bool) Spec {
	return changed(s, func(n *Spec) {
		for i := range n.Clusters {
			for k := range n.Clusters[i].Installs {
				n.Clusters[i].Installs[k].Old = old
			}
		}
		for i := range n.Versions {
			n.Versions[i].Old = old
		}
	})
}
