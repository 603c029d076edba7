package agent

import (
	"slices"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/internal/node"
)

// TestWhoWaits: only what can wait waits for a turn, and not if its drain has begun, or another event needs the drain.
func TestWhoWaits(t *testing.T) {
	t.Parallel()
	now := time.Now().Truncate(time.Second)
	p := policy{drainTimeout: time.Hour, confirmTimeout: time.Minute, events: event.Config{
		SpotInterruption: event.Drain, Rebalance: event.Drain, StateChange: event.Drain,
	}}
	for _, tt := range []struct {
		kind event.Kind
		more event.Kind // of another event; empty if there is none
		mark node.Mark
		want bool
	}{
		{kind: event.DrainRequested, want: true},
		{kind: event.RebalanceRecommendation, want: true},
		{kind: event.LifecycleTerminating},
		{kind: event.SpotInterruption},
		{kind: event.StateChange},
		{kind: event.DrainRequested, more: event.LifecycleTerminating},
		{kind: event.RebalanceRecommendation, more: event.LifecycleTerminating},
		{kind: event.DrainRequested, mark: node.Mark{Since: now, Deadline: now.Add(time.Hour)}},
	} {
		s := state{id: "i-1", now: now, registered: true, refusal: refusal{isBusy: true}}
		s.node = node.Node{UID: "uid-1", InstanceID: "i-1", DrainRequested: tt.kind == event.DrainRequested, Mark: tt.mark}
		for _, kind := range []event.Kind{tt.kind, tt.more} {
			r := newReason(event.Event{Kind: kind, InstanceID: "i-1", At: now}, now)
			if kind == event.LifecycleTerminating {
				r.Hook = event.Hook{Group: "workers", Name: "drain"}
			}
			r.confirmed, r.limit.known, r.done = now, now, r.done.with(readOwner)
			r.spot.decided = true
			if kind != "" {
				s.reasons = append(s.reasons, r)
			}
		}
		out := s.decide(p)
		if got := !slices.ContainsFunc(out.steps, func(st step) bool { return st.do == cordon }); got != tt.want {
			t.Errorf("%s and %q: waits %v, want %v: %+v", tt.kind, tt.more, got, tt.want, out.steps)
		}
		if tt.want && (!out.postponed.Busy || out.again.IsZero()) {
			t.Errorf("%s: postponed %+v, again at %v", tt.kind, out.postponed, out.again)
		}
	}
}
