package awsim

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"
)

// Action is the record of one lifecycle action: one instance waiting for one hook.
type Action struct {
	Group      string `json:"group"`
	Hook       string `json:"hook"`
	InstanceID string `json:"instanceId"`
	Token      string `json:"token"`
	Transition string `json:"transition"`
	// Origin and Destination are EC2, AutoScalingGroup or WarmPool.
	Origin      string    `json:"origin"`
	Destination string    `json:"destination"`
	StartedAt   time.Time `json:"startedAt"`
	// Sent counts the messages about the action, copies included.
	Sent       int         `json:"sent"`
	Heartbeats []time.Time `json:"heartbeats,omitempty"`
	// HeartbeatsAfterClose counts the heartbeats after the action was closed: each was answered with an error.
	HeartbeatsAfterClose int `json:"heartbeatsAfterClose"`
	// Completions are all attempts, also those that were answered with an error.
	Completions []Completion `json:"completions,omitempty"`
	// ClosedAt is zero while the instance waits.
	ClosedAt time.Time `json:"closedAt,omitzero"`
	ClosedBy ClosedBy  `json:"closedBy,omitempty"`
	// Result is CONTINUE or ABANDON once the action is closed.
	Result string `json:"result,omitempty"`
	// PodsAtClose are the pods on the instance's node just before the action closed; they were listed
	// before the call that closed it was answered.
	PodsAtClose []string `json:"podsAtClose,omitempty"`
	// PodsError is why PodsAtClose is not known. A test must not read it as an empty node.
	PodsError string `json:"podsError,omitempty"`
	// Killed are the pods that were still running when the machine went away.
	Killed []string `json:"killed,omitempty"`
}

// ClosedBy is what ended a lifecycle action.
type ClosedBy string

// What ends a lifecycle action.
const (
	ByCompletion       ClosedBy = "completed"
	ByHeartbeatTimeout ClosedBy = "heartbeat-timeout"
	ByGlobalTimeout    ClosedBy = "global-timeout"
	ByAbandon          ClosedBy = "abandoned"    // Another hook of the instance was, or the launch was given up.
	ByInterruption     ClosedBy = "interrupted"  // EC2 took the machine while the hook was waited for.
	ByDeliveryFailure  ClosedBy = "undelivered"  // The hook's target could not be reached.
	ByHookDeletion     ClosedBy = "hook-deleted" // By DeleteLifecycleHook.
)

// Completion is one call of CompleteLifecycleAction.
type Completion struct {
	At time.Time `json:"at"`
	// By is "token" or "instance": how the caller named the action.
	By     string `json:"by"`
	Result string `json:"result"`
	Err    string `json:"err,omitempty"`
}

// Ledger is every lifecycle action so far, the oldest first. The caller owns it.
func (s Lifecycle) Ledger() []Action {
	s.asg.mu.Lock()
	defer s.asg.mu.Unlock()
	return s.asg.ledger()
}

// WaitLedger blocks until done returns true for the ledger. done may keep its argument; it must not call the
// Server.
func (s Lifecycle) WaitLedger(ctx context.Context, done func([]Action) bool) error {
	if err := s.asg.wait(ctx, func() bool { return done(s.asg.ledger()) }); err != nil {
		return fmt.Errorf("awsim: wait for the ledger: %w", err)
	}
	return nil
}

// ledger needs mu.
func (a *engine) ledger() []Action {
	out := make([]Action, 0, len(a.actions))
	for _, act := range a.actions {
		out = append(out, act.clone())
	}
	slices.SortStableFunc(out, func(x, y Action) int {
		return cmp.Or(x.StartedAt.Compare(y.StartedAt), cmp.Compare(x.Hook, y.Hook))
	})
	return out
}

// WaitClosed blocks until the instance has had a lifecycle action and none is open, and returns the one
// that began last. What the machine's end killed is known only later: see WaitState with "Terminated".
func (s Lifecycle) WaitClosed(ctx context.Context, instanceID string) (Action, error) {
	var last *action
	err := s.asg.wait(ctx, func() bool {
		last = nil
		inst := s.asg.instances[instanceID]
		if inst == nil || slices.ContainsFunc(inst.actions, (*action).open) {
			return false
		}
		if n := len(inst.actions); n > 0 {
			last = inst.actions[n-1]
		}
		return last != nil
	})
	if err != nil {
		return Action{}, fmt.Errorf("awsim: lifecycle actions of %s not closed: %w", instanceID, err)
	}
	s.asg.mu.Lock()
	defer s.asg.mu.Unlock()
	return last.clone(), nil
}

// WaitState blocks until the instance is in the lifecycle state, one of Auto Scaling's own words, or has been
// in it since the call began: a state that lasts a moment only is not missed.
func (s AutoScaling) WaitState(ctx context.Context, instanceID, state string) error {
	seen, now := -1, "unknown"
	err := s.asg.wait(ctx, func() bool {
		inst, ok := s.asg.instances[instanceID]
		if !ok {
			seen = 0
			return false
		}
		now = inst.state()
		if seen < 0 {
			seen = len(inst.states) - 1
		}
		return slices.ContainsFunc(inst.states[seen:], func(p passed) bool { return p.state == state })
	})
	if err != nil {
		return fmt.Errorf("awsim: %s is %s, not %s: %w", instanceID, now, state, err)
	}
	return nil
}

func (act *action) clone() Action {
	out := act.Action
	out.Heartbeats = slices.Clone(out.Heartbeats)
	out.Completions = slices.Clone(out.Completions)
	out.PodsAtClose = slices.Clone(out.PodsAtClose)
	out.Killed = slices.Clone(out.Killed)
	return out
}
