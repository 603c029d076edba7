package main

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"
)

// The ways in which an instance is terminated.
const (
	scaleIn         = "scale-in"          // Auto Scaling terminates it, and its hooks wait.
	lost            = "lost-message"      // The same, but all messages are lost.
	twice           = "repeated-message"  // The same, and the messages are sent twice.
	spot            = "spot"              // EC2 takes it back after a short notice.
	spotDuringDrain = "spot-during-drain" // The same, a moment after the group began to terminate it.
	rebalance       = "rebalance"         // EC2 recommends to replace it, and later its group does.
	scheduled       = "scheduled-change"  // AWS Health announces its retirement, and its group replaces it.
	reservation     = "reservation"       // EC2 takes back the capacity that it runs in.
	console         = "console-terminate" // A user terminates it in EC2, bypassing its group.
)

// Events that look like a termination and are none.
const (
	canceled       = "canceled-change" // A scheduled change that is canceled.
	forgedSpot     = "forged-spot"     // A spot warning for an instance that is no Spot Instance.
	forgedHook     = "forged-hook"     // A notification of a hook for an instance in service.
	foreignMessage = "other-cluster"   // An instance of another cluster whose message arrives in our queue.
)

// Faults of the agents, the control plane, AWS and the queue.
const (
	killAgent = "kill -9"
	termAgent = "TERM"
	killAll   = "kill -9 of all"
	stopAPI   = "API server stopped"
	restarted = "restart of a part of the control plane that had exited"
	fault     = "fault"
	duplicate = "duplicates"
	reorder   = "reordering"
	delay     = "delay"
)

// step is one action of the plan.
type step struct {
	At   time.Duration // Since the start.
	What string
	Pick uint64        // Selects one of the candidates: instance, agent, fault.
	For  time.Duration // How long it lasts, or the time until its second half.
}

// plan is all steps in the order of time. A seed determines it.
type plan []step

// newPlan plans terminations, one per interval on average, and faults among them.
func newPlan(seed uint64, terminations int, each time.Duration) plan {
	p := planner{random: rand.New(rand.NewPCG(seed, 0))}
	p.terminations(terminations, each)
	end := p.now
	p.every(4*time.Second, 11*time.Second, end, p.endAgent)
	p.every(time.Second, 5*time.Second, end, func() { p.add(fault, p.span(2, 6)) })
	p.every(3*time.Second, 12*time.Second, end, func() {
		p.add(p.one(duplicate, reorder, delay), p.span(2, 8))
	})
	p.outages(end)
	slices.SortStableFunc(p.steps, func(x, y step) int { return cmp.Compare(x.At, y.At) })
	return p.steps
}

// planner makes a plan.
type planner struct {
	random *rand.Rand
	now    time.Duration
	steps  plan
}

func (p *planner) add(what string, lasts time.Duration) {
	p.steps = append(p.steps, step{At: p.now, What: what, Pick: p.random.Uint64(), For: lasts})
}

// span returns a random duration between two numbers of seconds.
func (p *planner) span(least, most float64) time.Duration {
	seconds := least + p.random.Float64()*(most-least)
	return time.Duration(seconds * float64(time.Second)).Round(10 * time.Millisecond)
}

func (p *planner) one(of ...string) string { return of[p.random.IntN(len(of))] }

// terminations plans terminations in groups, with decoys among them; the mean interval is each.
func (p *planner) terminations(n int, each time.Duration) {
	kinds, whole := p.kinds(n), time.Duration(n)*each
	for len(kinds) > 0 {
		burst := min(1+p.random.IntN(10), len(kinds))
		for _, what := range kinds[:burst] {
			p.add(what, p.lasts(what))
			p.now += p.span(0, 0.2)
		}
		kinds = kinds[burst:]
		p.now += time.Duration(float64(burst) * float64(each) * (0.5 + p.random.Float64()))
	}
	for i := range p.steps {
		p.steps[i].At = time.Duration(float64(p.steps[i].At) / float64(p.now) * float64(whole))
	}
	p.now = whole
}

// kinds returns the kinds of n terminations, shuffled: some of every kind if n is large enough, and one
// decoy for each eight of them.
func (p *planner) kinds(n int) []string {
	weights := []string{
		scaleIn, scaleIn, scaleIn, scaleIn, scaleIn, scaleIn, lost, lost, twice,
		spot, spot, spotDuringDrain, spotDuringDrain, rebalance, scheduled, scheduled, reservation, console,
	}
	decoys := []string{canceled, forgedSpot, forgedHook, foreignMessage}
	var kinds []string
	for i := range n {
		kinds = append(kinds, weights[i%len(weights)])
		if i%8 == 0 {
			kinds = append(kinds, decoys[i/8%len(decoys)])
		}
	}
	p.random.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
	return kinds
}

// lasts returns the notice, or the time until the second half.
func (p *planner) lasts(what string) time.Duration {
	switch what {
	case spot, spotDuringDrain:
		return p.span(20, 30)
	case reservation: // Only the message says when it ends: an end within less than half of the notice is not believed.
		return p.span(62, 75)
	case rebalance, scheduled:
		return p.span(8, 20)
	case canceled:
		return p.span(1, 6)
	case twice:
		return p.span(0.5, 4)
	}
	return 0
}

// every plans something repeatedly, at random intervals.
func (p *planner) every(least, most, end time.Duration, do func()) {
	for p.now = p.span(1, most.Seconds()); p.now < end; p.now += p.span(least.Seconds(), most.Seconds()) {
		do()
	}
}

// endAgent plans the end of an agent, which is restarted some time later.
func (p *planner) endAgent() {
	switch random := p.random.IntN(20); {
	case random == 0:
		p.add(killAll, p.span(0, 3))
	case random < 12:
		p.add(killAgent, p.span(0, 5))
	default:
		p.add(termAgent, p.span(0, 5))
	}
}

// outages plans outages of the API server: one, and one more for each two minutes. They are short in a short
// plan, because the controllers may need as long again to recover.
func (p *planner) outages(end time.Duration) {
	n := 1 + int(end/(2*time.Minute))
	for i := range n {
		share := (float64(i) + 0.3 + 0.5*p.random.Float64()) / float64(n)
		p.now = time.Duration(share * float64(end))
		p.add(stopAPI, p.span(4, 4+min(8, end.Seconds()/30)))
	}
}

// terminating counts the planned terminations by kind.
func (p plan) terminating() map[string]int {
	kinds := map[string]int{}
	for _, a := range p {
		if isTermination(a.What) {
			kinds[a.What]++
		}
	}
	return kinds
}

// isTermination reports whether a step terminates an instance.
func isTermination(what string) bool {
	switch what {
	case scaleIn, lost, twice, spot, spotDuringDrain, rebalance, scheduled, reservation, console:
		return true
	}
	return false
}
