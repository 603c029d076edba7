package plan

import (
	"context"
	"time"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// forecast adds how the drains of the outdated instances would go if they began now. Of a node that is not Ready nobody
// reports the end of pods, so that it has no forecast.
func forecast(ctx context.Context, instances []report.Planned, held time.Duration) {
	now := time.Now()
	for n := range instances {
		if i := &instances[n]; ctx.Err() == nil && i.Outdated && i.Node != nil && i.Node.Ready && i.Load != nil {
			i.Drain = report.NewForecast(i.Load.Forecast(*i.Node, now, held))
		}
	}
}

// duration returns how long it takes to replace all, if there are forecasts; nil if not. A drain without one may take
// as long as its hook is held.
func (p *Planner) duration(
	g refresh.Group, a Assessment, f refresh.Facts, instances []report.Planned,
) *report.Duration {
	byID := map[string]*report.Forecast{}
	for _, i := range instances {
		if i.Drain != nil {
			byID[i.ID] = i.Drain
		}
	}
	var drains []refresh.Span
	for _, id := range a.sequence(g, p.Policy.Config.Pace.Order) {
		drain := refresh.Span{Longest: f.Held()}
		if d := byID[id]; d != nil {
			drain = d.Span()
		}
		drains = append(drains, drain)
	}
	s, isKnown := f.Expected(g, drains, startOf(instances), p.Policy.Config.Pace.Between)
	if !isKnown || len(byID) == 0 {
		return nil
	}
	return report.NewDuration(s)
}

// startOf returns how long the quickest node of the instances took from the launch until it was Ready: others may have
// become Ready again since. It returns 0 if nothing is known.
func startOf(instances []report.Planned) (quickest time.Duration) {
	for _, i := range instances {
		if i.Node == nil || !i.Node.Ready || i.Launched.IsZero() {
			continue
		}
		if took := i.Node.ReadySince.Sub(i.Launched); took > 0 && (quickest == 0 || took < quickest) {
			quickest = took
		}
	}
	return quickest
}
