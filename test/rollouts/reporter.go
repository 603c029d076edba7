package rollouts

import (
	"fmt"

	"github.com/node-drainer/node-drainer/internal/history"
	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// Reporter writes the notes and the outcomes of the groups of a rollout. It implements report.Reporter.
type Reporter struct {
	Write func(text string)
	Ended func(g report.Group) // is called when the rollout of a group has ended
}

// Changed writes notes and outcomes.
func (r *Reporter) Changed(c report.Change) {
	switch c.Kind { //nolint:exhaustive // The others can be seen in the account.
	case report.KindNote:
		r.Write(fmt.Sprintf("%s: %s", c.Group.Name, c.Text))
	case report.KindOutcome:
		r.Write(fmt.Sprintf("%s: %s", c.Group.Name, c.Text))
		r.Ended(c.Group)
	}
}

// Show does nothing: all that is in it was said.
func (*Reporter) Show(report.Rollout) {}

// End does nothing.
func (*Reporter) End(report.Rollout) {}

// Note writes a note about a group.
func (r *Reporter) Note(group string, n report.Note) { r.Write(fmt.Sprintf("%s: %s", group, n.Text)) }

// Plan does nothing.
func (*Reporter) Plan([]report.Plan, int) {}

// Status does nothing.
func (*Reporter) Status(report.Rollout) {}

// Nodes does nothing.
func (*Reporter) Nodes(report.Nodes) {}

// History does nothing.
func (*Reporter) History([]history.Drain, bool) {}

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
