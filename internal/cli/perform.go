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

// do does what a command is for, and returns the exit code. With an error it is 1 at least.
func (p *program) do(ctx context.Context, v verb) (code int, err error) {
	if err := p.checkSummary(); err != nil {
		return 0, err
	}
	w, err := p.connect(ctx, v)
	if err != nil {
		return 0, err
	}
	defer w.close()
	switch v {
	case verbPlan:
		return p.plan(ctx, w)
	case verbStatus:
		return p.status(ctx, w)
	case verbRun:
		return p.rollOut(ctx, w)
	}
	return p.act(ctx, w, rollout.Action(v))
}

// plan has no Writer in its hands.
func (p *program) plan(ctx context.Context, w *world) (code int, err error) {
	reporter, err := p.reporter()
	if err != nil {
		return 0, err
	}
	plans, err := rollout.NewPlanner(w.config, w.reader, w.view).Plan(ctx)
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
		code = detailed(plans, w.config.Allow)
	}
	return code, nil
}

// detailed is 0 if a run would find nothing to do, nothing to leave and nothing to refuse.
func detailed(plans []report.Plan, allowed []string) int {
	some := func(plan report.Plan) bool {
		return plan.Outdated+plan.Kept > 0 || len(refresh.Refused(plan.Findings, allowed)) > 0
	}
	if slices.ContainsFunc(plans, some) {
		return 2
	}
	return 0
}

func (p *program) status(ctx context.Context, w *world) (code int, err error) {
	r, err := rollout.New(w.config, w.reader, nil, w.view, nil).Status(ctx) // with nothing that could change any
	if err != nil {
		return 0, err
	}
	if err := report.WriteStatus(p.stdout, p.settings.output, r); err != nil {
		return 0, fmt.Errorf("write the status: %w", err)
	}
	return 0, p.summarize(func(w io.Writer) error { return report.StatusSummary(w, r) })
}

func (p *program) rollOut(ctx context.Context, w *world) (code int, err error) {
	return p.told(func(r report.Reporter) (report.Outcome, error) { return w.trigger(r).Run(ctx) })
}

func (p *program) act(ctx context.Context, w *world, a rollout.Action) (code int, err error) {
	return p.told(func(r report.Reporter) (report.Outcome, error) { return w.trigger(r).Act(ctx, a) })
}

// told does something that is told to a reporter, and writes the summaries, however it ends.
func (p *program) told(do func(report.Reporter) (report.Outcome, error)) (code int, err error) {
	reporter, err := p.reporter()
	if err != nil {
		return 0, err
	}
	return p.tell(reporter, do)
}

func (p *program) tell(
	reporter report.Reporter, do func(report.Reporter) (report.Outcome, error),
) (code int, err error) {
	kept := &keeper{Reporter: reporter}
	outcome, err := do(kept)
	if err == nil {
		code = outcome.ExitCode()
	}
	if told := p.summarize(func(w io.Writer) error { return kept.summary(w, err) }); err == nil {
		err = told
	}
	if lost := report.Err(reporter); err == nil && lost != nil {
		err = fmt.Errorf("write the output: %w", lost)
	}
	return code, err
}

// keeper keeps how a rollout ended, for the summaries.
type keeper struct {
	report.Reporter
	last *report.Rollout
}

// summary writes how the rollout ended, and why it failed.
func (k *keeper) summary(w io.Writer, failed error) error {
	var errs []error
	if k.last != nil {
		errs = append(errs, report.Summary(w, *k.last))
	}
	if failed != nil {
		errs = append(errs, report.FailureSummary(w, failed))
	}
	return errors.Join(errs...)
}

// End keeps it, and tells it on.
func (k *keeper) End(r report.Rollout) {
	k.last = &r
	k.Reporter.End(r)
}

// trigger returns what can change groups.
func (w *world) trigger(r report.Reporter) *rollout.Trigger {
	t := rollout.New(w.config, w.reader, w.writer, w.view, r)
	t.Taints(w.tainter)
	return t
}
