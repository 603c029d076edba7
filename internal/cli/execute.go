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

// execute runs an operation, and returns the exit code. If it returns an error too, the exit code is at
// least 1.
func (p *program) execute(ctx context.Context, op operation) (code int, err error) {
	if err := p.checkSummary(); err != nil {
		return 0, err
	}
	c, err := p.connect(ctx, op)
	if err != nil {
		return 0, err
	}
	defer c.close()
	switch op {
	case opPlan:
		return p.plan(ctx, c)
	case opStatus:
		return p.status(ctx, c)
	case opRun:
		return p.rollOut(ctx, c)
	}
	return p.act(ctx, c, rollout.Action(op))
}

// plan shows what would be done. It has no Writer, and so cannot change anything.
func (p *program) plan(ctx context.Context, c *clients) (code int, err error) {
	reporter, err := p.reporter()
	if err != nil {
		return 0, err
	}
	plans, err := rollout.NewPlanner(c.config, c.reader, c.view).Plan(ctx)
	if err != nil {
		return 0, err
	}
	if err := reporter.Plan(plans); err != nil {
		return 0, fmt.Errorf("write the plan: %w", err)
	}
	if err := p.summarize(func(w io.Writer) error { return report.PlanSummary(w, plans) }); err != nil {
		return 0, err
	}
	if p.settings.detailed {
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

func (p *program) status(ctx context.Context, c *clients) (code int, err error) {
	r, err := rollout.New(c.config, c.reader, nil, c.view, nil).Status(ctx) // without a Writer
	if err != nil {
		return 0, err
	}
	if err := report.WriteStatus(p.stdout, p.settings.output, r); err != nil {
		return 0, fmt.Errorf("write the status: %w", err)
	}
	return 0, p.summarize(func(w io.Writer) error { return report.StatusSummary(w, r) })
}

func (p *program) rollOut(ctx context.Context, c *clients) (code int, err error) {
	return p.report(func(r report.Reporter) (report.Outcome, error) { return c.trigger(r).Run(ctx) })
}

func (p *program) act(ctx context.Context, c *clients, a rollout.Action) (code int, err error) {
	return p.report(func(r report.Reporter) (report.Outcome, error) { return c.trigger(r).Act(ctx, a) })
}

// report runs do with a reporter, and writes the summaries, also after an error.
func (p *program) report(do func(report.Reporter) (report.Outcome, error)) (code int, err error) {
	reporter, err := p.reporter()
	if err != nil {
		return 0, err
	}
	return p.reportTo(reporter, do)
}

func (p *program) reportTo(
	reporter report.Reporter, do func(report.Reporter) (report.Outcome, error),
) (code int, err error) {
	kept := &recorder{Reporter: reporter}
	outcome, err := do(kept)
	if err == nil {
		code = outcome.ExitCode()
	}
	if unwritten := p.summarize(func(w io.Writer) error { return kept.summary(w, err) }); err == nil {
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
