package rollouts

import (
	"math"
	"strconv"
	"time"
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
	if o.Gate && !j.w.gate.Passed(g.asg, o.Poll) {
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
