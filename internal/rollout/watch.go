package rollout

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/retry"
	"github.com/node-drainer/node-drainer/internal/rollout/hold"
	"github.com/node-drainer/node-drainer/internal/rollout/plan"
	"github.com/node-drainer/node-drainer/internal/text"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// Watcher looks at the selected groups again and again, and replaces what is outdated. A target to which a rollout
// ended badly is not tried again: see failures.
type Watcher struct {
	cfg      plan.Config
	reader   plan.Reader
	writer   Writer
	view     plan.Cluster
	planner  *plan.Planner
	failures *failures
	env      WatchEnvironment
	notes    watchNotes
	looked   bool
}

// WatchEnvironment is what a Watcher runs in.
type WatchEnvironment struct {
	NewReporter func() report.Reporter // for each rollout another one
	Observer    WatchObserver
	Gate        func(ctx context.Context) // returns when a round may begin; may be nil
}

// NewWatcher returns a Watcher. The view may be nil.
func NewWatcher(cfg plan.Config, reader plan.Reader, writer Writer, view plan.Cluster, env WatchEnvironment) *Watcher {
	if env.Gate == nil {
		env.Gate = func(context.Context) {}
	}
	return &Watcher{
		cfg: cfg, reader: reader, writer: writer, view: view, planner: plan.NewPlanner(cfg, reader, view),
		failures: &failures{aws: writer, unsaved: map[string]refresh.Failed{}}, env: env,
		notes: watchNotes{env.NewReporter(), map[string]string{}},
	}
}

// Run looks at the groups at once, and then at each Config.Interval, until ctx ends. A rollout that is under way then
// ends as Config.OnInterrupt says, within a few seconds. No failure of AWS ends Run: the error is one of writing.
func (w *Watcher) Run(ctx context.Context) error {
	if w.cfg.Autoscaler != nil { // One that was killed may have paused it.
		w.env.Gate(ctx)
		hold.NewPause(w.cfg, 1).GroupEnded(ctx, func(level refresh.Level, format string, args ...any) {
			w.notes.write("", level, format, args...)
		})
	}
	for {
		if err := w.round(ctx); err != nil {
			return err
		}
		if !retry.Sleep(ctx, w.untilNext()) {
			return nil
		}
	}
}

// untilNext is the time to the next look: the interval, or less if the windows open before.
func (w *Watcher) untilNext() time.Duration {
	now := time.Now()
	if opens := w.cfg.Windows.NextChange(now); !opens.IsZero() && !w.cfg.Windows.Open(now) {
		return min(w.cfg.Interval, opens.Sub(now))
	}
	return w.cfg.Interval
}

// round looks at the groups once, and rolls out those that are outdated.
func (w *Watcher) round(ctx context.Context) error {
	if w.env.Gate(ctx); ctx.Err() != nil {
		return nil
	}
	var due []string
	w.notes.window(w.cfg.Windows)
	err := w.failures.save(ctx)
	if err == nil {
		due, err = w.look(ctx)
	}
	if err == nil && len(due) > 0 {
		err = w.rollOut(ctx, due)
	}
	if ctx.Err() == nil {
		w.env.Observer.RoundEnded(err)
		if err != nil {
			w.notes.write("", refresh.Warn, "call failed, trying again in %v: %v", w.cfg.Interval, err)
		}
	}
	return w.notes.reporter.Err()
}

// rollOut is a rollout of the groups. It describes them again, as a rollout by hand does.
func (w *Watcher) rollOut(ctx context.Context, groups []string) error {
	cfg, reporter := w.cfg, newObservedReporter(w.env.NewReporter(), w.env.Observer)
	cfg.Selection.Names = groups
	t := New(cfg, w.reader, w.writer, w.view, reporter)
	t.failures = w.failures
	_, err := t.Run(ctx)
	return err
}

// look returns the groups that are to be rolled out now. It notes why others, which are outdated, are not.
func (w *Watcher) look(ctx context.Context) ([]string, error) {
	s, err := w.planner.Survey(ctx)
	if err != nil {
		return nil, err
	}
	left, outdated, held, err := w.sort(ctx, s)
	if err != nil {
		return nil, err
	}
	starts, refused, err := w.check(ctx, outdated)
	if err != nil {
		return nil, err
	}
	due, later := inWaves(w.cfg.Order, starts, append(held, refused...))
	for _, name := range later {
		w.notes.once(name, "not started: a group of an earlier wave is outdated, and is not replaced")
	}
	due = append(left, due...)
	open := w.cfg.Windows.Open(time.Now())
	watched := w.watched(s, refused)
	w.env.Observer.Looked(watched, open)
	if !w.looked {
		w.looked = true
		w.notes.began(watched, w.cfg.Interval)
	}
	if open {
		return due, nil
	}
	return w.underWay(ctx, due)
}

// watched is what the look has found.
func (w *Watcher) watched(s plan.Survey, refused []refresh.Group) (all []refresh.Watched) {
	for _, g := range s.Groups {
		a := w.planner.Policy.Assess(g, s.Templates, s.At)
		n := len(a.Outdated())
		same := func(other refresh.Group) bool { return other.Name == g.Name }
		all = append(all, refresh.Watched{
			Group: g.Name, Outdated: n, Failed: a.Due() && w.failures.holds(g, a.Target.Key),
			Refused: slices.ContainsFunc(refused, same),
		})
	}
	return all
}

// check returns those of the outdated groups that may start, and those that may not.
func (w *Watcher) check(ctx context.Context, outdated plan.Survey) (starts, refused []refresh.Group, err error) {
	plans, err := w.planner.Plans(ctx, outdated, func(int, int) {})
	for n, plan := range plans {
		switch {
		case err != nil:
		case w.mayStart(plan):
			starts = append(starts, outdated.Groups[n])
		default:
			refused = append(refused, outdated.Groups[n])
		}
	}
	return starts, refused, err
}

// sort returns the groups in which something is left to take back, those that are outdated, and those that are too, but
// are left alone.
func (w *Watcher) sort(
	ctx context.Context, s plan.Survey,
) (left []string, outdated plan.Survey, held []refresh.Group, err error) {
	outdated = plan.Survey{Templates: s.Templates, At: s.At}
	for _, g := range s.Groups {
		switch a := w.planner.Policy.Assess(g, s.Templates, s.At); {
		case w.isWaiting(g, a):
			held = append(held, g)
		case w.isPaused(g):
			left = append(left, g.Name)
		case a.Due() || a.Target.Problem != "":
			outdated.Groups = append(outdated.Groups, g)
		default:
			w.notes.forget(g.Name)
			if len(a.Kept()) > 0 {
				held = append(held, g)
			}
			if hold.IsChanged(w.cfg, g) { // by a trigger that was killed
				left = append(left, g.Name)
			}
			err = errors.Join(err, w.failures.reached(ctx, g, a.Target.Key))
		}
	}
	return left, outdated, held, err
}

// underWay returns those of the groups whose refresh was begun by a watch: it is paused while the windows are closed.
func (w *Watcher) underWay(ctx context.Context, groups []string) (all []string, err error) {
	for _, name := range groups {
		if w.cfg.Mode != refresh.ModeRefresh {
			break
		}
		active, err := w.planner.ActiveRefresh(ctx, name)
		if err != nil {
			return nil, err
		}
		if active != nil && hold.BeganInside(w.cfg.Windows, *active) {
			all = append(all, name)
		}
	}
	return all, nil
}

// isPaused reports whether a watch has paused the refreshes of the group.
func (w *Watcher) isPaused(g refresh.Group) bool {
	return len(w.cfg.Windows) > 0 && slices.Contains(refresh.SuspendedBy(g), refresh.ProcessInstanceRefresh)
}

// inWaves returns those of the groups that are in no later wave than the first of the groups which are held back, and
// the others.
func inWaves(order []string, starts, held []refresh.Group) (due, later []string) {
	first := refresh.LastWave
	for _, wave := range refresh.Waves(held, order) {
		first = min(first, wave)
	}
	for n, wave := range refresh.Waves(starts, order) {
		if name := starts[n].Name; wave <= first {
			due = append(due, name)
		} else {
			later = append(later, name)
		}
	}
	return due, later
}

// isWaiting reports whether the group is outdated and must not be touched now, and notes why.
func (w *Watcher) isWaiting(g refresh.Group, a plan.Assessment) bool {
	why := w.waiting(g, a)
	if why != "" {
		w.notes.once(g.Name, why)
	}
	return why != ""
}

// waiting is why the group must not be touched now; empty if it may be.
func (w *Watcher) waiting(g refresh.Group, a plan.Assessment) string {
	if f, _ := w.failures.of(g); w.failures.holds(g, a.Target.Key) && a.Due() {
		return "not tried again: " + f.Describe() + "; it waits for another target, or for trigger resume --asg " +
			text.ShellWord(g.Name)
	}
	if other, held := refresh.HeldByOther(g, w.cfg.Holder, time.Now()); held {
		return "not started: the trigger " + other.Holder + " replaces instances of the group"
	}
	return ""
}

// mayStart reports whether the rollout may start, or follow a refresh. A refusal is noted once.
func (w *Watcher) mayStart(plan report.Plan) bool {
	why := describe(slices.DeleteFunc(slices.Clone(plan.Findings), func(f refresh.Finding) bool {
		return !slices.Contains(plan.Refused, f.Check)
	})...)
	switch {
	case len(plan.Refused) == 0:
		w.notes.forget(plan.Group)
		return true
	case plan.Expected() == report.Conflict:
		w.notes.once(plan.Group, "not started: "+why)
	default:
		w.notes.once(plan.Group, "refused by the preflight: "+why)
	}
	return false
}
