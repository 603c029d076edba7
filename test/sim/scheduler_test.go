package sim_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/test/sim"
)

// TestLateScheduler: a scheduler whose view of nodes is old binds pods to nodes that are cordoned. When a whole group is
// replaced, the agent waits for as long as the scheduler is late, and no pod ends with its machine.
func TestLateScheduler(t *testing.T) {
	for _, lag := range []time.Duration{3 * time.Second, 8 * time.Second, 20 * time.Second, time.Minute} {
		hook := sim.Hook{Name: "drain", Install: "agent", Via: "queue", Heartbeat: 5 * time.Minute}
		c := sim.Cluster{
			Name: "c", Installs: []sim.Install{{Name: "agent", Replicas: 1}},
			Groups: []sim.Group{
				{Name: "replaced", Nodes: 10, Hooks: []sim.Hook{hook}}, {Name: "others", Nodes: 5, Hooks: []sim.Hook{hook}},
			},
			Timing: sim.Timing{Boot: 40 * time.Second, Delete: 30 * time.Second, Lag: lag},
		}
		for i := range 8 {
			w := sim.Workload{
				Name: fmt.Sprint("w", i), Kind: "deployment", Replicas: 10, Grace: 30 * time.Second,
				Stop: time.Second, Start: 2 * time.Second,
			}
			if i%2 == 0 {
				w.Budgets = []sim.Budget{{MaxUnavailable: "25%"}}
			}
			c.Workloads = append(c.Workloads, w)
		}
		result := sim.Run(t, sim.Spec{
			Seed: 1, Clusters: []sim.Cluster{c}, Steps: []sim.Step{{Do: "replace", N: 10, On: "replaced"}},
		})
		if len(result.Violations) > 0 || result.LatePods > 0 {
			t.Errorf("view %v old: %d late pods, %v", lag, result.LatePods, result.Violations)
		}
		if ends := strings.Count(result.Log(), "machine terminated"); ends != 10 {
			t.Errorf("view %v old: %d machines ended, want 10", lag, ends)
		}
	}
}
