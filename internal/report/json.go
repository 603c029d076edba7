package report

import (
	"bytes"
	"encoding/json"
	"io"
)

// object writes a value as JSON, on one line if there is no indent. All control characters in it are escaped.
func (s *sink) object(value any, indent string) {
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

// document writes whole answers.
type document struct{ *sink }

// JSON returns a Reporter that writes documents: for a plan one array of Plan, at the end of a rollout one
// Rollout, and nothing in between.
func JSON(w io.Writer) Reporter { return &document{&sink{out: w}} }

const jsonIndent = "  "

// Plan writes an array. It is empty, not null, without plans.
func (d *document) Plan(plans []Plan) error {
	all := make([]Plan, 0, len(plans))
	for _, p := range plans {
		all = append(all, p.whole())
	}
	d.object(all, jsonIndent)
	return d.Err()
}

// Show writes nothing.
func (d *document) Show(Rollout) {}

// End writes the rollout.
func (d *document) End(r Rollout) { d.object(r.whole(), jsonIndent) }

// whole is the plan with empty lists, where they would be null in JSON.
func (p Plan) whole() Plan {
	p.Instances, p.Findings = filled(p.Instances), filled(p.Findings)
	return p
}

// whole is the rollout with empty lists, where they would be null in JSON.
func (r Rollout) whole() Rollout {
	r.Groups = append([]Group{}, r.Groups...)
	for n := range r.Groups {
		r.Groups[n].Instances = filled(r.Groups[n].Instances)
	}
	return r
}

func filled[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
