package awsim

import "time"

// undeliveredAfter is how long an action lasts whose notification cannot be delivered: what a capture against AWS
// shows of a hook whose queue had been deleted. AWS documents only that the default result applies "if an unexpected
// failure occurs" (PutLifecycleHook).
const undeliveredAfter = 5 * time.Second

// endUndelivered ends the action with its default result, whatever heartbeats it gets.
func (a hookEngine) endUndelivered(act *action) {
	timer := time.NewTimer(undeliveredAfter)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-act.done:
		return
	case <-a.ctx.Done():
		return
	}
	a.mu.Lock()
	mine := act.open() && act.claimed == ""
	if mine {
		act.claimed = ByDeliveryFailure
	}
	a.mu.Unlock()
	if mine {
		a.finish(act, ByDeliveryFailure, act.hook.DefaultResult)
	}
}
