package rollouts

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/node-drainer/node-drainer/internal/gate"
)

// Gateway is the gate of all processes of a world.
type Gateway struct {
	Fails func() bool // whether it fails now

	mu   sync.Mutex
	last map[string]time.Time // when it has passed for a group
}

// errGate is why a gate that fails does not pass.
var errGate = errors.New("the check has failed")

// Try implements plan.Gate.
func (g *Gateway) Try(_ context.Context, at gate.Point) error {
	if g.Fails() {
		return errGate
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.last == nil {
		g.last = map[string]time.Time{}
	}
	g.last[at.Group] = time.Now()
	return nil
}

// Passed reports whether the gate has passed for an Auto Scaling group a moment ago: within a minute and a poll.
func (g *Gateway) Passed(group string, poll time.Duration) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	at, passed := g.last[group]
	return passed && time.Since(at) <= time.Minute+poll
}
