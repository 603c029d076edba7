package report

import (
	"strings"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/internal/cluster"
	"github.com/node-drainer/node-drainer/internal/node"
)

// marked returns a node that has been marked for a minute, whose instance ends with the last character of its name.
func marked(name, reason string, deadline time.Duration, drain *cluster.Drain) cluster.MarkedNode {
	m := cluster.MarkedNode{Node: cluster.Node{Name: name, Ready: true, Marked: true, Drain: drain}, InstanceID: "i-0a0" + name[len(name)-1:]}
	m.Mark = node.Mark{InstanceID: m.InstanceID, Reason: reason, Since: started.Add(-time.Minute)}
	if deadline != 0 {
		m.Mark.Deadline = started.Add(deadline)
	}
	return m
}

func blockedDrain() *cluster.Drain {
	return &cluster.Drain{Reason: "Blocked", Message: "2 of 14 pods left; 2 wait for PodDisruptionBudget shop/api; expected end: 2026-11-21T12:04:50Z"}
}

// markedNodes returns nodes that are blocked, drained, and only cordoned, and one whose pods are not known.
func markedNodes() Nodes {
	blocked := marked("ip-10-0-1-1", "lifecycle-terminating", 14*time.Minute, blockedDrain())
	blocked.Mark.Hook = "workers/drain"
	drained := marked("ip-10-0-1-2", "spot-interruption", -3*time.Second, &cluster.Drain{Done: true, Reason: "Drained", Message: "All 14 pods have left the node"})
	drained.Ready, drained.Mark.TerminatesAt = false, at(30)
	return NewNodes(started, []cluster.MarkedNode{
		blocked, drained, marked("ip-10-0-1-3", "rebalance-recommendation", 0, nil), marked("ip-10-0-1-4", "state-change", time.Hour, nil),
	}, map[string]cluster.Load{"ip-10-0-1-1": {Pods: 2, Blocking: []string{"shop/api"}}, "ip-10-0-1-2": {}, "ip-10-0-1-3": {Pods: 7}})
}

// TestWaitingFor: what a node waits for is what the agent has reported of it, and what the agent cannot report.
func TestWaitingFor(t *testing.T) {
	t.Parallel()
	done := &cluster.Drain{Done: true, Message: "All 3 pods have left the node"}
	reboots := marked("a", "scheduled-change", time.Hour, done)
	reboots.Mark.BootID = "boot-1"
	unmarked := cluster.MarkedNode{Node: cluster.Node{Name: "a", Ready: true, Marked: true}}
	postponed := unmarked
	postponed.Marked, postponed.Drain = false, &cluster.Drain{Reason: "DrainPostponed", Message: "Maintenance starts later"}
	lost := marked("a", "x", time.Hour, &cluster.Drain{Reason: "NodeLost", Message: "The machine or its kubelet has failed"})
	lost.Ready = false
	held := cluster.Load{Pods: 3, Blocking: []string{"shop/api", "shop/db"}}
	for name, tt := range map[string]struct {
		node cluster.MarkedNode
		load cluster.Load
		want string
	}{
		"blocked":       {marked("a", "x", time.Hour, blockedDrain()), held, blockedDrain().Message},
		"drained":       {marked("a", "x", time.Hour, done), cluster.Load{}, "All 3 pods have left the node; its instance has not terminated yet"},
		"reboots":       {reboots, cluster.Load{}, "All 3 pods have left the node; its instance has not rebooted yet"},
		"just marked":   {marked("a", "x", time.Hour, nil), cluster.Load{}, "the agent has not reported any progress yet"},
		"with budgets":  {marked("a", "x", time.Hour, nil), held, "the agent has not reported any progress yet; no disruption allowed by shop/api, shop/db"},
		"cordoned only": {marked("a", "x", 0, nil), cluster.Load{Pods: 3}, "the node is cordoned, and its pods stay"},
		"without mark": {unmarked, cluster.Load{}, "the node has the agent's taint or annotation, but no mark for this instance: " +
			"uncordon it by hand if it stays"},
		"postponed": {postponed, cluster.Load{Pods: 3}, "Maintenance starts later"},
		"lost":      {lost, cluster.Load{Pods: 3}, "The machine or its kubelet has failed; the node is not Ready"},
	} {
		got := NewNodes(started, []cluster.MarkedNode{tt.node}, map[string]cluster.Load{"a": tt.load}).Nodes[0].WaitingFor
		if got != tt.want {
			t.Errorf("%s: waiting for %q, want %q", name, got, tt.want)
		}
	}
}

// TestNodesOnATerminal: the table is as wide as the terminal, and what a node waits for is wrapped.
func TestNodesOnATerminal(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	New(Options{Out: &out, Terminal: true, Size: func() (int, int) { return 100, 24 }, Format: FormatAuto}).Nodes(markedNodes())
	for l := range strings.Lines(out.String()) {
		if width(strings.TrimRight(l, "\n")) > 100 {
			t.Errorf("the line is too wide: %s", l)
		}
	}
	if !strings.Contains(out.String(), "PodDisruptionBudget") {
		t.Errorf("the reason is missing:\n%s", out.String())
	}
}
