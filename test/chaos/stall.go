package main

import (
	"context"
	"time"
)

const (
	// tick is how often we look at the clock.
	tick = 250 * time.Millisecond
	// stall is how late a look must be for the whole machine to have stood still.
	stall = time.Second
)

// clock records when the whole machine stood still, as one that is virtual may: nothing in it is to blame for
// what came late then. The wall clock tells that, for the monotonic one may have stood still, too.
func (p *play) clock(ctx context.Context) {
	for last := time.Now().Round(0); pause(ctx, tick); {
		now := time.Now().Round(0)
		if now.Sub(last) > tick+stall {
			p.mu.Lock()
			p.stalls = append(p.stalls, span{last, now})
			p.mu.Unlock()
		}
		last = now
	}
}
