package app

import (
	"context"
	"slices"
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
	var results []check.Result
	for pause := firstPreflight; retry.Sleep(ctx, pause); pause = preflightInterval {
		results = p.check(ctx, results)
	}
}

// check returns what it finds, or, if that was not read in time, the results before: it is no problem of the
// installation then.
func (p preflight) check(ctx context.Context, before []check.Result) []check.Result {
	limited, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	results := check.Run(limited, p.installation)
	if limited.Err() != nil {
		return before
	}
	for _, r := range problemsToLog(results, before) {
		p.observer.InstallationProblem(r.Check, r.Found, r.Fix, r.Status == check.Failed)
	}
	p.observer.InstallationChecked(check.Count(results, check.Warning), check.Count(results, check.Failed))
	return results
}

// problemsToLog returns all failures, and those warnings that the check before did not find: an installation may be
// meant to be as they say.
func problemsToLog(results, before []check.Result) []check.Result {
	return slices.DeleteFunc(slices.Clone(results), func(r check.Result) bool {
		return r.Status != check.Failed && (r.Status != check.Warning || slices.Contains(before, r))
	})
}
