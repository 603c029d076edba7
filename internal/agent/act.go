package agent

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/node-drainer/node-drainer/internal/autoscaling"
	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/internal/node"
	"github.com/node-drainer/node-drainer/internal/retry"
	"github.com/node-drainer/node-drainer/pkg/drain"
)

// This file carries out the steps of plans.

// errUnregistered: the API server has no Node for the instance.
var errUnregistered = errors.New("no Node has registered for the instance")

// actor carries out the steps of plans.
type actor struct {
	*systems

	confirmer *confirmer
	spot      *spotWarnings
	alarms    *alarmTurns
	launcher  *launcher
	protector *protector
	barrier   markBarrier
	turns     *turns
	doers     map[verb]doer
}

// result records what a step has brought. The reason is nil for a step that has none.
type result func(s *state, r *reason)

// work is what a step needs to know.
type work struct {
	step    step
	started time.Time
	failing time.Duration // for how long the attempts before have failed
	*reason               // a copy of the step's reason; empty for a step that has none
	node    node.Node
	member  *autoscaling.Member // what Auto Scaling has just said of the instance; nil: it must be asked
	owners  *drain.Owners       // of the last drain of the node
	// isDrained reports whether the last drain of the node was for its mark.
	isDrained bool
	drain     drainWork
}

// about returns the event that the step is for.
func (w work) about() event.Event {
	if w.Kind == "" {
		return eventOfMark(w.node)
	}
	return w.Event
}

// doer does a step once. After an error it is tried again, unless the error says that this is of no use (see resultOf).
type doer struct {
	what string // it does, for messages about errors
	do   func(*record, context.Context, work) (result, error)
}

func doers() map[verb]doer {
	return map[verb]doer{
		ask:        {"confirm the event", (*record).doAsk},
		askSpot:    {"read the status of the Spot Instance request", (*record).doAskSpot},
		awaitTurn:  {"read the group of the instance", (*record).doAwaitTurn},
		readOwner:  {"read the tags and hooks of the group", (*record).doReadOwner},
		holdAsked:  {"hold the lifecycle action", (*record).doHold},
		hold:       {"hold the lifecycle action", (*record).doHold},
		register:   {"look up the node of the instance", (*record).doRegister},
		readLimit:  {"read the timeouts of the hook", (*record).doReadLimit},
		cordon:     {"cordon the node", (*record).doCordon},
		drainNode:  {"drain the node", (*record).doDrain},
		exclude:    {"exclude the node from load balancers", (*record).doExclude},
		complete:   {"complete the lifecycle action", (*record).doComplete},
		uncordon:   {"uncordon the node", (*record).doUncordon},
		withdraw:   {"uncordon the node", (*record).doWithdraw},
		announce:   {"announce the maintenance on the node", (*record).doAnnounce},
		replace:    {"mark the instance unhealthy", (*record).doReplace},
		depart:     {"wait until the instance has left its group", (*record).doDepart},
		awaitReady: {"wait until the node is ready", (*record).doAwaitReady},
		askReady:   {"check the readiness of the node", (*record).doAskReady},
		awaitPod:   {"watch the pods of the node", (*record).doAwaitPod},
		judgeMark:  {"check whether the node must stay cordoned", (*record).doJudgeMark},
		putBack:    {"uncordon the node", (*record).doPutBack},
		askRoom:    {"list the pods without a node", (*record).doAskRoom},
	}
}

// did records that the step of a reason is done.
func did(v verb) result { return func(_ *state, q *reason) { q.done = q.done.with(v) } }

// actionGone records that the lifecycle action has ended.
func actionGone(_ *state, q *reason) { q.gone = true }

func (r *record) doAsk(ctx context.Context, w work) (result, error) {
	a := r.confirmer.askOnce(ctx, w.reason)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return func(_ *state, q *reason) { q.heard(a, time.Now(), r.policy.confirmTimeout) }, nil
}

func (r *record) doAskSpot(ctx context.Context, w work) (result, error) {
	a := r.spot.ask(ctx, w.Event, w.spot)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return func(_ *state, q *reason) { q.heardSpot(a, time.Now()) }, nil
}

// doAwaitTurn takes the turn of an alarm until ctx ends.
func (r *record) doAwaitTurn(ctx context.Context, w work) (result, error) {
	end, err := r.alarms.begin(ctx, w.Event)
	if err != nil {
		return nil, err
	}
	var alarm *reason
	r.note(ctx, w.step.key, func(q *reason) { alarm, q.done, q.began = q, q.done.with(awaitTurn), time.Now() })
	<-ctx.Done()
	r.mu.Lock()
	defer r.mu.Unlock()
	end(alarm != nil && !alarm.confirmed.IsZero())
	return nil, context.Cause(ctx)
}

// note changes the reason while its step continues.
func (r *record) note(ctx context.Context, k key, change func(*reason)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if q := r.reason(k); q != nil {
		change(q)
	}
	r.work(ctx)
}

// doReadOwner reads whether the event is for this agent. If that cannot be read for long, it is: a termination, once
// the agent of another cluster, whose resync finds the instance, would have drained the node.
func (r *record) doReadOwner(ctx context.Context, w work) (result, error) {
	timeout := longestAction
	if w.Kind == event.LifecycleTerminating {
		timeout = r.cfg.RegistrationTimeout + r.cfg.DrainTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout-w.failing)
	defer cancel()
	if err := r.confirmer.checkOwner(ctx, w.Event); err != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return nil, err
	}
	isFindable := r.confirmer.isFindable(ctx, w.Event)
	return func(_ *state, q *reason) { q.done, q.findable = q.done.with(readOwner), isFindable }, nil
}

// doHold holds the action until ctx ends.
func (r *record) doHold(ctx context.Context, w work) (result, error) {
	wait := func(ctx context.Context) error {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	action := actionOf(w.Event)
	action.InTurn = w.step.do == holdAsked
	return nil, r.groups.Hold(ctx, action, wait)
}

// doRegister waits until the instance registers, because it would then get pods. An instance that has stopped does not,
// and neither does one that had a Node when its event arrived.
func (r *record) doRegister(ctx context.Context, w work) (result, error) {
	if w.awaitsReady() {
		return r.doAwaitBoot(ctx, w)
	}
	isLate := w.markedUID != "" || w.hadNode || w.draining || w.failing > 0
	if w.Hook.Name == "" || isLate || r.confirmer.isStopped(ctx, w.InstanceID) {
		return r.lookUp(ctx, w.InstanceID)
	}
	r.observer.NodeAwaited(w.Event)
	n, err := r.await(ctx, w)
	switch {
	case errors.Is(err, errUnregistered):
		return r.lookUp(ctx, w.InstanceID) // the watch may have missed it
	case err != nil:
		return nil, err
	}
	return r.found(n), nil
}

// await waits for the Node of the instance, for as long as that may take to register and runs.
func (r *record) await(ctx context.Context, w work) (node.Node, error) {
	until, end := context.WithDeadlineCause(ctx, w.At.Add(r.cfg.RegistrationTimeout), errUnregistered)
	defer end()
	waiting, stop := context.WithCancelCause(until)
	var asking sync.WaitGroup
	defer asking.Wait()
	defer stop(nil)
	asking.Go(func() {
		for retry.Sleep(waiting, stoppedInterval) {
			if r.confirmer.isStopped(waiting, w.InstanceID) {
				stop(errUnregistered)
			}
		}
	})
	return r.nodes.Await(waiting, w.InstanceID, nil) //nolint:wrapcheck // It is handled by the caller.
}

// stoppedInterval is how often EC2 is asked whether an instance runs whose Node is awaited: it may end meanwhile.
const stoppedInterval = 30 * time.Second

// lookUp asks the API server for the Node of the instance: a watch may have missed it.
func (r *record) lookUp(ctx context.Context, instanceID string) (result, error) {
	n, err := r.nodes.Lookup(ctx, instanceID)
	switch {
	case errors.Is(err, node.ErrGone):
		return func(s *state, q *reason) {
			if q.unregistered = true; s.registered {
				r.gone = s.node.UID
			}
		}, nil
	case err != nil:
		return nil, err
	}
	return r.found(n), nil
}

// found records the Node of the instance, which the watch may not show.
func (r *record) found(n node.Node) result {
	return func(*state, *reason) {
		if r.known = n; n.UID == r.gone {
			r.gone = ""
		}
	}
}

// doReplace has the group of the instance replace it.
func (r *record) doReplace(ctx context.Context, w work) (result, error) {
	err := r.confirmer.replace(ctx, w)
	switch {
	case errors.Is(err, errNoGroup):
		return func(_ *state, q *reason) { q.noGroup = true }, nil
	case errors.Is(err, errContradicted):
		f := contradicts("AWS does not confirm the event any more")
		return func(_ *state, q *reason) { q.answer, q.confirmed = f, time.Time{} }, nil
	case err != nil:
		return nil, err
	}
	return did(replace), nil
}

func (r *record) doDepart(ctx context.Context, w work) (result, error) {
	if err := r.alarms.awaitDeparture(ctx, w.InstanceID); err != nil {
		return nil, err
	}
	return did(depart), nil
}

func actionOf(e event.Event) autoscaling.Action {
	return autoscaling.Action{
		Group: e.Hook.Group, Hook: e.Hook.Name, InstanceID: e.InstanceID, Token: e.Hook.Token,
		Launch: e.Kind == event.LifecycleLaunching, Found: e.Found, Seen: e.Seen,
	}
}
