package report

import (
	"io"
	"time"

	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// The types of the lines that NDJSON writes.
const (
	typePlan     = "plan"
	typeChange   = "change"
	typeNote     = "note"
	typeProgress = "progress"
	typeOutcome  = "outcome"
	typeEnd      = "end"
	typeStatus   = "status"
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

type changeLine struct {
	head
	Kind     kind   `json:"kind"`
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
	Percent int            `json:"percent"`
	Total   int            `json:"total"`
	Gone    int            `json:"gone"`
	States  map[string]int `json:"states"`
	Text    string         `json:"text"`
}

type outcomeLine struct {
	head
	Outcome  Outcome `json:"outcome"`
	ExitCode int     `json:"exitCode"`
	Message  string  `json:"message,omitempty"`
}

// ndjsonReporter writes an object for each change.
type ndjsonReporter struct {
	*writer
	changeTracker
	now func() time.Time
}

// NDJSON returns a Reporter for machines: one JSON object on each line. Each has "at" (RFC 3339), "type",
// and, except for the last, "group". Other fields depend on the type:
//
//	plan      "plan": a Plan
//	change    "kind": started, status, phase, instance or drain; "text";
//	          of started and status "refresh" and "status";
//	          of instance and drain "instance", "state" (its last, if it left the group), "node", "old"
//	note      "level": ok, warn or refuse; "text"
//	progress  "phase", "percent", "total", "gone"; "states": how many instances are in each lifecycle state;
//	          "text". It is written for each change of these numbers, and once a minute without changes.
//	outcome   "outcome", "exitCode", "message"
//	end       "outcome" and "exitCode" of all groups together. It is the last line.
//
// Fields may be added, but not removed. Fields without a value are left out. now is the clock for plans,
// which have no time of their own.
func NDJSON(w io.Writer, now func() time.Time) Reporter {
	return &ndjsonReporter{writer: &writer{out: w}, now: now}
}

// Plan writes a line for each group.
func (n *ndjsonReporter) Plan(plans []Plan) error {
	for _, p := range plans {
		n.object(planLine{head{n.now(), p.Group, typePlan}, p.withLists()}, "")
	}
	return n.Err()
}

// Show writes a line for each change.
func (n *ndjsonReporter) Show(r Rollout) {
	for _, c := range n.next(r) {
		n.object(c.object(), "")
	}
}

// End writes the last changes, and the end.
func (n *ndjsonReporter) End(r Rollout) {
	n.Show(r)
	worst := Worst(r.Groups)
	n.object(outcomeLine{head: head{At: r.At, Type: typeEnd}, Outcome: worst, ExitCode: worst.ExitCode()}, "")
}

// object returns the change as a line of its type.
func (c change) object() any {
	h := head{c.at, c.group.Name, typeChange}
	switch c.kind {
	case kindNote:
		h.Type = typeNote
		return noteLine{h, c.level, c.text}
	case kindProgress:
		h.Type = typeProgress
		g := c.group
		return progressLine{h, g.Phase, g.percent(), g.Total, g.Gone, g.states(), c.text}
	case kindOutcome:
		h.Type = typeOutcome
		o := c.group.Outcome
		return outcomeLine{h, o, o.ExitCode(), c.group.Message}
	case kindStarted, kindStatus:
		return changeLine{head: h, Kind: c.kind, Refresh: c.group.Refresh, Status: c.group.Status, Text: c.text}
	case kindInstance, kindDrain:
		i := c.instance
		return changeLine{
			head: h, Kind: c.kind, Instance: i.ID, State: i.State, Node: i.nodeName(), Old: &i.Old, Text: c.text,
		}
	default:
		return changeLine{head: h, Kind: c.kind, Text: c.text}
	}
}
