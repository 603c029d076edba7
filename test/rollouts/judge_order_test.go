package rollouts

import (
	"context"
	"errors"
	"math"
	"strconv"
	"sync"
	"time"

	"github.com/node-drainer/node-drainer/internal/gate"
)

// begins judges when a process begins to replace instances of a group: in a window, after the gate has passed, and when
// the group's wave has come.
func (j *judge) begins(p *process, g *group) {
	o := j.w.spec.Options
	p.mu.Lock()
	p.batches[g] = time.Now()
	delete(p.outcomes, g)
	p.mu.Unlock()
	if j.isDisturbed(g) {
		return
	}
	if at := time.Now(); !o.InWindow(at) && !g.Nodegroup {
		j.violate("windows kept", "%s is changed at %s", g.Name, at.UTC().Format(time.TimeOnly))
	}
	if o.Gate && !j.w.gate.passed(p, g) {
		j.violate("gate passed", "%s is changed, and the gate has not passed", g.Name)
	}
	if p.run.Command == Trigger {
		j.turns(p, g)
	}
}

// turns checks the waves, and how many groups are replaced at a time.
func (j *judge) turns(p *process, g *group) {
	p.mu.Lock()
	defer p.mu.Unlock()
	underWay := 0
	for other := range p.batches {
		if _, ended := p.outcomes[other]; !ended {
			underWay++
		}
	}
	if most := j.w.spec.Options.Parallel; most > 0 && underWay > most {
		j.violate("turns kept", "%s is the group no. %d that is replaced at a time", g.Name, underWay)
	}
	for _, other := range j.w.groups {
		outcome, ended := p.outcomes[other]
		if other.wave() < g.wave() && (!ended || outcome.ExitCode() != 0) {
			j.violate("waves kept", "%s of wave %s is replaced, and %s of wave %s is not", g.Name, g.Wave, other.Name, other.Wave)
		}
	}
}

func (g *group) wave() int {
	if n, err := strconv.Atoi(g.Wave); err == nil {
		return n
	}
	return math.MaxInt
}

// gateway is the gate of all processes. It fails in a time of the Spec.
type gateway struct {
	w    *world
	mu   sync.Mutex
	last map[string]time.Time // when it has passed for a group
}

var errGate = errors.New("the check has failed")

// Try implements plan.Gate.
func (g *gateway) Try(_ context.Context, at gate.Point) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	since, fails := time.Since(g.w.began), g.w.spec.GateFails
	if since >= fails[0] && since < fails[1] && !g.w.isHealed() {
		return errGate
	}
	if g.last == nil {
		g.last = map[string]time.Time{}
	}
	g.last[at.Group] = time.Now()
	return nil
}

// passed reports whether the gate has passed for the group a moment ago.
func (g *gateway) passed(p *process, one *group) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	at, passed := g.last[one.asg]
	return passed && time.Since(at) <= time.Minute+p.spec.Options.Poll
}
