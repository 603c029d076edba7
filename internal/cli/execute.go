package cli

import (
	"context"
	"fmt"
	"io"
	"reflect"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/retry"
	"github.com/node-drainer/node-drainer/internal/rollout"
	"github.com/node-drainer/node-drainer/internal/rollout/plan"
	"github.com/node-drainer/node-drainer/pkg/drain"
)

// executor runs operations.
type executor struct {
	version        string
	environ        map[string]string
	stdout, stderr io.Writer
	settings       *settings
	aws            aws.Config    // when the clients were made
	drains         *drain.Config // of agents, for forecasts; nil if there are none
	patience       time.Duration // until a note says that AWS does not answer
}

// execute runs an operation, and returns the exit code, which is at least 1 with an error.
func (e *executor) execute(ctx context.Context, op operation) (code int, err error) {
	if err := e.checkSummary(); err != nil {
		return 0, err
	}
	switch op {
	case opNodes:
		return 0, e.nodes(ctx, e.reporter())
	case opHistory:
		return 0, e.history(ctx, e.reporter())
	}
	c, err := e.connect(ctx, op)
	if err != nil {
		return 0, err
	}
	defer c.close()
	defer c.silence.Stop()
	r := e.reporter()
	switch op {
	case opStatus:
		return e.status(ctx, c, r)
	case opPlan:
		return e.plan(ctx, c, r)
	case opWatch:
		return 0, e.watchGroups(ctx, c)
	}
	return e.change(r, func() (report.Rollout, error) {
		t := rollout.New(c.config, c.reader, c.changes(), c.view, r)
		if op == opRun {
			return t.Run(ctx)
		}
		return t.Act(ctx, op)
	})
}

// plan shows what would be done. It has no Writer, and so cannot change anything.
func (e *executor) plan(ctx context.Context, c *clients, r report.Reporter) (code int, err error) {
	progress := planProgress{out: e.stderr, written: time.Now()}
	plans, err := plan.NewPlanner(c.config, c.reader, c.view).Plan(ctx, progress.show)
	if err != nil {
		return 0, err
	}
	code = planExitCode(plans, e.settings.detailed)
	if err := e.summarize(report.PlanSummary(plans)); err != nil {
		return code, err
	}
	if r.Plan(plans, code); r.Err() != nil {
		return code, fmt.Errorf("write the plan: %w", r.Err())
	}
	return code, nil
}

// planProgress shows how far a plan of many groups is: AWS limits how often Instance Refreshes can be described.
type planProgress struct {
	out     io.Writer
	written time.Time
}

// show writes a line every ten seconds.
func (p *planProgress) show(read, of int) {
	const interval = 10 * time.Second
	if time.Since(p.written) >= interval {
		p.written = time.Now()
		_, _ = fmt.Fprintf(p.out, "trigger: %d of %d groups read\n", read, of)
	}
}

// planExitCode is that of a run, where the run would end before it changes anything. Else it is 2 with
// --detailed-exitcode if anything is outdated, and 0.
func planExitCode(plans []report.Plan, detailed bool) int {
	if code := report.ExpectedExitCode(plans); code != 0 {
		return code
	}
	if detailed && slices.ContainsFunc(plans, report.Plan.IsDue) {
		return 2
	}
	return 0
}

// status shows what is under way, with --watch until nothing is.
func (e *executor) status(ctx context.Context, c *clients, r report.Reporter) (code int, err error) {
	began := time.Now()
	t := rollout.New(c.config, c.reader, nil, c.view, nil) // without a Writer
	var shown report.Rollout
	for {
		now, err := t.Status(ctx)
		if err != nil {
			return 0, err
		}
		if !reflect.DeepEqual(now.Groups, shown.Groups) {
			if r.Status(now); r.Err() != nil {
				return 0, fmt.Errorf("write the status: %w", r.Err())
			}
		}
		shown = now
		limit := e.settings.Timeout
		switch {
		case !e.settings.follow:
			return 0, e.summarize(report.StatusSummary(now))
		case now.Ended():
			return report.Worst(now.Groups).ExitCode(), e.summarize(report.StatusSummary(now))
		case limit > 0 && time.Since(began) >= limit:
			return report.TimedOut.ExitCode(), fmt.Errorf("--timeout, %v, has passed, and a rollout is still under way", limit)
		case !retry.Sleep(ctx, e.settings.PollInterval):
			return report.Interrupted.ExitCode(), context.Cause(ctx)
		}
	}
}

// change does something that the reporter reports, and writes the summaries, also after an error.
func (e *executor) change(r report.Reporter, do func() (report.Rollout, error)) (code int, err error) {
	end, err := do()
	if err != nil {
		_ = e.summarize(report.FailureSummary(err)) // The first error matters more.
		return 0, err
	}
	err = e.summarize(report.Summary(end))
	if err == nil && r.Err() != nil {
		err = fmt.Errorf("write the output: %w", r.Err())
	}
	return report.Worst(end.Groups).ExitCode(), err
}
