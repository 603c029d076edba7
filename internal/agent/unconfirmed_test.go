package agent_test

import (
	"cmp"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/internal/agent"
	"github.com/node-drainer/node-drainer/internal/autoscaling"
	"github.com/node-drainer/node-drainer/pkg/queue"
)

// whilePending runs work until Auto Scaling ends the action.
func (f autoScaling) whilePending(ctx context.Context, a autoscaling.Action, work func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if at, ok := f.givesUp[a.Hook]; ok {
		defer time.AfterFunc(at-f.after(), func() { cancel(fmt.Errorf("%w: given up", autoscaling.ErrGone)) }).Stop()
	}
	return work(ctx)
}

func (f autoScaling) MemberInTurn(ctx context.Context, instanceID string) (autoscaling.Member, error) {
	state, err := f.State(ctx, instanceID)
	return autoscaling.Member{Group: cmp.Or(f.memberOf, group), InstanceID: instanceID, State: state}, err
}

// TestContradictedForLong: a message is contradicted for the timeout in all, since what it reports.
func TestContradictedForLong(t *testing.T) {
	t.Parallel()
	for age, want := range map[time.Duration]time.Duration{
		time.Minute: time.Minute, 100 * time.Second: 20 * time.Second, 118 * time.Second: 5 * time.Second, time.Hour: 5 * time.Second,
	} {
		each(t, age.String(), inState(inService), func(t *testing.T, f *fixture) {
			mustHandle(t, f, f.agent(), func(f *fixture) queue.Message { return message("drain", f.start.Add(-age)) })
			f.wantOutcome(t, agent.Unconfirmed)
			if f.after() != want {
				t.Errorf("dropped after %v, want %v", f.after(), want)
			}
		})
	}
}

// TestHoldUnconfirmed: an action is held if Auto Scaling does not answer for five seconds, and not before, until it answers.
// The fifth try is 3.75 to 4.5 s after the first, the sixth at least 7.75 s: what is answered after 3 s is read in time.
func TestHoldUnconfirmed(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		silent, held time.Duration
	}{{0, -1}, {3 * time.Second, -1}, {10 * time.Minute, 5 * time.Second}} {
		given := stateIs(silent(tt.silent, terminating))
		each(t, tt.silent.String(), given, func(t *testing.T, f *fixture) {
			mustHandle(t, f, f.agent(), termination)
			if at := f.when("hold unconfirmed drain"); at != tt.held {
				t.Errorf("held after %v, want %v; steps %q", at, tt.held, f.did(""))
			}
			f.wantOutcome(t, agent.Drained)
		})
	}
}

// TestConfirmedByHeartbeat: without the permission to describe instances an action is confirmed by a heartbeat after ten
// seconds, and not when the next attempt to describe the instance is due.
func TestConfirmedByHeartbeat(t *testing.T) {
	t.Parallel()
	given := with(stateIs(silent(never, terminating)), pendingIs(always(true)))
	each(t, "denied", given, func(t *testing.T, f *fixture) {
		mustHandle(t, f, f.agent(), termination)
		if at := f.when("hold drain"); at != 10*time.Second {
			t.Errorf("confirmed after %v; steps %q", at, f.did(""))
		}
		f.wantOutcome(t, agent.Drained)
	})
}

// TestForgedGroup: a message that names another group than the instance's own is contradicted before anything is asked
// about that group, which may not exist.
func TestForgedGroup(t *testing.T) {
	t.Parallel()
	asked := fails("hooks of drain", 1, errOutage)
	another := func(f *fixture) { f.memberOf = "another" }
	each(t, "termination", with(asked, another), func(t *testing.T, f *fixture) {
		mustHandle(t, f, f.agent(), termination)
		f.wantSteps(t)
		f.wantOutcome(t, agent.Unconfirmed)
		if f.next("hooks of drain") == nil || f.after() != time.Minute {
			t.Errorf("the hooks of the group were read, or the message was dropped after %v", f.after())
		}
	})
	each(t, "launch", with(launching, another), func(t *testing.T, f *fixture) {
		mustHandle(t, f, f.agent(), launchTo(""))
		f.wantSteps(t)
		if f.observed("launch ended unconfirmed") != 1 {
			t.Errorf("facts %q", f.facts)
		}
	})
}
