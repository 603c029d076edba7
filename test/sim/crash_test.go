package sim_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/test/sim"
)

// TestCrashAfterEachWrite: whatever the last write of a process is while a resync uncordons a node, because the message
// that its maintenance is canceled was lost, the next process finishes the work.
func TestCrashAfterEachWrite(t *testing.T) {
	for n := range 3 {
		t.Run(fmt.Sprint(n+1), func(t *testing.T) {
			t.Parallel()
			result := sim.Run(t, sim.Spec{
				Seed: 1,
				Clusters: []sim.Cluster{{
					Name:     "c1",
					Installs: []sim.Install{{Name: "c1-agent1", Replicas: 1}},
					Groups:   []sim.Group{{Name: "g", Nodes: 1}},
					Workloads: []sim.Workload{{
						Name: "w", Kind: "deployment", Replicas: 1, Grace: time.Second, Start: time.Second,
					}},
				}},
				Steps: []sim.Step{
					{Do: "maintain", On: "g", N: 1, For: 3 * time.Hour},
					{At: 59 * time.Second, Do: "lose", On: "c1-agent1", N: 1},
					{At: time.Minute, Do: "cancel", On: "g"},
				},
				Faults: []sim.Fault{{From: 4*time.Minute - time.Second, For: time.Second, Do: "crash", On: "c1-agent1", N: n + 1}},
			})
			for _, v := range result.Violations {
				t.Error(v)
			}
			if len(result.Violations) > 0 {
				t.Log("\n" + result.Log())
			}
		})
	}
}

// TestCrashAfterALostMessage: a process that starts when the Node is gone, and the message was lost, waits for another
// Node as long as it is to, which may be beyond the deadline of the mark that the Node had. The message about another
// instance has the process before it crash.
func TestCrashAfterALostMessage(t *testing.T) {
	t.Parallel()
	hooks := []sim.Hook{{Name: "drain", Install: "c1-agent1", Via: "queue", Heartbeat: time.Hour}}
	result := sim.Run(t, sim.Spec{
		Seed: 1,
		Clusters: []sim.Cluster{{
			Name:     "c1",
			Installs: []sim.Install{{Name: "c1-agent1", Replicas: 1, Settings: []string{"DRAIN_TIMEOUT=5m"}}},
			Groups:   []sim.Group{{Name: "g", Nodes: 1, Hooks: hooks}, {Name: "other", Nodes: 1, Hooks: hooks}},
			Workloads: []sim.Workload{{
				Name: "w", Kind: "deployment", Replicas: 4, Grace: time.Second, Start: time.Second, Wait: true,
			}},
		}},
		Steps: []sim.Step{
			{Do: "lose", On: "c1-agent1", N: 1},
			{Do: "terminate", On: "g", Same: true, N: 1},
			{At: 3 * time.Minute, Do: "rejoin", On: "g", Same: true, N: 1, For: time.Minute},
			{At: 182 * time.Second, Do: "terminate", On: "other", N: 1},
		},
		Faults: []sim.Fault{{From: 181 * time.Second, For: time.Second, Do: "crash", On: "c1-agent1", N: 1}},
	})
	for _, v := range result.Violations {
		t.Error(v)
	}
	if log := result.Log(); len(result.Violations) > 0 || !strings.Contains(log, "outcome=unregistered") {
		t.Log("\n" + log)
		t.Error("the hook was not completed because the instance has no Node")
	}
}
