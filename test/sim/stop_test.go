package sim_test

import (
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/test/sim"
)

// TestStopDuringEachWrite: whatever write is in flight when the agent is told to stop, no eviction is canceled halfway,
// and the next process ends the drain.
func TestStopDuringEachWrite(t *testing.T) {
	for n := range 24 {
		result := sim.Run(t, sim.Spec{
			Seed: 1,
			Clusters: []sim.Cluster{{
				Name:     "c",
				Installs: []sim.Install{{Name: "agent", Replicas: 1}},
				Groups: []sim.Group{{
					Name: "g", Nodes: 2,
					Hooks: []sim.Hook{{Name: "drain", Install: "agent", Via: "queue", Heartbeat: 5 * time.Minute}},
				}},
				Workloads: []sim.Workload{{
					Name: "w", Kind: "deployment", Replicas: 10, Grace: 30 * time.Second, Stop: time.Second, Start: time.Second,
					Budgets: []sim.Budget{{MaxUnavailable: "25%"}},
				}},
				Timing: sim.Timing{Boot: 40 * time.Second, Delete: 30 * time.Second, Latency: 200 * time.Millisecond},
			}},
			Steps:  []sim.Step{{At: time.Minute, Do: "replace", On: "g", N: 1}},
			Faults: []sim.Fault{{From: time.Minute, Do: "stop", On: "agent", N: n + 1}},
		})
		if len(result.Violations) > 0 {
			t.Errorf("told to stop during write %d: %v\n%s", n+1, result.Violations, result.Log())
		}
	}
}
