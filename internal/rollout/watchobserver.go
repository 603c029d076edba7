package rollout

import (
	"slices"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// WatchObserver is notified of what a Watcher finds and does. Its methods are called from one goroutine at a time, and
// must not block.
type WatchObserver interface {
	// Looked is called after each look at the groups that has succeeded.
	Looked(groups []refresh.Watched, open bool)
	// RoundEnded is called after each look, and the rollouts that it has found necessary.
	RoundEnded(err error)
	// RolloutStarted is called when instances of the group begin to be replaced.
	RolloutStarted(group string, outdated int, target string)
	// RolloutEnded is called for each group of a rollout. What had started is said to have failed, unless it was
	// interrupted.
	RolloutEnded(group, outcome, message string, started, failed bool)
}

// observedReporter notifies an observer of the beginnings and the ends of rollouts that it reports.
type observedReporter struct {
	report.Reporter
	observer WatchObserver
	started  map[string]bool // by group
}

func newObservedReporter(r report.Reporter, o WatchObserver) *observedReporter {
	return &observedReporter{Reporter: r, observer: o, started: map[string]bool{}}
}

// Changed implements report.Reporter.
func (o *observedReporter) Changed(c report.Change) {
	g := c.Group
	if replaces(g) && !o.started[g.Name] {
		o.started[g.Name] = true
		o.observer.RolloutStarted(g.Name, g.Total, g.Target)
	}
	if c.Kind == report.KindOutcome {
		unfinished := []report.Outcome{report.Interrupted, report.Skipped}
		failed := g.Outcome.ExitCode() != 0 && !slices.Contains(unfinished, g.Outcome)
		o.observer.RolloutEnded(g.Name, string(g.Outcome), g.Message, o.started[g.Name], failed)
	}
	o.Reporter.Changed(c)
}

// replaces reports whether the rollout of the group has come so far that instances are replaced.
func replaces(g report.Group) bool {
	phases := []report.Phase{report.Replacing, report.Baking, report.Draining}
	return g.Outcome == "" && g.Total > 0 && slices.Contains(phases, g.Phase)
}
