package rollouts

import (
	"fmt"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// Reporter writes the notes and the outcomes of the groups of a rollout. It implements report.Reporter.
type Reporter struct {
	Write func(text string)
	Ended func(g report.Group) // is called when the rollout of a group has ended

	notes map[string]int
	ended map[string]bool
}

// Show writes what is new.
func (r *Reporter) Show(now report.Rollout) {
	for _, g := range now.Groups {
		if len(g.Notes) == r.notes[g.Name] && (g.Outcome == "" || r.ended[g.Name]) {
			continue
		}
		if r.notes == nil {
			r.notes, r.ended = map[string]int{}, map[string]bool{}
		}
		for _, n := range g.Notes[r.notes[g.Name]:] {
			r.Note(g.Name, n)
		}
		r.notes[g.Name] = len(g.Notes)
		if g.Outcome != "" && !r.ended[g.Name] {
			r.ended[g.Name] = true
			r.Write(fmt.Sprintf("%s: %s: %s", g.Name, g.Outcome, g.Message))
			r.Ended(g)
		}
	}
}

// End writes what is new.
func (r *Reporter) End(now report.Rollout) { r.Show(now) }

// Note writes a note about a group.
func (r *Reporter) Note(group string, n report.Note) { r.Write(fmt.Sprintf("%s: %s", group, n.Text)) }

// Plan does nothing.
func (*Reporter) Plan([]report.Plan, int) {}

// Status does nothing.
func (*Reporter) Status(report.Rollout) {}

// Nodes does nothing.
func (*Reporter) Nodes(report.Nodes) {}

// Err returns no error: Write has none.
func (*Reporter) Err() error { return nil }

// Observer of a watch does nothing: a Reporter writes the same.
type Observer struct{}

// Looked does nothing.
func (Observer) Looked([]refresh.Watched, bool) {}

// RoundEnded does nothing.
func (Observer) RoundEnded(error) {}

// RolloutStarted does nothing.
func (Observer) RolloutStarted(string, int, string) {}

// RolloutEnded does nothing.
func (Observer) RolloutEnded(string, string, string, bool, bool) {}
