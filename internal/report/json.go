package report

import (
	"bytes"
	"encoding/json"
	"io"
)

// object writes a value as JSON, on one line without an indent, with all control characters escaped.
func (s *writer) object(value any, indent string) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", indent)
	if err := encoder.Encode(value); err != nil {
		if s.err == nil {
			s.err = err
		}
		return
	}
	s.write(string(cleanJSON(b.Bytes())))
}

// jsonReporter writes documents.
type jsonReporter struct{ *writer }

// JSON returns a Reporter that writes an array of Plan for a plan, and one Rollout at the end of a rollout.
func JSON(w io.Writer) Reporter { return &jsonReporter{&writer{out: w}} }

const jsonIndent = "  "

// Plan writes an array. It is empty, not null, without plans.
func (d *jsonReporter) Plan(plans []Plan) error {
	all := make([]Plan, 0, len(plans))
	for _, p := range plans {
		all = append(all, p.withLists())
	}
	d.object(all, jsonIndent)
	return d.Err()
}

// Show writes nothing.
func (d *jsonReporter) Show(Rollout) {}

// End writes the rollout.
func (d *jsonReporter) End(r Rollout) { d.object(r.withLists(), jsonIndent) }

// withLists returns the plan with empty lists instead of nil, which would be null in JSON.
func (p Plan) withLists() Plan {
	p.Instances, p.Findings = nonNil(p.Instances), nonNil(p.Findings)
	return p
}

// withLists returns the rollout with empty lists instead of nil, which would be null in JSON.
func (r Rollout) withLists() Rollout {
	r.Groups = append([]Group{}, r.Groups...)
	for n := range r.Groups {
		r.Groups[n].Instances = nonNil(r.Groups[n].Instances)
	}
	return r
}

func nonNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
