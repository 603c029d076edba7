package report

import (
	"time"

	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// head is the beginning of every line.
type head struct {
	At    time.Time `json:"at"`
	Group string    `json:"group,omitempty"`
	Type  string    `json:"type"`
}

type planLine struct {
	head
	Plan Plan `json:"plan"`
}

type statusLine struct {
	head
	Status Group `json:"status"`
}

type changeLine struct {
	head
	Kind     Kind   `json:"kind"`
	Refresh  string `json:"refresh,omitempty"`
	Status   string `json:"status,omitempty"`
	Instance string `json:"instance,omitempty"`
	State    string `json:"state,omitempty"`
	Node     string `json:"node,omitempty"`
	Old      *bool  `json:"old,omitempty"`
	Text     string `json:"text"`
}

type noteLine struct {
	head
	Level refresh.Level `json:"level"`
	Text  string        `json:"text"`
}

type progressLine struct {
	head
	Phase   Phase          `json:"phase"`
	Percent int            `json:"refreshPercent,omitempty"`
	Total   int            `json:"total"`
	Gone    int            `json:"gone"`
	States  map[string]int `json:"states"`
	Text    string         `json:"text"`
}

type outcomeLine struct {
	head
	Version  int     `json:"version,omitempty"` // Of the last line.
	Outcome  Outcome `json:"outcome"`
	ExitCode int     `json:"exitCode"`
	Message  string  `json:"message,omitempty"`
}

// ndjsonReporter writes for machines: one JSON object on each line. Each has "at" (RFC 3339), "type", and,
// except for nodes and end, "group". Other fields depend on the type:
//
//	plan      "plan": a Plan
//	status    "status": a Group
//	nodes     "nodes": all marked nodes, each a Node
//	drain     "drain": the record of a drain
//	change    "kind": started, status, phase, instance or drain; "text";
//	          of started and status "refresh" and "status";
//	          of instance and drain "instance", "state" (its last, if it left the group), "node", "old"
//	note      "level": ok, warn or refuse; "text"
//	progress  "phase", "total", "gone", and in mode refresh "refreshPercent", which is what AWS says; "states": how many
//	          instances are in each lifecycle state; "text". It is written for each change of these numbers, and once a
//	          minute without changes.
//	outcome   "outcome", "exitCode", "message"
//	end       "outcome" and "exitCode" of all groups together, and "version". It is the last line.
//
// Fields may be added, but not removed. Fields without a value are left out.
type ndjsonReporter struct {
	*writer
	silence
	now func() time.Time // for plans, which have no time of their own
}

// Plan writes a line for each group.
func (n *ndjsonReporter) Plan(plans []Plan, _ int) {
	for _, p := range plans {
		n.object(planLine{head{n.now(), p.Group, "plan"}, p}, "")
	}
}

// Status writes a line for each group.
func (n *ndjsonReporter) Status(r Rollout) {
	for _, g := range r.Groups {
		n.object(statusLine{head{r.At, g.Name, "status"}, g}, "")
	}
}

// Note writes a line.
func (n *ndjsonReporter) Note(group string, note Note) {
	n.object(noteLine{head{note.At, group, string(KindNote)}, note.Level, note.Text}, "")
}

// Changed writes a line.
func (n *ndjsonReporter) Changed(c Change) {
	if c.Text == "" {
		return
	}
	n.written = true
	n.object(c.object(), "")
}

// Show writes the progress, after a minute without a line.
func (n *ndjsonReporter) Show(r Rollout) {
	for _, c := range n.due(r) {
		n.object(c.object(), "")
	}
}

// End writes the end.
func (n *ndjsonReporter) End(r Rollout) {
	worst := Worst(r.Groups)
	n.object(outcomeLine{head{At: r.At, Type: "end"}, Version, worst, worst.ExitCode(), ""}, "")
}

// object returns the change as a line of its type.
func (c Change) object() any {
	h, g := head{c.At, c.Group.Name, string(c.Kind)}, c.Group
	switch c.Kind { // The others are lines of the type change.
	case KindNote:
		return noteLine{h, c.Level, c.Text}
	case KindProgress:
		return progressLine{h, g.Phase, g.Percent, g.Total, g.Gone, g.states(), c.Text}
	case KindOutcome:
		return outcomeLine{h, 0, g.Outcome, g.Outcome.ExitCode(), g.Message}
	}
	h.Type = "change"
	l := changeLine{head: h, Kind: c.Kind, Text: c.Text}
	switch c.Kind { // The others have no more than a text.
	case KindStarted, KindStatus:
		l.Refresh, l.Status = g.Refresh, g.Status
	case KindInstance, KindDrain:
		i := c.Instance
		l.Instance, l.State, l.Node, l.Old = i.ID, i.State, i.nodeName(), &i.Old
	}
	return l
}
