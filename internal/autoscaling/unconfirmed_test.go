package autoscaling

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
)

// forged returns the action of a message that may be forged.
func forged(n int) Action {
	return Action{Group: groupName, Hook: fmt.Sprintf("forged-%d", n), InstanceID: fmt.Sprintf("i-%017x", n), InTurn: true}
}

// TestHoldUnconfirmed: the timeout of a hook is read for a confirmed action only.
func TestHoldUnconfirmed(t *testing.T) {
	unconfirmed := action
	unconfirmed.InTurn = true
	for name, count := range map[string]int{"the timeout of the hook is not known": 40, "the timeout of the hook is known": 20} {
		t.Run(name, inBubble(func(t *testing.T, f *fakeAPI, h *Hooks) {
			if count == 20 {
				_, _ = h.Timing(t.Context(), action)
			}
			if err := h.Hold(t.Context(), unconfirmed, waits(10*time.Minute)); err != nil {
				t.Error(err)
			}
			if n := len(f.called("beat")); n < count || n > count*2-count/4 {
				t.Fatalf("%d heartbeats", n)
			}
		}))
	}
	t.Run("the action ends", inBubble(func(t *testing.T, f *fakeAPI, h *Hooks) {
		f.state = func(context.Context, string) (string, error) { return "Terminating:Proceed", nil }
		f.beat = func(context.Context, int, *sdk.RecordLifecycleActionHeartbeatInput) error { return errNotActive }
		if err := h.Hold(t.Context(), unconfirmed, waits(time.Hour)); !errors.Is(err, ErrGone) {
			t.Errorf("got %v", err)
		}
	}))
}

// TestFlood: any number of actions that are not confirmed cost a bounded number of calls, and the heartbeats of one that
// is are never late.
func TestFlood(t *testing.T) {
	const actions, d = 1000, time.Minute
	bubble(t, func(t *testing.T, f *fakeAPI, h *Hooks) {
		confirmed := 0
		f.beat = func(_ context.Context, _ int, in *sdk.RecordLifecycleActionHeartbeatInput) error {
			if *in.LifecycleHookName == action.Hook {
				confirmed++
			}
			return nil
		}
		ctx, cancel := context.WithTimeout(t.Context(), d)
		defer cancel()
		var flood sync.WaitGroup
		for i := range actions {
			flood.Go(func() {
				_ = h.Hold(ctx, forged(i), func(ctx context.Context) error {
					for ctx.Err() == nil {
						_, _ = h.MemberInTurn(ctx, forged(i).InstanceID)
						_, _ = h.IsPending(ctx, forged(i))
						_, _ = h.NotifiesOthers(ctx, groupName, forged(i).Hook)
						_ = waits(rand.N(2 * time.Second))(ctx)
					}
					return nil
				})
			})
		}
		time.Sleep(10 * time.Second)
		before := confirmed
		if err := h.Hold(t.Context(), action, waits(10*time.Second)); err != nil || confirmed != before+1 {
			t.Errorf("%v; %d heartbeats for a confirmed action, want 1 at once", err, confirmed-before)
		}
		flood.Wait()
		answers := 0
		for _, ids := range f.asked {
			answers += len(ids)
		}
		if least := describeMax * askRate * 30; answers < least {
			t.Errorf("%d questions were asked in %v, want %d at least", answers, d, least)
		}
		for call, most := range map[string]int{
			"beat": unconfirmedBurst + unconfirmedRate*60 + 1, "state": askBurst + askRate*60, "hooks": 2 + 60/10,
		} {
			if n := len(f.called(call)); n > most {
				t.Errorf("%d calls of %q in %v, want %d at most", n, call, d, most)
			}
		}
		time.Sleep(time.Minute) // descriptions that were asked for in turn
	})
}

// TestMissingHook: a hook that does not exist is looked for once in a while, and found soon after it was created.
func TestMissingHook(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeAPI, h *Hooks) {
		created := f.start.Add(time.Second)
		f.hooks = func(context.Context, int) ([]types.LifecycleHook, error) {
			hooks := []types.LifecycleHook{lifecycleHook("drain", terminating, 30), lifecycleHook("new", terminating, 90)}
			if time.Now().Before(created) {
				hooks = hooks[:1]
			}
			return hooks, nil
		}
		for range 1000 {
			if _, err := h.Timing(t.Context(), forged(1)); !errors.Is(err, ErrGone) {
				t.Fatalf("got %v, want ErrGone", err)
			}
		}
		if n := len(f.called("hooks")); n != 1 {
			t.Errorf("the hooks were read %d times", n)
		}
		time.Sleep(keepMissing)
		if _, err := h.Timing(t.Context(), Action{Group: groupName, Hook: "new"}); err != nil {
			t.Error(err)
		}
	})
}
