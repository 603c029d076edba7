package agent

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/internal/node"
	"github.com/node-drainer/node-drainer/pkg/drain"
)

func oneOf[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

// randomWorld draws states of an instance.
type randomWorld struct {
	*rand.Rand
	now time.Time
}

// near returns a time within ten minutes.
func (w randomWorld) near() time.Time {
	return w.now.Add(time.Duration(w.IntN(1200)-600) * time.Second)
}

// past returns a time within the last ten minutes, or none.
func (w randomWorld) past() time.Time {
	return oneOf(w.Rand, time.Time{}, w.now.Add(-time.Duration(w.IntN(600_000))*time.Millisecond))
}

func (w randomWorld) policy() policy {
	action := func() event.Action { return oneOf(w.Rand, event.Drain, event.Drain, event.Cordon, event.Replace) }
	return policy{
		drainTimeout: 5 * time.Minute, confirmTimeout: time.Minute, resyncInterval: 3 * time.Minute,
		launch: LaunchConfig{Timeout: 5 * time.Minute}, dryRun: w.IntN(20) == 0,
		events: event.Config{
			SpotInterruption: event.Drain, Rebalance: action(), ScheduledChange: action(), StateChange: event.Drain,
			ReservationInterrupt: event.Drain, CapacityBlockExpiring: event.Drain, Alarm: action(), Margin: 5 * time.Second,
			ScheduledChangeLead: 2 * time.Minute, RebalanceTimeout: oneOf(w.Rand, 0, 4*time.Minute),
		},
	}
}

func (w randomWorld) node(k event.Kind) node.Node {
	n := node.Node{
		Name: "node-1", UID: oneOf(w.Rand, "uid-1", "uid-1", "uid-2"), InstanceID: "i-1", Ready: w.IntN(3) > 0,
		DrainRequested: w.IntN(4) == 0, Unselected: w.IntN(20) == 0,
	}
	if w.IntN(5) == 0 {
		n.Maintenance = w.near()
	}
	if w.IntN(2) == 0 {
		n.Mark = node.Mark{InstanceID: "i-1", Reason: string(oneOf(w.Rand, k, event.Alarm)), Since: w.past()}
		n.Mark.Deadline, n.Mark.TerminatesAt = oneOf(w.Rand, time.Time{}, w.near()), oneOf(w.Rand, time.Time{}, w.near())
		n.BootID, n.Mark.BootID = "b", oneOf(w.Rand, "", "", "b")
	}
	return n
}

func (w randomWorld) reason(k event.Kind) *reason {
	e := event.Event{Kind: k, InstanceID: "i-1", At: w.near()}
	switch k {
	case event.LifecycleTerminating, event.LifecycleLaunching:
		e.Hook = event.Hook{Group: "workers", Name: string(k)}
	case event.SpotInterruption, event.ScheduledChange, event.StateChange:
		e.Deadline = w.near()
	}
	r := newReason(e, w.now.Add(-time.Duration(w.IntN(600))*time.Second))
	r.confirmed = w.past()
	for v := range askRoom + 1 {
		if w.IntN(4) == 0 {
			r.done = r.done.with(v)
		}
	}
	r.doubted, r.mustAsk, r.canceled = w.IntN(6) == 0, w.IntN(6) == 0, w.IntN(8) == 0
	if w.IntN(6) == 0 {
		r.answer, r.confirmed = contradicts("no"), time.Time{}
	}
	if w.IntN(2) == 0 {
		r.limit = limit{known: w.past(), stale: w.IntN(6) == 0, hook: w.near(), stopped: w.IntN(8) == 0}
	}
	if w.IntN(3) == 0 {
		r.markedUID, r.deadline = oneOf(w.Rand, "uid-1", "uid-2"), w.near()
	}
	r.next, r.unregistered, r.gone, r.draining = w.past(), w.IntN(5) == 0, w.IntN(12) == 0, w.IntN(3) == 0
	if w.IntN(5) == 0 {
		r.report, r.reportUID = &drain.Report{}, oneOf(w.Rand, "uid-1", "uid-2")
	}
	if r.isLaunch() && w.IntN(3) == 0 {
		r.launched = "abandoned"
		r.holdEnds = oneOf(w.Rand, time.Time{}, w.near())
	}
	r.spot.asked, r.spot.decided = w.IntN(3) == 0, w.IntN(2) == 0
	return r
}

func (w randomWorld) state() state {
	kinds := []event.Kind{
		event.LifecycleTerminating, event.LifecycleLaunching, event.SpotInterruption, event.RebalanceRecommendation,
		event.ScheduledChange, event.ScheduledChangeCanceled, event.Alarm, event.DrainRequested, event.StateChange,
	}
	w.Shuffle(len(kinds), func(i, k int) { kinds[i], kinds[k] = kinds[k], kinds[i] })
	s := state{id: "i-1", now: w.now, registered: w.IntN(4) > 0, nodeSince: w.past(), hasTurn: w.IntN(2) == 0}
	if s.registered {
		s.node = w.node(kinds[0])
	}
	for _, k := range kinds[:w.IntN(4)] {
		s.reasons = append(s.reasons, w.reason(k))
	}
	if w.IntN(4) == 0 {
		s.finished = finishedDrain{uid: "uid-1", since: s.node.Mark.Since, repeat: w.IntN(4) == 0}
		s.finished.report.Lost = w.IntN(4) == 0
	}
	s.notBefore, s.lateNext = w.past(), oneOf(w.Rand, w.past(), w.near())
	s.requested, s.removed, s.withdrawn = w.IntN(3) == 0, w.IntN(3) == 0, w.IntN(3) == 0
	s.mustJudge, s.nextJudge, s.nextWithdraw = w.IntN(3) == 0, w.near(), w.near()
	s.beganMaint, s.mustPut = w.past(), w.IntN(8) == 0
	s.node.Uncordoned, s.cordonAgainAt = !s.node.Mark.Since.IsZero() && w.IntN(4) == 0, w.near()
	s.running, s.failing = map[step]time.Time{}, map[step]time.Time{}
	first := s.decide(w.policy())
	for _, st := range first.steps {
		switch w.IntN(4) {
		case 0:
			s.running[st] = w.now.Add(-time.Duration(w.IntN(60)) * time.Second)
		case 1:
			s.failing[st] = w.now.Add(-time.Duration(w.IntN(60)) * time.Second)
		}
	}
	return s
}

// actions returns what a plan does, without its times.
func (p *plan) actions() (out []string) {
	for _, st := range p.steps {
		out = append(out, fmt.Sprint("step ", st.do, st.key, st.uid))
	}
	for _, e := range p.ends {
		out = append(out, fmt.Sprint("end ", e.key, e.outcome))
	}
	for _, e := range p.begins {
		out = append(out, fmt.Sprint("begin ", e.Kind))
	}
	for _, r := range p.cancels {
		out = append(out, fmt.Sprint("cancel ", r.key))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// lasts reports whether the plan has only steps that may take as long as a drain: the end of any other one, or its next
// attempt, has the instance decided about again.
func (p *plan) lasts() bool {
	long := []verb{awaitTurn, hold, holdAsked, register, drainNode, depart, awaitReady, awaitPod}
	return len(p.ends)+len(p.begins)+len(p.cancels) == 0 &&
		!slices.ContainsFunc(p.steps, func(st step) bool { return !slices.Contains(long, st.do) })
}

// TestNextDecisionIsEarlyEnough: as long as nothing changes, an instance need not be decided about before the time that
// the plan names: at any time before, there is nothing else to do.
func TestNextDecisionIsEarlyEnough(t *testing.T) {
	t.Parallel()
	waiting := 0
	for seed := range uint64(20_000) {
		w := randomWorld{rand.New(rand.NewPCG(seed, 1)), time.Now()}
		p, s := w.policy(), w.state()
		first := s.decide(p)
		until := first.again
		if until.IsZero() {
			until = w.now.Add(time.Hour)
		}
		if !until.After(w.now) || !first.lasts() {
			continue
		}
		waiting++
		for _, r := range first.drains {
			r.draining = true
		}
		for range 4 {
			then := s
			then.now = w.now.Add(time.Duration(w.Int64N(int64(until.Sub(w.now)))))
			later := then.decide(p)
			if before, after := first.actions(), later.actions(); !slices.Equal(before, after) {
				t.Fatalf("seed %d: now\n%q, again %v\nand after %v\n%q", seed, before, first.again.Sub(w.now), then.now.Sub(w.now), after)
			}
		}
	}
	if waiting < 2_000 {
		t.Errorf("only %d states wait", waiting)
	}
}

// TestPlansAreCarriedOutOnce: what a plan cancels is not canceled again at once.
func TestPlansAreCarriedOutOnce(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20_000) {
		w := randomWorld{rand.New(rand.NewPCG(seed, 2)), time.Now()}
		p, s := w.policy(), w.state()
		first := s.decide(p)
		for _, r := range first.cancels {
			r.canceled = true
		}
		for _, r := range first.drains {
			r.draining = true
		}
		for _, e := range first.ends {
			s.reasons = slices.DeleteFunc(s.reasons, func(r *reason) bool { return r == e.reason })
		}
		again := s.decide(p)
		for _, r := range again.cancels {
			if slices.Contains(first.cancels, r) {
				t.Fatalf("seed %d: %v is canceled again", seed, r.key)
			}
		}
	}
}
