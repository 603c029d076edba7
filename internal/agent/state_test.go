package agent

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/internal/node"
	"github.com/node-drainer/node-drainer/pkg/drain"
)

// TestOwnersAreThoseOfAMark: what a drain knew of the controllers of a node's pods is over when the node was uncordoned.
func TestOwnersAreThoseOfAMark(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for _, tt := range []struct {
		name          string
		since, before time.Time
		uncordoned    string // the UID of the Node
		want          bool
	}{
		{"the same mark", now, time.Time{}, "", true},
		{"the mark has got another time", now.Add(time.Hour), now, "", true},
		{"another mark", now.Add(time.Hour), time.Time{}, "", false},
		{"uncordoned in between", now, time.Time{}, "uid-1", false},
		{"the Node before was uncordoned", now, time.Time{}, "uid-0", true},
	} {
		r := &record{state: state{
			registered: true,
			node:       node.Node{UID: "uid-1", Mark: node.Mark{Since: tt.since}},
			before:     tt.before,
			finished:   finishedDrain{uid: "uid-1", since: now, report: drain.Report{Owners: &drain.Owners{}}},
		}}
		r.forgetMark(node.Node{UID: tt.uncordoned}, tt.uncordoned != "")
		if _, w := r.beginDrain(plan{}); (w.target.Earlier != nil) != tt.want {
			t.Errorf("%s: the owners are %v", tt.name, w.target.Earlier)
		}
	}
}

// TestDeadlineBroughtForward: a drain that has run for long is brought forward once the Node has the earlier deadline, or
// has not got it for a tenth of the time from the first attempt.
func TestDeadlineBroughtForward(t *testing.T) {
	t.Parallel()
	now := time.Now().Truncate(time.Second)
	r := newReason(event.Event{Kind: event.SpotInterruption, InstanceID: "i-1", At: now, Deadline: now.Add(2 * time.Minute)}, now)
	r.confirmed, r.draining, r.spot.decided = now, true, true
	r.limit.known, r.markedUID, r.deadline = now.Add(-10*time.Minute), "uid-1", now.Add(50*time.Minute)
	s := state{now: now, registered: true, reasons: []*reason{r}, running: map[step]time.Time{{do: drainNode, uid: "uid-1"}: now}}
	s.node = node.Node{UID: "uid-1", InstanceID: "i-1", Mark: node.Mark{
		InstanceID: "i-1", Reason: string(r.Kind), Since: r.limit.known, Deadline: r.deadline,
	}}
	p := policy{drainTimeout: time.Hour, events: event.Config{SpotInterruption: event.Drain}}
	first := s.decide(p)
	if !first.drainBy.Equal(r.deadline) || !first.again.Equal(now.Add(12*time.Second)) {
		t.Errorf("drained by %v, and again at %v", first.drainBy.Sub(now), first.again.Sub(now))
	}
	for _, st := range first.steps {
		s.running[st] = now
	}
	s.now = first.again
	if last := s.decide(p); !last.drainBy.Equal(r.Deadline) {
		t.Errorf("after %v drained by %v", s.now.Sub(now), last.drainBy.Sub(now))
	}
}

// TestNodeThatRegistersInADrain: a Node that replaces the one that is being drained has no mark yet. Its drain begins by
// the deadline that it is to have, and never without one.
func TestNodeThatRegistersInADrain(t *testing.T) {
	t.Parallel()
	now := time.Now().Truncate(time.Second)
	r := newReason(event.Event{Kind: event.DrainRequested, InstanceID: "i-1", At: now}, now)
	r.confirmed, r.draining, r.limit.known = now, true, now
	s := state{now: now, registered: true, reasons: []*reason{r}, running: map[step]time.Time{{do: drainNode, uid: "uid-1"}: now}}
	s.node, s.nodeSince = node.Node{UID: "uid-2", InstanceID: "i-1", DrainRequested: true}, now
	p := policy{drainTimeout: time.Hour}
	drains := step{do: drainNode, uid: "uid-2"}
	out := s.decide(p)
	if slices.Contains(out.steps, drains) {
		t.Errorf("the drain begins by %v, before the Node has a mark", out.drainBy)
	}
	for _, st := range out.steps {
		s.running[st] = now
	}
	s.now = out.again
	if out = s.decide(p); !slices.Contains(out.steps, drains) || !out.drainBy.Equal(now.Add(p.drainTimeout)) {
		t.Errorf("the steps are %v, and the Node is drained by %v", out.steps, out.drainBy)
	}
}

// TestLaunchKeepsCancellations: what a launch cancels comes on top of what else is canceled at the same time.
func TestLaunchKeepsCancellations(t *testing.T) {
	t.Parallel()
	now := time.Now()
	at := func(k event.Kind, since time.Duration) *reason {
		r := newReason(event.Event{Kind: k, InstanceID: "i-1", At: now.Add(since)}, now)
		r.confirmed = now
		return r
	}
	launching := at(event.LifecycleLaunching, 0)
	launching.Hook, launching.done = event.Hook{Group: "workers", Name: "launch"}, verbs(0).with(readOwner).with(register)
	launching.limit = limit{known: now, hook: now.Add(time.Hour), earliest: now}
	maintained, older := at(event.ScheduledChange, time.Second), at(event.Alarm, -time.Minute)
	s := state{now: now, registered: true, node: node.Node{UID: "uid-1", Mark: node.Mark{Since: now.Add(-time.Hour)}}}
	s.reasons = []*reason{at(event.ScheduledChangeCanceled, 0), maintained, older, launching}
	p := s.decide(policy{drainTimeout: time.Hour, launch: LaunchConfig{Timeout: time.Hour}})
	if !slices.Contains(p.cancels, maintained) || !slices.Contains(p.cancels, older) || len(p.cancels) != 2 {
		t.Errorf("%d are canceled", len(p.cancels))
	}
}

// TestDecideIsPure: to decide changes nothing, and decides the same again.
func TestDecideIsPure(t *testing.T) {
	t.Parallel()
	now := time.Now()
	p := policy{drainTimeout: time.Hour, confirmTimeout: time.Minute, events: event.Config{
		SpotInterruption: event.Drain, Alarm: event.Cordon, ScheduledChange: event.Replace,
	}}
	of := func(kind event.Kind, change func(*reason)) state {
		e := event.Event{Kind: kind, InstanceID: "i-1", At: now}
		if kind == event.LifecycleTerminating || kind == event.LifecycleLaunching {
			e.Hook = event.Hook{Group: "workers", Name: "drain"}
		}
		r := newReason(e, now)
		change(r)
		n := node.Node{UID: "uid-1", InstanceID: "i-1", DrainRequested: true, Maintenance: now.Add(time.Hour)}
		return state{id: "i-1", now: now.Add(time.Minute), node: n, registered: true, reasons: []*reason{r}}
	}
	confirmed := func(r *reason) { r.confirmed = now }
	limited := func(r *reason) {
		r.confirmed, r.limit.known, r.done = now.Add(time.Minute), now, r.done.with(readOwner)
	}
	for _, kind := range append(event.Kinds(), event.DrainRequested) {
		for name, change := range map[string]func(*reason){
			"new": func(*reason) {}, "confirmed": confirmed, "limited": limited,
			"canceled":     func(r *reason) { r.canceled = true },
			"contradicted": func(r *reason) { r.answer = contradicts("no") },
		} {
			s, twin := of(kind, change), of(kind, change)
			first := s.decide(p)
			if !reflect.DeepEqual(s, twin) {
				t.Errorf("%s, %s: the state was changed", kind, name)
			}
			if again := s.decide(p); !reflect.DeepEqual(first, again) {
				t.Errorf("%s, %s: decided\n%+v, then\n%+v", kind, name, first, again)
			}
			if len(first.steps)+len(first.ends)+len(first.begins)+len(first.cancels) == 0 && first.again.IsZero() {
				t.Errorf("%s, %s: nothing happens any more", kind, name)
			}
		}
	}
}
