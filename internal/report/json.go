package report

import (
	"encoding/json"
	"strings"

	"github.com/node-drainer/node-drainer/internal/text"
)

// object writes a value as JSON, on one line without an indent, with all control characters escaped.
func (s *writer) object(value any, indent string) {
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", indent)
	if err := encoder.Encode(value); err != nil && s.err == nil {
		s.err = err // write does nothing from then on.
	}
	// The runner of GitHub Actions takes a line with ##[ for a command. Only texts can contain it.
	s.write(strings.ReplaceAll(text.CleanJSON(b.String()), "##[", `#\u0023[`))
}

// Version is that of the JSON documents. It changes when a field is removed, or its meaning changes.
const Version = 1

// planDocument is a plan in JSON.
type planDocument struct {
	Version  int    `json:"version"`
	ExitCode int    `json:"exitCode"`
	Groups   []Plan `json:"groups"` // In the order of a rollout.
}

// rolloutDocument is a status, or the end of a rollout, in JSON.
type rolloutDocument struct {
	Version  int     `json:"version"`
	Outcome  Outcome `json:"outcome,omitempty"` // Of all groups together; empty in a status.
	ExitCode *int    `json:"exitCode,omitempty"`
	Rollout
}

// nodesDocument is the marked nodes in JSON.
type nodesDocument struct {
	Version int `json:"version"`
	Nodes
}

// jsonReporter writes one document: a planDocument, a nodesDocument or, at the end of a rollout and for a status, a
// rolloutDocument.
type jsonReporter struct{ *writer }

const jsonIndent = "  "

// Plan writes a document.
func (d *jsonReporter) Plan(plans []Plan, exitCode int) {
	d.object(planDocument{Version, exitCode, plans}, jsonIndent)
}

// Status writes the rollout.
func (d *jsonReporter) Status(r Rollout) {
	d.object(rolloutDocument{Version: Version, Rollout: r}, jsonIndent)
}

// Note writes nothing: trigger watch has no output as one document.
func (d *jsonReporter) Note(string, Note) {}

// Changed writes nothing.
func (d *jsonReporter) Changed(Change) {}

// Show writes nothing.
func (d *jsonReporter) Show(Rollout) {}

// End writes the rollout.
func (d *jsonReporter) End(r Rollout) {
	worst := Worst(r.Groups)
	d.object(rolloutDocument{Version, worst, new(worst.ExitCode()), r}, jsonIndent)
}
