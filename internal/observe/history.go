package observe

import (
	"slices"
	"strings"
	"time"

	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/internal/history"
	"github.com/node-drainer/node-drainer/internal/node"
	"github.com/node-drainer/node-drainer/pkg/drain"
)

// History keeps records of drains.
type History interface {
	Add(d history.Drain) // It does not block.
}

// KeepHistory adds the records of drains to h from now on. Call it before anything is recorded. Without it they are
// only in the log.
func (o *Observer) KeepHistory(h History) { o.history = h }

// noHistory keeps no records.
type noHistory struct{}

// Add does nothing.
func (noHistory) Add(history.Drain) {}

// recordOf returns the record of a drain that ended at a time, with an outcome.
func recordOf(e event.Event, n node.Node, r drain.Report, outcome string, ended time.Time) history.Drain {
	d := history.Drain{
		Node: n.Name, UID: n.UID, Instance: e.InstanceID, Event: string(e.Kind), Group: e.Hook.Group, Hook: e.Hook.Name,
		Cause: causeOf(e), Began: toSecond(n.Mark.Since), Deadline: toSecond(n.Mark.Deadline), Ended: toSecond(ended),
		Outcome: outcome, Asked: askedFor(r.Controls),
	}
	if r.Expected > 0 {
		d.Expected = toSecond(ended.Add(r.Expected - r.Took))
	}
	for _, p := range r.Pods {
		one := history.Pod{
			Name: p.Name, At: toSecond(p.At), How: string(p.How), Why: string(p.Reason), Left: string(p.Left),
		}
		if p.BudgetsKept() {
			one.Budgets = slices.Clone(p.Budgets)
		} else {
			one.Bypassed = slices.Clone(p.Budgets)
		}
		d.Details = append(d.Details, one)
	}
	d.Counts = history.Count(d.Details)
	return d.Limited()
}

// askedFor returns what a person asked of a drain that has ended.
func askedFor(c drain.Controls) string {
	var asked []string
	if !c.HoldUntil.IsZero() {
		asked = append(asked, "no eviction before "+stamp(c.HoldUntil))
	}
	if !c.Deadline.IsZero() {
		asked = append(asked, "deadline "+stamp(c.Deadline))
	}
	if c.EndNow {
		asked = append(asked, "end at once")
	}
	return strings.Join(asked, "; ")
}

// toSecond returns the time in UTC, without what is less than a second: records are short.
func toSecond(t time.Time) time.Time { return t.UTC().Truncate(time.Second) }

// DrainInterrupted records what a drain did before the process stopped, or the drain was canceled.
func (o *Observer) DrainInterrupted(e event.Event, n node.Node, r drain.Report) {
	d := recordOf(e, n, r, history.Interrupted, time.Now())
	if d.Pods == 0 {
		return
	}
	o.withEvent(o.log.Info(), e).Str("node", n.Name).Interface("record", d).Msg("drain interrupted")
	o.history.Add(d)
}

// HistoryFailed records that so many records of drains were not written; retried, that it is tried again.
func (o *Observer) HistoryFailed(records int, retried bool, err error) {
	o.metrics.apiErrors.WithLabelValues("kubernetes").Inc()
	l := o.log.Warn().Str("api", "kubernetes").Int("records", records).Err(err)
	if retried {
		l.Msg("failed to write the records of drains, retrying")
	} else {
		l.Msg("records of drains were not written; they are in the log")
	}
}
