package loop

import (
	"strings"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/internal/cluster"
	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/rollout/plan"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// drainsOf has a Node for each instance, some of them drained.
type drainsOf struct {
	plan.Cluster
	drained map[string]cluster.Drain
}

func (d drainsOf) Node(id string) (cluster.Node, bool) {
	n := cluster.Node{Name: "node-" + id, Ready: true}
	if drain, ended := d.drained[id]; ended {
		n.Drain = &drain
	}
	return n, true
}

// TestDrainsThatNobodyEnded: a rollout in which a terminating hook has timed out, or whose agent says that pods were
// left, is no success. The group is read every 5 s, and the hook's timeout is a minute.
func TestDrainsThatNobodyEnded(t *testing.T) {
	t.Parallel()
	const done, left = "done", "left"
	for name, tt := range map[string]struct {
		waits      []time.Duration // of each instance, one after the other
		says       string          // what the agent says of the last one; empty without Kubernetes
		conditions bool
		want       string
	}{
		"an agent completes them":                            {[]time.Duration{20 * time.Second, 90 * time.Second}, "", false, ""},
		"all time out":                                       {[]time.Duration{time.Minute, time.Minute}, "", false, "i-1, i-2"},
		"all time out, a little late":                        {[]time.Duration{63 * time.Second, 62 * time.Second}, "", false, "i-1, i-2"},
		"all end just before":                                {[]time.Duration{50 * time.Second, 54 * time.Second}, "", false, ""},
		"one takes as long by chance":                        {[]time.Duration{20 * time.Second, time.Minute}, "", false, ""},
		"one takes as long, and no agent says that it ended": {[]time.Duration{20 * time.Second, time.Minute}, "", true, "i-2"},
		"one takes as long, and the agent says so":           {[]time.Duration{20 * time.Second, time.Minute}, done, true, ""},
		"pods are left":                                      {[]time.Duration{20 * time.Second, 30 * time.Second}, left, true, "i-2 (1 of 3 pods is left)"},
		"none has waited":                                    {nil, "", false, ""},
	} {
		nodes, before, now := drainsOf{drained: map[string]cluster.Drain{}}, time.Time{}, time.Unix(0, 0)
		d := drains{Hooks: []refresh.Hook{
			{Name: "drain", Terminating: true, HeartbeatTimeout: time.Minute}, {Name: "ready", HeartbeatTimeout: time.Hour},
		}}
		old, index := map[string]bool{"i-1": true, "i-2": true}, plan.NodeIndex{}
		if tt.conditions {
			index.Cluster = nodes
		}
		instances := []refresh.Instance{
			{ID: "i-1", State: "InService"}, {ID: "i-2", State: "InService"}, {ID: "i-9", State: "Terminating:Wait"},
		}
		see := func() {
			d.see(refresh.Group{Instances: instances}, old, index, before, now)
			before, now = now, now.Add(5*time.Second)
		}
		see()
		for n, waits := range tt.waits {
			instances[n].State = "Terminating:Wait"
			for end := now.Add(waits); now.Before(end); {
				see()
			}
			if n == len(tt.waits)-1 && tt.says != "" {
				nodes.drained[instances[n].ID] = cluster.Drain{
					Done: tt.says == done, LeftBehind: tt.says == left, Message: "1 of 3 pods is left",
				}
			}
			instances[n].State = "Terminating:Proceed"
			see()
		}
		end := d.Judge(Ending{Outcome: report.Done, Message: "2 instances replaced"}, tt.conditions)
		if (end.Outcome == report.Done) != (tt.want == "") || !strings.Contains(end.Message, tt.want) {
			t.Errorf("%s: %s: %s, want %q", name, end.Outcome, end.Message, tt.want)
		}
	}
}
