package autoscaling

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/node-drainer/node-drainer/internal/cloud"
)

// A thousand instances may terminate at once, and Auto Scaling throttles all callers of an account and Region together.
// So the heartbeats and completions of confirmed actions are paced. AWS does not document what it allows.
const (
	// paceRate and paceBurst bound the calls a second that can wait.
	paceRate, paceBurst = 9, 10
	// urgentRate and urgentBurst bound those that cannot: first heartbeats, of actions that may end at any time, and
	// those of actions that end soon.
	urgentRate, urgentBurst = 50, 50
	// slowest is the part of its rates that a pace keeps when Auto Scaling throttles, and recovery the time in which it
	// gets all of them back. Calls that are throttled within a second count once.
	slowest, recovery = 0.1, 30 * time.Second
)

// pace has calls wait for their turn.
type pace struct {
	urgent *rate.Limiter

	mu      sync.Mutex
	normal  *rate.Limiter
	waiting []*turn // in the order in which they get their turns
	arrived int
	timer   *time.Timer // runs while calls wait
	factor  float64     // of the rates; 1 unless Auto Scaling has throttled calls lately
	changed time.Time   // when the factor was set
	halved  time.Time   // when it was halved
}

// rank is the order in which calls that can wait get their turns.
type rank int

const (
	completion rank = iota // ends the heartbeats of its action
	heartbeat
)

// turn is a call that waits.
type turn struct {
	rank    rank
	until   time.Time
	number  int // in the order of arrival
	granted chan struct{}
}

func (t *turn) compare(other *turn) int {
	return cmp.Or(cmp.Compare(t.rank, other.rank), t.until.Compare(other.until), cmp.Compare(t.number, other.number))
}

func newPace() *pace {
	return &pace{
		normal: rate.NewLimiter(paceRate, paceBurst), urgent: rate.NewLimiter(urgentRate, urgentBurst), factor: 1,
	}
}

// wait returns nil when the call may be made. From the time until on it cannot wait any longer, and is urgent. The
// error is the cause of ctx's end.
func (p *pace) wait(ctx context.Context, r rank, until time.Time) error {
	left := time.Until(until)
	if left <= 0 {
		return p.waitUrgently(ctx)
	}
	t := p.add(r, until)
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-t.granted:
		return nil
	case <-timer.C:
	case <-ctx.Done():
	}
	switch wasGranted := p.remove(t); {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case wasGranted:
		return nil
	}
	return p.waitUrgently(ctx)
}

func (p *pace) waitUrgently(ctx context.Context) error {
	if p.urgent.Wait(ctx) != nil { // ctx has ended, or would end before
		<-ctx.Done()
		return context.Cause(ctx)
	}
	return nil
}

func (p *pace) add(r rank, until time.Time) *turn {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.arrived++
	t := &turn{rank: r, until: until, number: p.arrived, granted: make(chan struct{})}
	i, _ := slices.BinarySearchFunc(p.waiting, t, (*turn).compare)
	p.waiting = slices.Insert(p.waiting, i, t)
	if p.timer == nil {
		p.grant()
	}
	return t
}

// grant gives turns to the first calls that wait, as many as the rate allows now, and continues later with the others.
// It needs mu.
func (p *pace) grant() {
	p.timer = nil
	for len(p.waiting) > 0 {
		if !p.normal.Allow() {
			r := p.normal.Reserve()
			pause := r.Delay()
			r.Cancel()
			p.timer = time.AfterFunc(max(pause, time.Millisecond), func() {
				p.mu.Lock()
				defer p.mu.Unlock()
				p.recover()
				p.grant()
			})
			return
		}
		close(p.waiting[0].granted)
		p.waiting = slices.Delete(p.waiting, 0, 1)
	}
}

// remove removes a call that does not wait any longer, and reports whether it has got its turn meanwhile.
func (p *pace) remove(t *turn) (wasGranted bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i, found := slices.BinarySearchFunc(p.waiting, t, (*turn).compare)
	if found {
		p.waiting = slices.Delete(p.waiting, i, i+1)
	}
	return !found
}

// round is how long n calls that can wait take.
func round(n int64) time.Duration { return time.Duration(n) * time.Second / paceRate }

// answered halves the rates if Auto Scaling has throttled the call.
func (p *pace) answered(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.recover()
	if cloud.IsThrottle(err) && time.Since(p.halved) >= time.Second {
		p.set(max(p.factor/2, slowest))
		p.halved = p.changed
	}
}

// recover lets the rates return to what they were. It needs mu.
func (p *pace) recover() {
	if p.factor < 1 {
		p.set(min(1, p.factor+float64(time.Since(p.changed))/float64(recovery)))
	}
}

func (p *pace) set(factor float64) {
	p.factor, p.changed = factor, time.Now()
	p.normal.SetLimit(rate.Limit(factor * paceRate))
	p.urgent.SetLimit(rate.Limit(factor * urgentRate))
}

// beat is a heartbeat.
type beat struct {
	at   time.Time
	hook Timing
}

// isOver reports whether the heartbeat keeps its action pending no longer.
func (b beat) isOver() bool { return time.Since(b.at) > b.hook.Heartbeat }

// beats are the last heartbeats of actions. The zero value is ready.
type beats struct {
	mu     sync.Mutex
	last   map[Action]beat
	tidyAt int // how many there are when those that are over are removed
}

func (b *beats) sent(a Action, one beat) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.last == nil {
		b.last = map[Action]beat{}
	}
	if len(b.last) >= b.tidyAt {
		maps.DeleteFunc(b.last, func(_ Action, one beat) bool { return one.isOver() })
		b.tidyAt = 2*len(b.last) + 100
	}
	b.last[a.name()] = one
}

// of returns the last heartbeat that this process has sent for the action.
func (b *beats) of(a Action) (one beat, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	one, ok = b.last[a.name()]
	return one, ok
}

func (b *beats) forget(a Action) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.last, a.name())
}
