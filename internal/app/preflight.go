package app

import (
	"context"
	"time"

	"github.com/node-drainer/node-drainer/internal/check"
	"github.com/node-drainer/node-drainer/internal/observe"
	"github.com/node-drainer/node-drainer/internal/retry"
)

const (
	// firstPreflight is how long after its start a leader checks the installation: the messages in the queue and the first
	// resync come before.
	firstPreflight = 10 * time.Second
	// preflightInterval is the time between two checks, so that what was fixed is no problem any more.
	preflightInterval = time.Hour
)

// preflight checks the installation in the background, and never fails.
type preflight struct {
	installation check.Installation
	observer     *observe.Observer
}

// run checks soon, and then each hour, until ctx ends. It makes no trial calls, which CloudTrail would record as
// errors.
func (p preflight) run(ctx context.Context) {
	defer p.observer.InstallationUnchecked()
	for pause := firstPreflight; retry.Sleep(ctx, pause); pause = preflightInterval {
		p.check(ctx)
	}
}

func (p preflight) check(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	results := check.Run(limited, p.installation)
	if limited.Err() != nil {
		return // What was not read in time is no problem of the installation.
	}
	for _, r := range results {
		if r.Status == check.Failed || r.Status == check.Warning {
			p.observer.InstallationProblem(r.Check, r.Found, r.Fix, r.Status == check.Failed)
		}
	}
	p.observer.InstallationChecked(check.Count(results, check.Warning), check.Count(results, check.Failed))
}
