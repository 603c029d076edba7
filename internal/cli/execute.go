package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/rollout"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// executor runs operations.
type executor struct {
	version        string
	environ        map[string]string
	stdout, stderr io.Writer
	settings       *settings
}

// execute runs an operation, and returns the exit code, which is at least 1 with an error.
func (e *executor) execute(ctx context.Context, op operation) (code int, err error) {
	if err := e.checkSummary(); err != nil {
		return 0, err
	}
	c, err := connector{e.version, e.environ, e.stderr, e.settings}.connect(ctx, op)
	if err != nil {
		return 0, err
	}
	defer c.close()
	if op == opStatus {
		return e.status(ctx, c)
	}
	reporter, err := e.reporter()
	switch {
	case err != nil:
		return 0, err
	case op == opPlan:
		return e.plan(ctx, c, reporter)
	}
	return e.change(reporter, func(r report.Reporter) (report.Outcome, error) {
		if op == opRun {
			return c.trigger(r).Run(ctx)
		}
		return c.trigger(r).Act(ctx, rollout.Action(op))
	})
}

// plan shows what would be done. It has no Writer, and so cannot change anything.
func (e *executor) plan(ctx context.Context, c *clients, r report.Reporter) (code int, err error) {
	plans, err := rollout.NewPlanner(c.config, c.reader, c.view).Plan(ctx)
	if err != nil {
		return 0, err
	}
	if err := r.Plan(plans); err != nil {
		return 0, fmt.Errorf("write the plan: %w", err)
	}
	if err := e.summarize(func(w io.Writer) error { return report.PlanSummary(w, plans) }); err != nil {
		return 0, err
	}
	if e.settings.detailed {
		code = detailedExitCode(plans, c.config.Allow)
	}
	return code, nil
}

// detailedExitCode is 2 if a run would replace, keep or refuse something, else 0.
func detailedExitCode(plans []report.Plan, allowed []string) int {
	some := func(plan report.Plan) bool {
		return plan.Outdated+plan.Kept > 0 || len(refresh.Refused(plan.Findings, allowed)) > 0
	}
	if slices.ContainsFunc(plans, some) {
		return 2
	}
	return 0
}

func (e *executor) status(ctx context.Context, c *clients) (code int, err error) {
	r, err := rollout.New(c.config, c.reader, nil, c.view, nil).Status(ctx) // without a Writer
	if err != nil {
		return 0, err
	}
	if err := report.WriteStatus(e.stdout, e.settings.output, r); err != nil {
		return 0, fmt.Errorf("write the status: %w", err)
	}
	return 0, e.summarize(func(w io.Writer) error { return report.StatusSummary(w, r) })
}

// change runs do with the reporter, and writes the summaries, also after an error.
func (e *executor) change(
	reporter report.Reporter, do func(report.Reporter) (report.Outcome, error),
) (code int, err error) {
	kept := &recorder{Reporter: reporter}
	outcome, err := do(kept)
	if err == nil {
		code = outcome.ExitCode()
	}
	if unwritten := e.summarize(func(w io.Writer) error { return kept.summary(w, err) }); err == nil {
		err = unwritten
	}
	if unwritten := report.Err(reporter); err == nil && unwritten != nil {
		err = fmt.Errorf("write the output: %w", unwritten)
	}
	return code, err
}

// recorder keeps the end of a rollout, for the summaries.
type recorder struct {
	report.Reporter
	last *report.Rollout
}

// summary writes how the rollout ended, and the error if it failed.
func (k *recorder) summary(w io.Writer, failed error) error {
	var errs []error
	if k.last != nil {
		errs = append(errs, report.Summary(w, *k.last))
	}
	if failed != nil {
		errs = append(errs, report.FailureSummary(w, failed))
	}
	return errors.Join(errs...)
}

// End keeps the end, and passes it on.
func (k *recorder) End(r report.Rollout) {
	k.last = &r
	k.Reporter.End(r)
}

// trigger returns a Trigger, which can change groups.
func (c *clients) trigger(r report.Reporter) *rollout.Trigger {
	t := rollout.New(c.config, c.reader, c.writer, c.view, r)
	t.Taints(c.tainter)
	return t
}
