package report

import (
	"fmt"
	"strings"
	"time"

	"github.com/node-drainer/node-drainer/internal/cluster"
)

// Nodes are the nodes that the agent has marked, or whose drain it has postponed, at one moment.
type Nodes struct {
	At      time.Time `json:"at"`
	Nodes   []Node    `json:"nodes"`             // By name.
	Stopped []string  `json:"stopped,omitempty"` // The Leases of agents that no agent renews: NAMESPACE/NAME.
}

// Node is one of them, and why it still exists.
type Node struct {
	Name         string         `json:"node"`
	Instance     string         `json:"instance,omitempty"`
	Ready        bool           `json:"ready"`
	Reason       string         `json:"reason,omitempty"` // The kind of event that it was marked for.
	Hook         string         `json:"hook,omitempty"`   // GROUP/HOOK.
	Since        time.Time      `json:"since,omitzero"`
	Deadline     time.Time      `json:"deadline,omitzero"`     // Of its drain; zero if it has none.
	TerminatesAt time.Time      `json:"terminatesAt,omitzero"` // Of its instance, if the event says so.
	PodsLeft     *int           `json:"podsLeft,omitempty"`    // Those that a drain would evict; nil if not known.
	Blocking     []string       `json:"blockingBudgets,omitempty"`
	Drain        *cluster.Drain `json:"drain,omitempty"` // What the agent has reported; nil if nothing yet.
	WaitingFor   string         `json:"waitingFor"`
}

// NewNodes returns the marked nodes with their loads, which are nil if they are not known.
func NewNodes(at time.Time, marked []cluster.MarkedNode, loads map[string]cluster.Load) Nodes {
	all := Nodes{At: at, Nodes: []Node{}}
	for _, m := range marked {
		one := Node{
			Name: m.Name, Instance: m.InstanceID, Ready: m.Ready, Reason: m.Mark.Reason, Hook: m.Mark.Hook,
			Since: m.Mark.Since, Deadline: m.Mark.Deadline, TerminatesAt: m.Mark.TerminatesAt, Drain: m.Drain,
		}
		if load, known := loads[m.Name]; known {
			one.PodsLeft, one.Blocking = &load.Pods, load.Blocking
		}
		one.WaitingFor = joinNonEmpty("; ", one.progress(), one.obstacle(m.Mark.BootID != ""))
		all.Nodes = append(all.Nodes, one)
	}
	return all
}

// progress returns what the agent has reported of the drain, or why it has reported nothing.
func (n Node) progress() string {
	switch {
	case n.Drain != nil:
		return n.Drain.Message
	case n.Since.IsZero():
		return "the node has the agent's taint or annotation, but no mark for this instance: uncordon it by hand if it stays"
	case n.Deadline.IsZero():
		return "the node is cordoned, and its pods stay"
	}
	return "the agent has not reported any progress yet"
}

// obstacle returns what the node waits for besides what the agent reports.
func (n Node) obstacle(reboots bool) string {
	var parts []string
	switch {
	case n.Drain == nil && len(n.Blocking) > 0:
		parts = append(parts, "no disruption allowed by "+strings.Join(n.Blocking, ", "))
	case n.Drain != nil && n.Drain.Done && reboots:
		parts = append(parts, "its instance has not rebooted yet")
	case n.Drain != nil && n.Drain.Done:
		parts = append(parts, "its instance has not terminated yet")
	}
	if !n.Ready {
		parts = append(parts, "the node is not Ready")
	}
	return strings.Join(parts, "; ")
}

// stoppedAgent says that no agent renews a Lease.
func stoppedAgent(lease string) string {
	return "No agent works: none renews the Lease " + lease + ". Until one does, no drain begins or goes on, and each " +
		"hook ends with its timeout."
}

// nodesLines returns a table of the nodes, and the agents that have stopped. Its lines are wrapped to so many cells;
// 0 is no limit.
func nodesLines(all Nodes, width int) (lines []line) {
	for _, lease := range all.Stopped {
		lines = append(lines, line{{yellow, stoppedAgent(lease)}})
	}
	if len(all.Nodes) == 0 {
		return append(lines, plainLine("No node is marked, and no drain is postponed."))
	}
	rows := [][]span{cells("NODE", "INSTANCE", "REASON", "SINCE", "DEADLINE", "PODS LEFT", "WAITING FOR")}
	for _, n := range all.Nodes {
		row := cells(n.Name, n.Instance, n.Reason, n.age(all.At))
		waiting := span{plain, n.WaitingFor}
		if n.blocked() {
			waiting.style = yellow
		}
		rows = append(rows, append(row, n.timeLeft(all.At), n.podCell(), waiting))
	}
	return append(lines, table(rows, width)...)
}

// blocked reports whether something prevents the drain from going on.
func (n Node) blocked() bool {
	return isBlocked(n.Drain) || n.Drain == nil && len(n.Blocking) > 0
}

// age returns for how long the node has been marked.
func (n Node) age(at time.Time) string {
	if n.Since.IsZero() {
		return ""
	}
	return formatDuration(at.Sub(n.Since)) + " ago"
}

// timeLeft returns the cell DEADLINE: the time until then.
func (n Node) timeLeft(at time.Time) span {
	switch left := n.Deadline.Sub(at); {
	case n.Deadline.IsZero():
		return span{plain, "-"}
	case left < 0:
		return span{yellow, "passed " + formatDuration(-left) + " ago"}
	default:
		return span{plain, formatDuration(left) + " left"}
	}
}

func (n Node) podCell() span {
	if n.PodsLeft == nil {
		return span{plain, "-"}
	}
	return span{plain, fmt.Sprint(*n.PodsLeft)}
}

// NodesSummary returns the nodes as Markdown, a line for each.
func NodesSummary(all Nodes) (lines string) {
	for _, lease := range all.Stopped {
		lines += "- " + escape(stoppedAgent(lease)) + "\n"
	}
	if len(all.Nodes) == 0 {
		return lines + "- No node is marked, and no drain is postponed.\n"
	}
	for _, n := range all.Nodes {
		lines += "- " + escape(n.Name+": "+n.WaitingFor) + "\n"
	}
	return lines
}

// Nodes writes a table, and before each but the first the time.
func (t *textReporter) Nodes(all Nodes) { t.table(all, 0) }

func (t *textReporter) table(all Nodes, width int) {
	if t.tables++; t.tables > 1 {
		t.lines(plainLine(), faintLine(all.At.Format("15:04:05")))
	}
	t.lines(nodesLines(all, width)...)
}

// Nodes writes a table in the width of the terminal.
func (l *liveReporter) Nodes(all Nodes) {
	cols, _ := l.dimensions()
	l.table(all, cols-1)
}

// Nodes writes the nodes.
func (d *jsonReporter) Nodes(all Nodes) { d.object(nodesDocument{Version, all}, jsonIndent) }

// nodesLine is one line of a table of nodes.
type nodesLine struct {
	head
	Nodes   []Node   `json:"nodes"`
	Stopped []string `json:"stopped,omitempty"`
}

// Nodes writes one line for all nodes.
func (n *ndjsonReporter) Nodes(all Nodes) {
	n.object(nodesLine{head{At: all.At, Type: "nodes"}, all.Nodes, all.Stopped}, "")
}
