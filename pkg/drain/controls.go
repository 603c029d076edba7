package drain

import (
	"strings"
	"time"
)

// Controls are what a person asks of the drain of a node while it runs.
type Controls struct {
	HoldUntil time.Time // no pod is evicted before, unless the deadline requires it; zero is no pause
	Deadline  time.Time // in place of the target's, up to its Latest; zero is the target's
	EndNow    bool      // the drain ends, whatever is left
	Wrong     string    // what else was asked for, and is ignored; empty if nothing was
}

// readControls reads the controls of the node, and reports those that have changed.
func (r *run) readControls() {
	if r.drainer.rules.Controls == nil {
		return
	}
	c := r.drainer.rules.Controls(r.node.Name)
	if !c.Deadline.IsZero() && c.Deadline.Before(r.node.Since.Truncate(time.Second)) {
		c.Deadline = time.Time{}
		c.Wrong = strings.TrimPrefix(c.Wrong+"; the deadline that it asks for is before the beginning of the drain", "; ")
	}
	if c == r.controls {
		return
	}
	r.controls = c
	if r.waiter.control(c.Deadline) {
		r.removals.requeue()
		r.removals.handOvers.cancel()
	}
	r.drainer.observer.DrainControlled(r.target(), c)
}
