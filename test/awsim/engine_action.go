package awsim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	resume  = "CONTINUE"
	abandon = "ABANDON"
)

// maxGlobalTimeout is the longest that any lifecycle action may take: 48 hours.
const maxGlobalTimeout = 48 * time.Hour

// Hook is a lifecycle hook of a group.
type Hook struct {
	Name string
	// Transition is Launching or Terminating; Terminating when empty.
	Transition string
	// HeartbeatTimeout may be shorter here than the 30 s that the API demands; an hour when zero.
	HeartbeatTimeout time.Duration
	// GlobalTimeout is AWS's min(48 h, 100 x HeartbeatTimeout) when zero.
	GlobalTimeout time.Duration
	// DefaultResult is what a timeout means: ABANDON when empty.
	DefaultResult         string
	NotificationTargetARN string
	// RoleARN is the role with which Auto Scaling sends: role/hooks when empty.
	RoleARN              string
	NotificationMetadata string
	// CompletedAfter stands for an agent that completes each action so long after it began; 0 is for none.
	CompletedAfter time.Duration
}

func (h Hook) withDefaults() Hook {
	if h.Transition == "" {
		h.Transition = Terminating
	}
	if h.HeartbeatTimeout == 0 {
		h.HeartbeatTimeout = time.Hour
	}
	if h.GlobalTimeout == 0 {
		h.GlobalTimeout = min(maxGlobalTimeout, 100*h.HeartbeatTimeout)
	}
	if h.DefaultResult == "" {
		h.DefaultResult = abandon
	}
	return h
}

// action is one instance that waits for one hook.
type action struct {
	Action
	hook    Hook
	inst    *instance
	beatAt  time.Time     // The start, or the last heartbeat: what the heartbeat timeout counts from.
	claimed ClosedBy      // What is closing it, while the pods are listed.
	done    chan struct{} // Closed with the action.

	newVolume bool // The instance is not launched or terminated, but gets another root volume.
}

func (act *action) open() bool { return act.ClosedAt.IsZero() }

// deadline is when the action ends by itself, and which of its timeouts that is.
func (act *action) deadline() (time.Time, ClosedBy) {
	global := act.StartedAt.Add(act.hook.GlobalTimeout)
	if beat := act.beatAt.Add(act.hook.HeartbeatTimeout); beat.Before(global) {
		return beat, ByHeartbeatTimeout
	}
	return global, ByGlobalTimeout
}

// timedOut reports whether the deadline has passed. The action then takes neither heartbeat nor completion,
// though it may still be closing.
func (act *action) timedOut(now time.Time) bool {
	at, _ := act.deadline()
	return !now.Before(at)
}

// beginHooks starts one action for each hook of the transition, all at the same time, or continues at once if
// there is none. It needs mu.
func (a hookEngine) beginHooks(inst *instance, transition string) {
	inst.waiting = nil
	for _, h := range inst.group.hooks {
		if h.Transition == transition {
			inst.waiting = append(inst.waiting, a.begin(inst, h))
		}
	}
	switch {
	case len(inst.waiting) == 0:
		a.endHooks(inst, transition)
		return
	case transition == Launching, inst.isReturning():
		inst.setGroupState(statePendingWait)
	case inst.newVolume:
		inst.setState(stateReplacingVolumeWait)
	default:
		inst.setGroupState(stateTerminatingWait)
	}
	for _, act := range inst.waiting {
		a.sendLater(act)
		a.spawn(func() { a.waitForTimeout(act) })
		if act.hook.CompletedAfter > 0 {
			a.spawn(func() { a.completeLater(act) })
		}
		a.managed.answerHook(act)
	}
}

// begin needs mu.
func (a hookEngine) begin(inst *instance, h Hook) *action {
	now := time.Now()
	act := &action{
		Action: Action{
			Group:      inst.group.name,
			Hook:       h.Name,
			InstanceID: inst.id,
			Token:      uuid(a.server.opts.source("action", inst.id, h.Name, strconv.Itoa(len(inst.actions)))),
			Transition: h.Transition,
			StartedAt:  now,
		},
		hook:   h,
		inst:   inst,
		beatAt: now,
		done:   make(chan struct{}),

		newVolume: inst.newVolume,
	}
	act.Origin, act.Destination = inst.route(h.Transition)
	if h.Transition == Terminating {
		act.Killed = inst.killed
	}
	a.actions, inst.actions = append(a.actions, act), append(inst.actions, act)
	a.byToken[act.Token] = act
	return act
}

// sendLater sends the notifications of the action after the current update. It needs mu.
func (a hookEngine) sendLater(act *action) { a.later(func() { a.sendNotifications(act) }) }

// sendNotifications sends the action, with its token, to the hook's target and to the bus. It returns the
// number of messages. It must be called without mu.
func (a hookEngine) sendNotifications(act *action) int {
	n := act.notification()
	subject := "LAUNCHING"
	if act.Transition == Terminating {
		subject = "TERMINATING"
	}
	subject = fmt.Sprintf("Auto Scaling:  Lifecycle action '%s' for instance %s in progress.",
		subject, act.InstanceID)
	a.mu.Lock()
	direct, event := DirectMessage(a.bus.envelope(), n), EventBridgeMessage(a.bus.envelope(), n)
	a.mu.Unlock()
	sent, undelivered := 0, error(nil)
	if act.hook.NotificationTargetARN != "" {
		sent, undelivered = a.bus.deliver(act.hook.NotificationTargetARN, subject, direct, a.bus.fromHook(act.hook))
	}
	sent += a.bus.publish(event)
	a.update(func() {
		act.Sent += sent
		if undelivered != nil {
			a.spawn(func() { a.endUndelivered(act) })
		}
	})
	return sent
}

func (act *action) notification() Notification {
	does := "Launch"
	switch {
	case act.newVolume:
		does = strategyRootVolume
	case act.Transition == Terminating:
		does = "Terminate"
	}
	return Notification{
		Token:       act.Token,
		Group:       act.Group,
		Hook:        act.Hook,
		InstanceID:  act.InstanceID,
		Transition:  act.Transition,
		Action:      does,
		Metadata:    act.hook.NotificationMetadata,
		Origin:      act.Origin,
		Destination: act.Destination,
	}
}

// waitForTimeout closes the action when it times out.
func (a hookEngine) waitForTimeout(act *action) {
	for {
		a.mu.Lock()
		at, why := act.deadline()
		a.mu.Unlock()
		timer := time.NewTimer(time.Until(at))
		select {
		case <-timer.C:
		case <-act.done:
			timer.Stop()
			return
		case <-a.ctx.Done():
			timer.Stop()
			return
		}
		if a.expire(act, why) {
			return
		}
	}
}

// completeLater completes the action as its hook says.
func (a hookEngine) completeLater(act *action) {
	timer := time.NewTimer(act.hook.CompletedAfter)
	defer timer.Stop()
	select {
	case <-timer.C:
		_ = a.lifecycle.complete(actionName{group: act.Group, hook: act.Hook, token: act.Token}, resume)
	case <-act.done:
	case <-a.ctx.Done():
	}
}

// expire closes the action with its default result, unless a heartbeat has moved the deadline or a
// completion that was requested before the deadline is closing it.
func (a hookEngine) expire(act *action, why ClosedBy) bool {
	a.mu.Lock()
	due := act.timedOut(time.Now())
	mine := due && act.open() && act.claimed == ""
	if mine {
		act.claimed = why
	}
	a.mu.Unlock()
	if mine {
		a.finish(act, why, act.hook.DefaultResult)
	}
	return due
}

// finish closes an action that the caller has claimed. It lists the pods first, so that the ledger has them
// before any caller gets an answer. It must be called without mu.
func (a hookEngine) finish(act *action, by ClosedBy, result string) {
	pods, problem := a.hardware.pods(act.InstanceID)
	a.update(func() {
		if !act.open() {
			return
		}
		act.PodsAtClose, act.PodsError = pods, problem
		a.closeAction(act, by, result)
		a.afterAction(act)
	})
}

// closeAction closes the action and nothing else. It needs mu.
func (a hookEngine) closeAction(act *action, by ClosedBy, result string) {
	if !act.open() {
		return
	}
	act.ClosedAt, act.ClosedBy, act.Result = time.Now(), by, result
	close(act.done)
}

// afterAction continues after an action has closed: an abandoned one closes the others at once, and after
// the last one the instance proceeds. It needs mu.
func (a hookEngine) afterAction(closed *action) {
	inst := closed.inst
	if closed.Result == abandon {
		for _, act := range inst.waiting {
			if act.open() {
				act.PodsAtClose, act.PodsError = closed.PodsAtClose, closed.PodsError
				a.closeAction(act, ByAbandon, abandon)
			}
		}
	}
	current := false
	for _, act := range inst.waiting {
		if act.open() {
			return
		}
		current = current || act == closed
	}
	if current {
		a.endHooks(inst, closed.Transition)
	}
}

// endHooks lets an instance proceed after its last action. It needs mu.
func (a hookEngine) endHooks(inst *instance, transition string) {
	abandoned := slices.ContainsFunc(inst.waiting, func(act *action) bool { return act.Result == abandon })
	switch {
	case inst.group == nil:
	case transition == Launching:
		a.endLaunch(inst, abandoned)
	case inst.newVolume:
		a.volumes.proceed(inst)
	case inst.isReturning():
		a.pools.endReturn(inst, abandoned)
	case abandoned && inst.group.retain && !inst.group.deleting:
		a.pools.retain(inst, stateTerminating)
	default:
		a.fleet.proceed(inst)
	}
}

// endLaunch takes an instance into service, or into the warm pool, unless a hook has abandoned it. It needs
// mu.
func (a hookEngine) endLaunch(inst *instance, abandoned bool) {
	g := inst.group // Which the instance leaves at once if its machine has died.
	switch {
	case abandoned:
		a.fleet.terminate(inst)
		a.capacity.reconcile(g)
	case inst.warm:
		a.pools.settleInPool(inst)
	default:
		a.fleet.putInService(inst)
	}
}

// actionName is how a call names a lifecycle action: by its token or, if that is empty, by its instance.
type actionName struct{ group, hook, token, instanceID string }

func (n actionName) matches(act *action) bool { return act.Group == n.group && act.Hook == n.hook }

// find returns the action that a call names, and whether it still accepts calls. A closed one is returned
// too, for the ledger. It needs mu.
func (a hookEngine) find(name actionName) (act *action, active bool) {
	var named []*action
	if name.token != "" {
		named = append(named, a.byToken[strings.ToLower(name.token)])
	} else if inst := a.instances[name.instanceID]; inst != nil {
		named = inst.actions
	}
	for _, one := range named {
		if one != nil && name.matches(one) {
			act = one
		}
	}
	if act == nil {
		return nil, false
	}
	return act, act.open() && !act.timedOut(time.Now())
}

// heartbeat restarts the action's heartbeat timeout.
func (a hookEngine) heartbeat(name actionName) error {
	return a.updateErr(func() error {
		act, active := a.find(name)
		if active {
			act.beatAt = time.Now()
			act.Heartbeats = append(act.Heartbeats, act.beatAt)
			return nil
		}
		if act != nil {
			act.HeartbeatsAfterClose++
		}
		return name.notActive()
	})
}

// complete ends the action. Of two calls at the same time, the second gets the error of an action that is
// not active.
func (a hookEngine) complete(name actionName, result string) error {
	completion := Completion{At: time.Now(), By: "token", Result: result}
	if name.token == "" {
		completion.By = "instance"
	}
	var act *action
	err := a.updateErr(func() error {
		var active bool
		act, active = a.find(name)
		if !active || act.claimed != "" {
			err := name.notActive()
			completion.Err = err.Error()
			if act != nil {
				act.Completions = append(act.Completions, completion)
			}
			return err
		}
		act.claimed = ByCompletion
		act.Completions = append(act.Completions, completion)
		return nil
	})
	if err != nil {
		return err
	}
	a.finish(act, ByCompletion, result)
	return nil
}

// notActive is the API's answer if the action has ended, or there never was one.
func (n actionName) notActive() error {
	if n.token != "" {
		return errorf("ValidationError", "No active Lifecycle Action found with token %s", n.token)
	}
	return errorf("ValidationError", "No active Lifecycle Action found with instance ID %s", n.instanceID)
}
