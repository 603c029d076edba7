package report

import (
	"encoding/json"
	"strings"
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
	s.write(cleanJSON(b.String()))
}

// jsonReporter writes one document: an array of Plan for a plan, and a Rollout for a status or at the end of a
// rollout.
type jsonReporter struct{ *writer }

const jsonIndent = "  "

// Plan writes an array.
func (d *jsonReporter) Plan(plans []Plan) { d.object(plans, jsonIndent) }

// Status writes the rollout.
func (d *jsonReporter) Status(r Rollout) { d.object(r, jsonIndent) }

// Note writes nothing: trigger watch has no output as one document.
func (d *jsonReporter) Note(string, Note) {}

// Show writes nothing.
func (d *jsonReporter) Show(Rollout) {}

// End writes the rollout.
func (d *jsonReporter) End(r Rollout) { d.object(r, jsonIndent) }
