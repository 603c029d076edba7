package sim_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/test/sim"
)

// TestAlarms: several alarms at once are acted on one after the other: an instance of the group is marked unhealthy
// only when the one before has left it.
func TestAlarms(t *testing.T) {
	result := sim.Run(t, sim.Spec{
		Seed: 1,
		Clusters: []sim.Cluster{{
			Name:     "c",
			Installs: []sim.Install{{Name: "agent", Replicas: 1, Settings: []string{"EVENT_ALARM=replace"}}},
			Groups: []sim.Group{{
				Name: "g", Nodes: 4,
				Hooks: []sim.Hook{{Name: "drain", Install: "agent", Via: "queue", Heartbeat: 5 * time.Minute}},
			}},
			Workloads: []sim.Workload{{
				Name: "w", Kind: "deployment", Replicas: 8, Grace: time.Minute, Stop: 50 * time.Second, Start: 2 * time.Second,
			}},
			Timing: sim.Timing{Boot: 40 * time.Second, Delete: 30 * time.Second},
		}},
		Steps: []sim.Step{
			{Do: "alarm", On: "g", For: time.Hour},
			{Do: "alarm", On: "g", Node: 1, For: time.Hour},
			{Do: "alarm", On: "g", Node: 2, For: time.Hour},
		},
	})
	if len(result.Violations) > 0 {
		t.Error(result.Violations)
	}
	var order []string
	for line := range strings.Lines(result.Log()) {
		for _, text := range []string{"node cordoned", "machine terminated"} {
			if strings.Contains(line, text) {
				order = append(order, text)
			}
		}
	}
	if want := slices.Repeat([]string{"node cordoned", "machine terminated"}, 3); !slices.Equal(order, want) {
		t.Errorf("the log says, in this order, %q", order)
	}
}
