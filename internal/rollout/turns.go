package rollout

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/internal/rollout/loop"
	"github.com/node-drainer/node-drainer/internal/rollout/plan"
	"github.com/node-drainer/node-drainer/internal/text"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// place is how far a group is in relation to the others.
type place struct {
	name    string
	wave    int
	phase   refresh.Phase // It is in this phase, or waits to begin it.
	waits   bool
	turn    bool           // It has had its turn: it needs to wait for no other group any more.
	outcome report.Outcome // Empty until it has ended.
}

func (p place) failed() bool { return p.outcome != "" && p.outcome.ExitCode() != 0 }

// order is the rules by which groups begin their phases.
type order struct {
	together refresh.Phase // The last phase that is done for all groups, before any begins the next.
	parallel int           // Groups at a time in the other phases; 0 is all.
	failFast bool
}

// decide decides whether the group n may begin the phase that it waits for. The error says why it never may.
func (o order) decide(all []place, n int) (begins bool, err error) {
	phase := all[n].phase
	switch {
	case all[n].turn:
		return true, nil
	case phase > refresh.PhaseCheck && phase <= o.together+1:
		if behind, failed := others(all, phase); len(failed) > 0 {
			return false, skippedAfter(phase, failed)
		} else if behind {
			return false, nil
		}
	}
	if phase <= o.together {
		return count(all, func(p place) bool { return p.phase == phase && !p.waits }) < plan.Concurrency, nil
	}
	return o.decideTurn(all, n)
}

// others reports whether a group has not come to the phase yet, and which have failed before their turn.
func others(all []place, phase refresh.Phase) (behind bool, failed []string) {
	for _, p := range all {
		switch {
		case p.outcome == "":
			behind = behind || p.phase < phase
		case p.failed() && !p.turn && p.outcome != report.Skipped:
			failed = append(failed, p.name)
		}
	}
	if behind { // All that fail are named.
		return true, nil
	}
	return false, failed
}

func skippedAfter(phase refresh.Phase, failed []string) error {
	names := text.First(failed, plan.MostNames)
	if phase == refresh.PhaseCheck+1 {
		return loop.EndWith(report.Skipped, "nothing was changed, because another group cannot be replaced: "+names+
			" (--together none replaces the others)")
	}
	return loop.EndWith(report.Skipped, "nothing was replaced, because another group failed: "+names)
}

// decideTurn decides whether it is the turn of the group n: groups have it in their order, and those of a wave when all
// of the earlier waves have ended well.
func (o order) decideTurn(all []place, n int) (begins bool, err error) {
	for _, p := range all {
		if o.failFast && p.failed() {
			return false, loop.EndWith(report.Skipped, "not started, because another group failed (--fail-fast)")
		}
	}
	if waits, failed := before(all, n); waits {
		return false, nil
	} else if len(failed) > 0 {
		return false, loop.EndWith(report.Skipped, "not started, because an earlier wave did not end well: "+
			text.First(failed, plan.MostNames))
	}
	return o.parallel == 0 || count(all, func(p place) bool { return p.turn }) < o.parallel, nil
}

// before reports whether the group n waits for one before it, and which of earlier waves have failed.
func before(all []place, n int) (waits bool, failed []string) {
	for _, p := range all[:n] {
		earlier := p.wave < all[n].wave
		switch {
		case p.outcome == "":
			waits = waits || earlier || !p.turn
		case earlier && p.failed():
			failed = append(failed, p.name)
		}
	}
	return waits, failed
}

// count counts the groups that have not ended.
func count(all []place, counts func(place) bool) (n int) {
	for _, p := range all {
		if p.outcome == "" && counts(p) {
			n++
		}
	}
	return n
}

// turns lets each group of a rollout begin its phases in order.
type turns struct {
	order order

	mu      sync.Mutex
	all     []place
	changed chan struct{} // closed when a place changes
}

func newTurns(cfg plan.Config, groups []refresh.Group) *turns {
	t := &turns{order: order{cfg.Together, cfg.Parallel, cfg.FailFast}, changed: make(chan struct{})}
	for n, wave := range refresh.Waves(groups, cfg.Order) {
		t.all = append(t.all, place{name: groups[n].Name, wave: wave})
	}
	return t
}

// await returns when the group n may begin the phase, or an error if it never may. If the group has to wait, it calls
// waiting first.
func (t *turns) await(ctx context.Context, n int, phase refresh.Phase, waiting func()) error {
	t.change(func() { t.all[n].phase, t.all[n].waits = phase, true })
	for first := true; ; first = false {
		changed, begins, err := t.tryBegin(ctx, n)
		if begins || err != nil {
			return err
		}
		if first {
			waiting()
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// tryBegin has the group n begin its phase if it may.
func (t *turns) tryBegin(ctx context.Context, n int) (changed <-chan struct{}, begins bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := &t.all[n]
	if ctx.Err() != nil && !p.turn {
		return nil, false, notStarted(ctx)
	}
	if begins, err = t.order.decide(t.all, n); begins {
		p.waits, p.turn = false, p.turn || p.phase > t.order.together
		t.announce()
	}
	return t.changed, begins, err
}

// end gives up the place of the group n.
func (t *turns) end(n int, outcome report.Outcome) {
	t.change(func() { t.all[n].outcome = outcome })
}

func (t *turns) change(do func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	do()
	t.announce()
}

// announce needs mu.
func (t *turns) announce() {
	close(t.changed)
	t.changed = make(chan struct{})
}

// notStarted is why a group is not started whose context has ended.
func notStarted(ctx context.Context) error {
	if errors.Is(context.Cause(ctx), loop.ErrTimeout) {
		return loop.EndWith(report.TimedOut,
			fmt.Sprintf("not started: %v; run the same command again to continue", loop.ErrTimeout))
	}
	return loop.EndWith(report.Interrupted, "not started")
}
