package autoscaling

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"golang.org/x/time/rate"

	"github.com/node-drainer/node-drainer/internal/batch"
)

// A message may be forged, and a thousand of them must not use up what Auto Scaling grants to the account: it throttles
// all callers of an account and Region together. So the calls for actions that it has not confirmed are limited. Calls
// for confirmed actions never wait for them.
const (
	// askRate and askBurst bound how many descriptions a second ask about such instances, describeMax each.
	askRate, askBurst = 10, 20
	// askWindow is how long a question waits for others. It is so long that calls which are not full never wait for their
	// turn: a queue of those would grow, and answer a few questions a second.
	askWindow = time.Second / askRate
	// unconfirmedRate and unconfirmedBurst bound the heartbeats a second for such actions.
	unconfirmedRate, unconfirmedBurst = 5, 10
)

// errInTurn: too many heartbeats for actions that are not confirmed have been sent lately.
var errInTurn = errors.New("too many actions are not confirmed")

// unconfirmed makes calls for actions that Auto Scaling has not confirmed, in turn.
type unconfirmed struct {
	members    batch.Batcher[string, Member]
	asks       *rate.Limiter
	heartbeats *rate.Limiter
}

func newUnconfirmed(describe batch.Call[string, Member]) *unconfirmed {
	u := &unconfirmed{
		asks: rate.NewLimiter(askRate, askBurst), heartbeats: rate.NewLimiter(unconfirmedRate, unconfirmedBurst),
	}
	u.members = batch.Batcher[string, Member]{
		Max: describeMax, Window: askWindow,
		Call: func(ctx context.Context, ids []string) []batch.Result[Member] {
			if err := u.asks.Wait(ctx); err != nil {
				return batch.Results[string, Member](ids, nil, err)
			}
			return describe(ctx, ids)
		},
	}
	return u
}

// MemberInTurn returns what Auto Scaling knows of the instance of a message that is not confirmed. Concurrent questions
// share a call.
func (u *unconfirmed) MemberInTurn(ctx context.Context, instanceID string) (Member, error) {
	return u.members.Do(ctx, instanceID)
}

// IsPending reports whether the action is pending: whether its hook has the action's transition, and Auto Scaling
// accepts a heartbeat for the instance. The heartbeat has no token: AWS does not document that it compares a
// token with the instance. It has the token alone if the action names no instance. A refusal makes it likely that the
// action is not pending, but does not prove it. An action that Auto Scaling itself has listed (Action.Found) does not
// wait for its turn; for others there may be no answer.
func (h *Hooks) IsPending(ctx context.Context, a Action) (bool, error) {
	hook, err := h.hook(ctx, a.Group, a.Hook)
	if err != nil || aws.ToString(hook.LifecycleTransition) != string(a.transition()) {
		return false, err
	}
	if a.InstanceID != "" {
		a.Token = ""
	}
	if err = errInTurn; a.Found || h.heartbeats.Allow() {
		err = h.heartbeat(ctx, a)
	}
	switch {
	case err == nil:
		return true, nil
	case isNotActive(err):
		return false, nil
	}
	return false, fmt.Errorf("check by a heartbeat whether %s is pending: %w", a, err)
}
