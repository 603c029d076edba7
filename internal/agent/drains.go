package agent

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/node-drainer/node-drainer/internal/node"
	"github.com/node-drainer/node-drainer/pkg/drain"
)

// sharedDrains are the drains that are running, one for all events of an instance. The zero value is ready.
type sharedDrains struct {
	mu       sync.Mutex
	running  map[string]*sharedDrain // by the UID of the node
	expected map[string]int          // by instance: the events that cordon its node to drain it
}

// sharedDrain runs until its last caller has returned.
type sharedDrain struct {
	deadline time.Time
	tighter  chan time.Time // takes earlier deadlines
	callers  int
	cancel   context.CancelCauseFunc
	done     chan struct{} // closed when report and err are set
	report   drain.Report
	err      error
}

// errNoCaller: no event needs the drain anymore.
var errNoCaller = errors.New("no event needs the drain anymore")

// drainFunc drains a node until a deadline, or until an earlier one that it receives from tighter.
type drainFunc func(ctx context.Context, deadline time.Time, tighter <-chan time.Time) (drain.Report, error)

// do joins the drain of the node, or starts it, and returns its result. An earlier deadline than the drain's
// tightens it. When ctx ends, the drain continues for the other callers; the last one waits until it has
// stopped.
func (d *sharedDrains) do(
	ctx context.Context, uid string, deadline time.Time, run drainFunc,
) (drain.Report, error) {
	s := d.join(ctx, uid, deadline, run)
	defer d.leave(uid, s)
	select {
	case <-s.done:
		return s.report, s.err
	case <-ctx.Done():
		return drain.Report{}, context.Cause(ctx)
	}
}

func (d *sharedDrains) join(ctx context.Context, uid string, deadline time.Time, run drainFunc) *sharedDrain {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s := d.running[uid]; s != nil {
		s.callers++
		s.tighten(deadline)
		return s
	}
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	s := &sharedDrain{
		deadline: deadline, tighter: make(chan time.Time, 1), callers: 1, cancel: cancel, done: make(chan struct{}),
	}
	if d.running == nil {
		d.running = map[string]*sharedDrain{}
	}
	d.running[uid] = s
	go func() {
		defer close(s.done)
		s.report, s.err = run(ctx, deadline, s.tighter)
		d.mu.Lock()
		defer d.mu.Unlock()
		d.remove(uid, s)
	}()
	return s
}

// tighten sends the drain an earlier deadline, in place of one that it has not received yet.
func (s *sharedDrain) tighten(deadline time.Time) {
	if !deadline.Before(s.deadline) {
		return
	}
	s.deadline = deadline
	select {
	case <-s.tighter:
	default:
	}
	s.tighter <- deadline
}

func (d *sharedDrains) leave(uid string, s *sharedDrain) {
	d.mu.Lock()
	s.callers--
	last := s.callers == 0
	if last {
		d.remove(uid, s) // later callers start a new drain
	}
	d.mu.Unlock()
	if last {
		s.cancel(errNoCaller)
		<-s.done
	}
}

// remove must be called with mu locked.
func (d *sharedDrains) remove(uid string, s *sharedDrain) {
	if d.running[uid] == s {
		delete(d.running, uid)
	}
}

// has reports whether the node is being drained.
func (d *sharedDrains) has(uid string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.running[uid] != nil
}

// expect records that an event cordons the node of the instance to drain it, until the returned function is called. The
// node may get another UID meanwhile: the cordon follows an instance that registers again.
func (d *sharedDrains) expect(instanceID string) (end func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.expected == nil {
		d.expected = map[string]int{}
	}
	d.expected[instanceID]++
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.expected[instanceID]--; d.expected[instanceID] == 0 {
			delete(d.expected, instanceID)
		}
	}
}

// needs reports whether the node must stay cordoned: it is being drained, or is to be.
func (d *sharedDrains) needs(n node.Node) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.running[n.UID] != nil || d.expected[n.InstanceID] > 0
}
