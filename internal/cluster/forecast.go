package cluster

import (
	"cmp"
	"time"

	"github.com/node-drainer/node-drainer/pkg/drain"
)

// Forecast returns how a drain would go that begins at the time, of the node that this is the load of. A hook holds its
// instance for so long at most; 0 is no hook. It returns nil if the View makes no forecasts.
func (l Load) Forecast(n Node, since time.Time, held time.Duration) *drain.Forecast {
	if l.snapshot == nil {
		return nil
	}
	t := drain.Target{Name: n.Name, Since: since, AtDeadline: n.Policy.AtDeadline}
	if n.Policy.HasDelay {
		t.EvictionDelay = &n.Policy.EvictionDelay
	}
	timeout := cmp.Or(n.Policy.Timeout, l.snapshot.Timeout())
	if held > 0 {
		timeout = min(timeout, held-min(hookMargin, held/10))
	}
	t.Deadline = since.Add(timeout)
	f := l.snapshot.Forecast(t)
	return &f
}

// hookMargin is how long before the end of the hook a drain must end: the default of HOOK_MARGIN.
const hookMargin = 30 * time.Second
