package notify

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Status is what has happened to a drain.
type Status string

// The statuses of drains.
const (
	Started Status = "started"
	Drained Status = "drained"
	Failed  Status = "failed" // pods were left on the node, or the instance was terminated before the drain ended
)

// statuses returns all of them, the most important one first.
func statuses() []Status { return []Status{Failed, Drained, Started} }

// Drain is what a message says of the drain of one node. Templates use its fields.
type Drain struct {
	Text     string // the drain on one line; a message sets it
	Status   Status
	Node     string
	NodeUID  string
	Instance string
	Event    string    // the kind of the event, as in the log
	Group    string    // the Auto Scaling group; empty without a lifecycle hook
	Hook     string    // the lifecycle hook; may be empty
	Cause    string    // a sentence that says why the node is drained
	Since    time.Time // when the node was cordoned
	Deadline time.Time // of the drain
	Result   string    // a sentence that says how the drain ended; empty if it has started
	Took     time.Duration
	Pods     int      // that had to leave the node
	Forced   int      // of these, how many were deleted
	Left     []string // NAMESPACE/NAME of the pods that were left on the node
}

// String describes the drain on one line.
func (d Drain) String() string {
	switch d.Status {
	case Started:
		return fmt.Sprintf("Draining node %s until %s. Cause: %s.", d.Node, d.Deadline.UTC().Format(time.RFC3339), d.Cause)
	case Drained:
		return fmt.Sprintf("Drained node %s in %v: %s. Cause: %s.", d.Node, d.Took.Round(time.Second), d.Result, d.Cause)
	}
	return fmt.Sprintf("Failed to drain node %s: %s. Cause: %s.", d.Node, d.Result, d.Cause)
}

// Message is what a template is executed with.
type Message struct {
	Text    string  // the whole message
	Cluster string  // CLUSTER_NAME
	Summary string  // how many drains have which status: 1 failed, 2 drained
	Failed  bool    // whether a drain has failed
	Drains  []Drain // at most maxDrains; those that have failed come first
	More    int     // how many drains are left out
}

// maxDrains is how many drains a message describes: services limit the length of a message.
const maxDrains = 20

func newMessage(cluster string, drains []Drain) Message {
	m := Message{Cluster: cluster, Summary: summarize(drains)}
	for _, status := range statuses() {
		for _, d := range drains {
			if d.Status == status {
				d.Text = d.String()
				m.Drains = append(m.Drains, d)
			}
		}
	}
	m.Failed = m.Drains[0].Status == Failed
	m.More = max(0, len(m.Drains)-maxDrains)
	m.Drains = m.Drains[:len(m.Drains)-m.More]
	m.Text = m.text()
	return m
}

func summarize(drains []Drain) string {
	var counts []string
	for _, status := range statuses() {
		n := len(slices.DeleteFunc(slices.Clone(drains), func(d Drain) bool { return d.Status != status }))
		if n > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", n, status))
		}
	}
	return strings.Join(counts, ", ")
}

// text describes the drains: one on a single line, several below their summary.
func (m Message) text() string {
	if len(m.Drains) == 1 {
		return m.Cluster + ": " + m.Drains[0].Text
	}
	var b strings.Builder
	b.WriteString(m.Cluster + ": " + m.Summary)
	for _, d := range m.Drains {
		b.WriteString("\n- " + d.Text)
	}
	if m.More > 0 {
		_, _ = fmt.Fprintf(&b, "\nand %d more", m.More)
	}
	return b.String()
}
