package sim_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/test/sim"
)

// TestAlarms: several alarms at once are acted on one after the other: an instance of the group is marked unhealthy
// only when the one before has left it, and no more than two within an hour. One that was forged does not count.
func TestAlarms(t *testing.T) {
	result := sim.Run(t, sim.Spec{
		Seed: 1,
		Clusters: []sim.Cluster{{
			Name: "c",
			Installs: []sim.Install{{Name: "agent", Replicas: 1, Settings: []string{
				"EVENT_ALARM=replace", "EVENT_ALARM_MAX_PER_HOUR=2",
			}}},
			Groups: []sim.Group{{
				Name: "g", Nodes: 5,
				Hooks: []sim.Hook{{Name: "drain", Install: "agent", Via: "queue", Heartbeat: 5 * time.Minute}},
			}},
			Workloads: []sim.Workload{{
				Name: "w", Kind: "deployment", Replicas: 8, Grace: time.Minute, Stop: 50 * time.Second, Start: 2 * time.Second,
			}},
			Timing: sim.Timing{Boot: 40 * time.Second, Delete: 30 * time.Second},
		}},
		Steps: []sim.Step{
			{Do: "alarm", On: "g", Node: 3, N: 1},
			{Do: "alarm", On: "g", At: time.Second, For: 3 * time.Hour},
			{Do: "alarm", On: "g", At: time.Second, Node: 1, For: 3 * time.Hour},
			{Do: "alarm", On: "g", At: time.Second, Node: 2, For: 3 * time.Hour},
		},
	})
	if len(result.Violations) > 0 {
		t.Error(result.Violations)
	}
	var order []string
	var cordons []time.Duration
	for line := range strings.Lines(result.Log()) {
		for _, text := range []string{"node cordoned", "machine terminated"} {
			if !strings.Contains(line, text) {
				continue
			}
			order = append(order, text)
			if text == "node cordoned" {
				at, err := time.ParseDuration(strings.Fields(line)[0])
				if err != nil {
					t.Fatal(err)
				}
				cordons = append(cordons, at)
			}
		}
	}
	if want := slices.Repeat([]string{"node cordoned", "machine terminated"}, 3); !slices.Equal(order, want) {
		t.Errorf("the log says, in this order, %q", order)
	}
	if len(cordons) == 3 && (cordons[1]-cordons[0] > 30*time.Minute || cordons[2]-cordons[0] < time.Hour) {
		t.Errorf("nodes were cordoned after %v, want two within an hour", cordons)
	}
}
