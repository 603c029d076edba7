package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/node-drainer/node-drainer/internal/retry"
	"github.com/node-drainer/node-drainer/pkg/autoscaling"
	"github.com/node-drainer/node-drainer/pkg/drain"
	"github.com/node-drainer/node-drainer/pkg/event"
	"github.com/node-drainer/node-drainer/pkg/node"
)

// swept is what earlier sweeps and drains have left to know. The zero value is ready.
type swept struct {
	mu        sync.Mutex
	ended     map[string]ended       // by UID: drains of this process
	healthy   map[string]time.Time   // since when, by UID: marked nodes whose instances sweeps find healthy
	completed map[string]bool        // keys of lifecycle actions whose instances may still wait for other hooks
	silent    map[string]event.Event // by key: taken up by a sweep, and no message has told of it
}

// begin forgets what only an unbroken row of sweeps can tell: another process may have led meanwhile.
func (s *swept) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.healthy, s.completed, s.silent = nil, nil, nil
}

// found notes that no message has told of the event, which is taken up now.
func (s *swept) found(e event.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.silent == nil {
		s.silent = map[string]event.Event{}
	}
	s.silent[key(e)] = e
}

// told notes that a message has told of the event.
func (s *swept) told(e event.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.silent, key(e))
}

// untold returns how many events have ended that sweeps had taken up, and that no message has told of up to
// now. It forgets them. A message that came while the event was in hand was late, and is not lost.
func (s *swept) untold(inHand func(event.Event) bool) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := len(s.silent)
	maps.DeleteFunc(s.silent, func(_ string, e event.Event) bool { return !inHand(e) })
	return before - len(s.silent)
}

func (s *swept) complete(e event.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.completed == nil {
		s.completed = map[string]bool{}
	}
	s.completed[key(e)] = true
}

func (s *swept) isCompleted(e event.Event) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.completed[key(e)]
}

// open returns those of the events whose lifecycle actions have not been completed here. It forgets actions
// of instances that wait no more.
func (s *swept) open(waiting []event.Event) []event.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	completed := map[string]bool{}
	open := slices.DeleteFunc(waiting, func(e event.Event) bool {
		done := s.completed[key(e)]
		if done {
			completed[key(e)] = true
		}
		return done
	})
	s.completed = completed
	return open
}

// ended is a drain that has come to its end.
type ended struct {
	since  time.Time // when the node was marked for it
	report drain.Report
}

func (s *swept) drained(uid string, since time.Time, report drain.Report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended == nil {
		s.ended = map[string]ended{}
	}
	s.ended[uid] = ended{since, report}
}

// drain returns what the last drain of a node came to that has been marked since then, if this process has
// drained it. A mark of another time is that of another termination: meanwhile pods may have come.
func (s *swept) drain(uid string, since time.Time) (report drain.Report, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.ended[uid]
	return e.report, ok && e.since.Equal(since)
}

// restored notes that pods may come to the node again.
func (s *swept) restored(uid string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.ended, uid)
}

func (s *swept) isDrained(n node.Node) bool {
	_, ok := s.drain(n.UID, n.Mark.Since)
	return ok
}

// confirm notes which nodes are healthy now, and returns those that every sweep has found so for long enough.
// It forgets nodes that are no more.
func (s *swept) confirm(healthy, all []node.Node, enough time.Duration) []node.Node {
	s.mu.Lock()
	defer s.mu.Unlock()
	since := map[string]time.Time{}
	for _, n := range healthy {
		if since[n.UID] = s.healthy[n.UID]; since[n.UID].IsZero() {
			since[n.UID] = time.Now()
		}
	}
	s.healthy = since
	long := slices.DeleteFunc(slices.Clone(healthy), func(n node.Node) bool {
		return time.Since(since[n.UID]) < enough
	})
	known := map[string]ended{}
	for _, n := range all {
		if e, ok := s.ended[n.UID]; ok {
			known[n.UID] = e
		}
	}
	s.ended = known
	return long
}

// Run takes up what no message tells of, at once and then after every SweepInterval, until ctx ends: messages
// are lost, queues are emptied, and policies are broken. It returns when all of that has ended.
func (a *Agent) Run(ctx context.Context) error {
	a.swept.begin()
	var taken sync.WaitGroup
	defer taken.Wait()
	for delay := firstRetry; ; {
		wait := a.cfg.ResyncInterval
		if err := a.sweep(ctx, &taken); err == nil {
			delay = firstRetry
		} else {
			a.observer.ResyncFailed(err)
			wait = min(delay, wait)
			delay = min(2*delay, a.cfg.ResyncInterval)
		}
		if !retry.Sleep(ctx, wait) {
			return context.Cause(ctx)
		}
	}
}

// sweep looks once at every instance of the cluster. What it takes up goes on in taken.
func (a *Agent) sweep(ctx context.Context, taken *sync.WaitGroup) error {
	nodes := a.nodes.All()
	ids := make([]string, len(nodes))
	for i, n := range nodes {
		ids[i] = n.InstanceID
	}
	members, err := a.hooks.Members(ctx, a.cfg.ClusterName, ids)
	if err != nil {
		return err
	}
	waiting, err := a.waiting(ctx, members)
	found, untold := 0, a.swept.untold(a.hand.has)
	for _, e := range a.swept.open(waiting) {
		if !a.hand.has(e) {
			found++
			a.swept.found(e)
			a.takeUp(ctx, e, taken)
		}
	}
	a.observer.Resynced(len(members), found, untold)
	a.unprotect(ctx)
	return errors.Join(err, a.revisit(ctx, nodes, members, taken))
}

// takeUp serves an event that no message told of.
func (a *Agent) takeUp(ctx context.Context, e event.Event, taken *sync.WaitGroup) {
	taken.Go(func() {
		if err := a.handle(ctx, e); err != nil && ctx.Err() == nil {
			a.observer.ResyncFailed(err)
		}
	})
}

// waiting returns an event for each of our hooks that holds an instance.
func (a *Agent) waiting(ctx context.Context, members map[string]autoscaling.Member) ([]event.Event, error) {
	var events []event.Event
	var errs []error
	for _, m := range members {
		e, ok := eventOf(m)
		if !ok {
			continue
		}
		if e.Destination == event.PlaceWarmPool {
			isNew, err := a.isNew(ctx, e, m.Group)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			if isNew {
				e.Kind = event.LifecycleLaunching
			}
		}
		own, err := a.ofOwnHooks(ctx, e, m.Group)
		if err != nil {
			errs = append(errs, err)
		}
		events = append(events, own...)
	}
	return events, errors.Join(errs...)
}

// ofOwnHooks is the event once for each of our hooks that may hold its instance.
func (a *Agent) ofOwnHooks(ctx context.Context, e event.Event, group string) ([]event.Event, error) {
	names, err := a.hooks.OwnHooks(ctx, group, transitionOf(e))
	events := make([]event.Event, 0, len(names))
	for _, name := range names {
		e.Hook = event.Hook{Group: group, Name: name}
		events = append(events, e)
	}
	return events, err
}

// isNew tells whether an instance on its way into the warm pool was launched for it, and does not come back
// from the group. Its state does not tell, and the node of a new one may have registered already. But only a
// new one is held by launch hooks: we have answered one, or Auto Scaling says so.
func (a *Agent) isNew(ctx context.Context, e event.Event, group string) (bool, error) {
	if _, isNode := a.nodes.Find(e.InstanceID); !isNode {
		return true, nil
	}
	e.Kind = event.LifecycleLaunching
	launches, err := a.ofOwnHooks(ctx, e, group)
	for _, l := range launches {
		if a.hand.has(l) || a.swept.isCompleted(l) {
			return true, nil
		}
		held, err := a.hooks.IsPending(ctx, action(l))
		if held || err != nil {
			return held, err
		}
	}
	return false, err
}

// eventOf is the event of an instance that a hook holds; none if no hook does. One that is on its way into
// the warm pool is taken to come from the group.
func eventOf(m autoscaling.Member) (event.Event, bool) {
	e := event.Event{Kind: event.LifecycleTerminating, InstanceID: m.InstanceID, At: time.Now()}
	switch m.State {
	case "Pending:Wait":
		e.Kind = event.LifecycleLaunching
	case "Warmed:Pending:Wait":
		e.Destination = event.PlaceWarmPool
	case "Terminating:Wait", "Warmed:Terminating:Wait":
	default:
		return event.Event{}, false
	}
	return e, true
}

func transitionOf(e event.Event) autoscaling.Transition {
	if e.Kind == event.LifecycleLaunching {
		return autoscaling.Launching
	}
	return autoscaling.Terminating
}

// revisit looks after the nodes that bear a mark of ours though no event of their instance is in hand: drains
// that another process has begun go on, and instances that live on get their node back, when sweeps have
// found them healthy for as long as a message is confirmed.
func (a *Agent) revisit(
	ctx context.Context, nodes []node.Node, members map[string]autoscaling.Member, taken *sync.WaitGroup,
) error {
	inHand := a.hand.instances()
	marked := slices.DeleteFunc(slices.Clone(nodes), func(n node.Node) bool {
		return n.Mark.Since.IsZero() || inHand[n.InstanceID] || a.drains.has(n.UID)
	})
	var mu sync.Mutex
	var healthy []node.Node
	err := forEach(marked, func(n node.Node) error {
		e := eventOfMark(n)
		lives, going, err := a.fate(ctx, e, members[n.InstanceID])
		mu.Lock()
		defer mu.Unlock()
		switch {
		case lives:
			healthy = append(healthy, n)
		case going && !n.Mark.Deadline.IsZero() && !a.swept.isDrained(n):
			a.takeUp(ctx, e, taken)
		}
		return err
	})
	long := a.swept.confirm(healthy, nodes, a.cfg.ConfirmTimeout)
	return errors.Join(err, forEach(long, func(n node.Node) error {
		return a.restore(ctx, eventOfMark(n), fmt.Sprintf("instance %s lives on", n.InstanceID))
	}))
}

// eventOfMark is the event that a node was marked for.
func eventOfMark(n node.Node) event.Event {
	return event.Event{
		Kind: event.Kind(n.Mark.Reason), InstanceID: n.InstanceID, At: n.Mark.Since, Deadline: n.Mark.TerminatesAt,
	}
}

// fate tells whether the instance of a marked node is healthy after all, or is going by an event that no hook
// waits for. Neither: its group, or EC2, has it on its way.
func (a *Agent) fate(ctx context.Context, e event.Event, m autoscaling.Member) (lives, going bool, err error) {
	inService := m.State == "InService"
	switch {
	case !inService && !m.State.Unknown():
		return false, false, nil
	case e.Kind == event.LifecycleTerminating && inService:
		return true, false, nil
	case e.Kind == event.LifecycleTerminating: // it has gone, or was detached from its group
		i, err := a.instances.Describe(ctx, e.InstanceID)
		return i.State == "running", false, err
	}
	verdict := a.ask(ctx, e)
	switch {
	case verdict == nil:
		return false, true, nil
	case errors.Is(verdict, errForged):
		return true, false, nil
	case errors.Is(verdict, autoscaling.ErrGone):
		return false, false, nil
	}
	return false, false, verdict
}
