package main

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// The ways in which an instance goes.
const (
	scaleIn     = "scale-in"          // Auto Scaling terminates it, and its hooks wait.
	lost        = "lost-message"      // The same, and no message tells of it.
	twice       = "repeated-message"  // The same, and the messages come again.
	spot        = "spot"              // EC2 takes it back after a short notice.
	spotAmid    = "spot-amid-drain"   // The same, a moment after its hooks have begun to wait.
	rebalance   = "rebalance"         // EC2 advises to replace it, and some time later it is.
	scheduled   = "scheduled-change"  // AWS Health announces its retirement, and some time later it is retired.
	reservation = "reservation"       // EC2 takes the capacity that it runs in back.
	console     = "console-terminate" // Somebody terminates it past its group.
)

// What looks like a termination and is none.
const (
	canceled   = "canceled-change" // A scheduled change that is called off.
	forgedSpot = "forged-spot"     // A spot warning for an instance that is no Spot Instance.
	forgedHook = "forged-hook"     // A notification of a hook for an instance in service.
	foreign    = "other-cluster"   // An instance of another cluster, whose message comes to our queue.
)

// What happens to everybody.
const (
	killAgent = "kill -9"
	termAgent = "TERM"
	killAll   = "kill -9 of all"
	stopAPI   = "API server stopped"
	mended    = "part of the control plane that had ended by itself"
	fault     = "fault"
	duplicate = "duplicates"
	reorder   = "reordering"
	delay     = "delay"
)

// act is one thing that is done to the world.
type act struct {
	At   time.Duration // Since the start.
	What string
	Pick uint64        // Decides which one of those that there are: instance, agent, fault.
	For  time.Duration // How long it lasts, or how much later its second half comes.
}

func (a act) String() string {
	return fmt.Sprintf("%6.1fs  %-18s pick %3d  for %v", a.At.Seconds(), a.What, a.Pick%1000, a.For)
}

// plan is all that is done, in the order of time. One seed makes one plan.
type plan []act

// newPlan has so many instances go, one each interval on average.
func newPlan(seed uint64, terminations int, each time.Duration) plan {
	p := planner{dice: rand.New(rand.NewPCG(seed, 0))}
	p.terminations(terminations, each)
	end := p.now
	p.every(4*time.Second, 11*time.Second, end, p.death)
	p.every(time.Second, 5*time.Second, end, func() { p.add(fault, p.span(2, 6)) })
	p.every(3*time.Second, 12*time.Second, end, func() {
		p.add(p.one(duplicate, reorder, delay), p.span(2, 8))
	})
	p.outages(end)
	slices.SortStableFunc(p.acts, func(x, y act) int { return cmp.Compare(x.At, y.At) })
	return p.acts
}

// planner makes a plan.
type planner struct {
	dice *rand.Rand
	now  time.Duration
	acts plan
}

func (p *planner) add(what string, lasts time.Duration) {
	p.acts = append(p.acts, act{At: p.now, What: what, Pick: p.dice.Uint64(), For: lasts})
}

// span is a time between so many seconds.
func (p *planner) span(least, most float64) time.Duration {
	seconds := least + p.dice.Float64()*(most-least)
	return time.Duration(seconds * float64(time.Second)).Round(10 * time.Millisecond)
}

func (p *planner) one(of ...string) string { return of[p.dice.IntN(len(of))] }

// terminations come in bursts, so that their mean distance is each; traps lie among them.
func (p *planner) terminations(n int, each time.Duration) {
	deck, whole := p.deck(n), time.Duration(n)*each
	for len(deck) > 0 {
		burst := min(1+p.dice.IntN(10), len(deck))
		for _, what := range deck[:burst] {
			p.add(what, p.lasts(what))
			p.now += p.span(0, 0.2)
		}
		deck = deck[burst:]
		p.now += time.Duration(float64(burst) * float64(each) * (0.5 + p.dice.Float64()))
	}
	for i := range p.acts {
		p.acts[i].At = time.Duration(float64(p.acts[i].At) / float64(p.now) * float64(whole))
	}
	p.now = whole
}

// deck is so many terminations, some of every kind if they are enough, and one trap for each eight of them,
// shuffled.
func (p *planner) deck(n int) []string {
	weights := []string{
		scaleIn, scaleIn, scaleIn, scaleIn, scaleIn, scaleIn, lost, lost, twice,
		spot, spot, spotAmid, spotAmid, rebalance, scheduled, scheduled, reservation, console,
	}
	traps := []string{canceled, forgedSpot, forgedHook, foreign}
	var deck []string
	for i := range n {
		deck = append(deck, weights[i%len(weights)])
		if i%8 == 0 {
			deck = append(deck, traps[i/8%len(traps)])
		}
	}
	p.dice.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
	return deck
}

// lasts is the notice that is given, or the time until the second half.
func (p *planner) lasts(what string) time.Duration {
	switch what {
	case spot, spotAmid, reservation:
		return p.span(20, 30)
	case rebalance, scheduled:
		return p.span(8, 20)
	case canceled:
		return p.span(1, 6)
	case twice:
		return p.span(0.5, 4)
	}
	return 0
}

// every does a thing again and again, with a random pause.
func (p *planner) every(least, most, end time.Duration, do func()) {
	for p.now = p.span(1, most.Seconds()); p.now < end; p.now += p.span(least.Seconds(), most.Seconds()) {
		do()
	}
}

// death is the end of an agent, which comes back after a while.
func (p *planner) death() {
	switch dice := p.dice.IntN(20); {
	case dice == 0:
		p.add(killAll, p.span(0, 3))
	case dice < 12:
		p.add(killAgent, p.span(0, 5))
	default:
		p.add(termAgent, p.span(0, 5))
	}
}

// outages of the API server: one, and another one for each two minutes. In a short plan they are short,
// because the controllers may need as long again to come back.
func (p *planner) outages(end time.Duration) {
	n := 1 + int(end/(2*time.Minute))
	for i := range n {
		share := (float64(i) + 0.3 + 0.5*p.dice.Float64()) / float64(n)
		p.now = time.Duration(share * float64(end))
		p.add(stopAPI, p.span(4, 4+min(8, end.Seconds()/30)))
	}
}

// going counts the instances that the plan has go, by kind.
func (p plan) going() map[string]int {
	kinds := map[string]int{}
	for _, a := range p {
		if isGoing(a.What) {
			kinds[a.What]++
		}
	}
	return kinds
}

// isGoing tells whether an instance goes by what is done.
func isGoing(what string) bool {
	switch what {
	case scaleIn, lost, twice, spot, spotAmid, rebalance, scheduled, reservation, console:
		return true
	}
	return false
}
