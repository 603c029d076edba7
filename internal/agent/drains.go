package agent

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/node-drainer/node-drainer/pkg/drain"
)

// drains are those under way, by the UID of their node: one for all events of an instance. The zero value is
// ready.
type drains struct {
	mu sync.Mutex
	by map[string]*shared
}

// shared is a drain that goes on for as long as one of those who share it stays.
type shared struct {
	deadline time.Time
	tighter  chan time.Time // brings the drain an earlier deadline
	sharers  int
	cancel   context.CancelCauseFunc
	done     chan struct{} // closed when report and err are set
	report   drain.Report
	err      error
}

// errAlone: everybody who shared a drain has left it.
var errAlone = errors.New("no event needs the drain any more")

// drainFunc drains a node by a deadline, and by those that tighter brings if they are earlier.
type drainFunc func(ctx context.Context, deadline time.Time, tighter <-chan time.Time) (drain.Report, error)

// share joins the drain of a node, or begins it, and returns what it comes to. A deadline that is earlier
// than that of the drain tightens it. When ctx ends the drain goes on for the others; if there are none it
// has ended when share returns.
func (d *drains) share(
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

func (d *drains) join(ctx context.Context, uid string, deadline time.Time, run drainFunc) *shared {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s := d.by[uid]; s != nil {
		s.sharers++
		s.tighten(deadline)
		return s
	}
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	s := &shared{
		deadline: deadline, tighter: make(chan time.Time, 1), sharers: 1, cancel: cancel, done: make(chan struct{}),
	}
	if d.by == nil {
		d.by = map[string]*shared{}
	}
	d.by[uid] = s
	go func() {
		defer close(s.done)
		s.report, s.err = run(ctx, deadline, s.tighter)
		d.mu.Lock()
		defer d.mu.Unlock()
		d.forget(uid, s)
	}()
	return s
}

// tighten sends the drain an earlier deadline; one that it has not read yet makes room for it.
func (s *shared) tighten(deadline time.Time) {
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

func (d *drains) leave(uid string, s *shared) {
	d.mu.Lock()
	s.sharers--
	last := s.sharers == 0
	if last {
		d.forget(uid, s) // who comes now begins anew
	}
	d.mu.Unlock()
	if last {
		s.cancel(errAlone)
		<-s.done
	}
}

// forget needs mu.
func (d *drains) forget(uid string, s *shared) {
	if d.by[uid] == s {
		delete(d.by, uid)
	}
}

// has tells whether the node is being drained.
func (d *drains) has(uid string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.by[uid] != nil
}
