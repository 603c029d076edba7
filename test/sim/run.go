package sim

import (
	"context"
	"fmt"
	"runtime"
	"runtime/metrics"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/node-drainer/node-drainer/internal/config"
	"github.com/node-drainer/node-drainer/internal/retry"
	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/sim/kube"
)

const (
	// lastingFault is how long a fault lasts that is never mended.
	lastingFault = 24 * time.Hour
	// longest is how long a world without alarms may take after its last step.
	longest = 16 * time.Hour
	// mostLaunches is how many instances a group launches at most, unless its launches never succeed. Each of a few steps
	// can replace all of its instances.
	mostLaunches = 60
)

// Result is what came of a world.
type Result struct {
	Violations []Violation
	LatePods   int // pods on nodes whose hooks were completed, to which the scheduler had bound them too late
	lines      []line
	began      time.Time
}

// Violation is something that must not happen in any world.
type Violation struct {
	Invariant string
	At        time.Duration // since the world began
	Text      string
}

func (v Violation) String() string { return fmt.Sprintf("%v %s: %s", v.At, v.Invariant, v.Text) }

// Run runs a world.
func Run(t *testing.T, spec Spec) Result {
	t.Helper()
	return run(t, spec, mutant{})
}

// run runs a world whose triggers have a fault.
func run(t *testing.T, spec Spec, m mutant) (result Result) {
	t.Helper()
	replay(t, spec.Order)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w, err := newWorld(spec)
		w.rollouts.mutant = m
		if err == nil {
			result, err = runner{w}.run(ctx)
		}
		cancel()
		w.work.Wait()
		for _, c := range w.clusters {
			c.controllers.Stop()
		}
		if closed := w.aws.Close(); err == nil {
			err = closed
		}
		time.Sleep(2 * time.Minute) // retry.Watch leaves client-go asleep for up to a minute
		if err != nil {
			t.Errorf("seed %d: %v", spec.Seed, err)
		}
	})
	return result
}

// runner runs a world.
type runner struct{ *world }

// run runs the steps and the faults, waits until nothing happens any more, and judges.
func (w runner) run(ctx context.Context) (Result, error) {
	failed := make(chan error, 1)
	running, stop := context.WithCancel(ctx)
	agents := w.startAgents(running, failed)
	time.Sleep(2 * time.Minute)
	w.began = time.Now()
	w.log.began = w.began
	w.work.Go(func() { otherTools(w).holdOthers(ctx) })
	w.work.Go(func() { events(w).runSteps(ctx) })
	w.startVersions(ctx)
	rolling := w.rollouts.start(ctx)
	defer w.rollouts.stop()
	faults(w).injectFaults()
	w.work.Go(func() { faults(w).runFaults(ctx) })
	w.settle(ctx, w.lastPlanned())
	if w.isJoint() && !w.rollouts.isCutShort() {
		w.rollouts.end(rolling)
		w.settle(ctx, time.Now())
		w.rollouts.judgeLeft(rolling)
	}
	judge := newJudge(w.world)
	violations := judge.all()
	stop()
	agents()
	select {
	case err := <-failed:
		return Result{}, err
	default:
	}
	return Result{Violations: violations, LatePods: judge.late, lines: w.log.all(), began: w.began}, nil
}

// startAgents starts all agents. The returned function waits until they have stopped.
func (w runner) startAgents(ctx context.Context, failed chan<- error) (wait func()) {
	var ends []chan struct{}
	for _, a := range w.agentsOf("") {
		end := make(chan struct{})
		ends = append(ends, end)
		go func() {
			defer close(end)
			if err := a.run(ctx); err != nil {
				select {
				case failed <- err:
				default:
				}
			}
		}()
	}
	return func() {
		for _, end := range ends {
			<-end
		}
	}
}

// lastPlanned returns when the last of what the Spec has happen is over, except for faults that last.
func (w runner) lastPlanned() time.Time {
	last := w.began
	for _, s := range w.spec.Steps {
		if at := w.began.Add(s.At + s.For); at.After(last) {
			last = at
		}
	}
	for _, v := range w.spec.Versions {
		last = latest(last, w.began.Add(v.At))
	}
	for _, f := range w.spec.Faults {
		// Nothing need outlive a webhook.
		if at := w.began.Add(f.From + f.For); at.After(last) && f.For < lastingFault && !isAdmission(f) {
			last = at
		}
	}
	for _, t := range w.spec.Triggers {
		last = latest(last, w.began.Add(t.At+t.Interrupt))
	}
	return last
}

// settle waits until nothing has happened for a while after the last thing that is planned, or the world has taken too
// long.
func (w runner) settle(ctx context.Context, last time.Time) {
	for time.Until(last) > 0 && !w.isCutShort() && ctx.Err() == nil {
		retry.Sleep(ctx, min(time.Minute, time.Until(last)))
		w.facts.goroutines = max(w.facts.goroutines, runtime.NumGoroutine())
		w.facts.live = max(w.facts.live, liveBytes())
	}
	settles, crashes, most := w.settles(), w.crashes(), w.mostTime()
	for quiet := time.Duration(0); quiet < settles && time.Since(last) < most; quiet += time.Minute {
		if w.machines.mostLaunched() >= w.mostLaunches() || w.isCutShort() {
			return
		}
		retry.Sleep(ctx, time.Minute)
		if now := w.crashes(); now != crashes || !w.isIdle() {
			quiet, crashes = 0, now
		}
	}
}

// isCutShort reports whether the world need not go on.
func (w runner) isCutShort() bool { return w.facts.hasStorm() || w.rollouts.isCutShort() }

// liveBytes returns how much of the heap the last garbage collection has found in use.
func liveBytes() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// mostTime returns how long the world may take after its last step. Alarms of a group wait for each other, and an
// instance may be terminated right after the replacement of its root volume: then its node is drained twice.
func (w runner) mostTime() time.Duration {
	most := longest
	if w.isJoint() {
		most += longestRollout
	}
	for _, s := range w.spec.Steps {
		if s.Do == "alarm" || s.Do == "volumes" {
			most += longest
		}
	}
	return most
}

// crashes returns how often processes have crashed.
func (w runner) crashes() (n int) {
	for _, a := range w.agentsOf("") {
		a.mu.Lock()
		n += len(a.down)
		a.mu.Unlock()
	}
	return n
}

// settles returns how long the world runs on when nothing happens any more, so that what is left behind is found: for
// two resyncs, and as long as a message may take to be confirmed.
func (w runner) settles() (longest time.Duration) {
	for _, a := range w.agentsOf("") {
		if cfg, err := config.ReadAgent(a.environ()); err == nil {
			longest = max(longest, 2*cfg.ResyncInterval+cfg.Hook.ConfirmTimeout)
		}
	}
	return longest + 3*time.Minute
}

// isChanging reports whether an instance is neither in service nor at rest, in the warm pool or in Standby.
func isChanging(i awsim.Instance) bool {
	return !slices.Contains([]string{"InService", "Standby", "Warmed:Stopped"}, i.State)
}

// hasKubelet reports whether something can end the pods of a node: not on a machine that is stopped for good.
func (c *cluster) hasKubelet(name string) bool {
	n, ok := kube.Get[*corev1.Node](c.server, nodeName(name))
	return !ok || !slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionUnknown
	})
}

// isIdle reports whether nothing of what the Spec asks for is still going on: no instance waits or is replaced, no pod
// terminates, and no queue has a message.
func (w runner) isIdle() bool {
	if w.rollouts.areRunning() {
		return false
	}
	for _, a := range w.aws.Ledger() {
		if a.ClosedAt.IsZero() {
			return false
		}
	}
	for _, c := range w.clusters {
		for _, g := range c.Groups {
			if slices.ContainsFunc(w.aws.Instances(g.Name), isChanging) {
				return false
			}
		}
		for _, p := range kube.List[*corev1.Pod](c.server) {
			if p.DeletionTimestamp != nil && c.hasKubelet(p.Spec.NodeName) {
				return false
			}
		}
		for _, i := range c.Installs {
			if len(w.messages(i)) > 0 {
				return false
			}
		}
	}
	return true
}
