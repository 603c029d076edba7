package agent

import (
	"slices"
	"time"

	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/internal/node"
)

// verb is what a step does.
type verb uint

const (
	ask        verb = iota // AWS, about the event
	askSpot                // EC2, about the Spot Instance request
	awaitTurn              // for an alarm
	readOwner              // whether the event is for this agent
	holdAsked              // the action, while AWS does not answer
	hold                   // the action
	register               // wait until the instance has a Node
	readLimit              // what bounds the drain
	cordon                 // the node
	drainNode              // evict its pods
	exclude                // it from load balancers
	complete               // the action
	uncordon               // the node
	withdraw               // uncordon a node whose annotation was removed
	announce               // maintenance, on the Node
	replace                // have the group replace the instance
	depart                 // wait until the instance has left its group
	awaitReady             // wait until the launching node is ready
	askReady               // the API server, whether it is
	protect                // it from a scale-down
	awaitPod               // wait until a drained node has got a pod
	judgeMark              // ask whether the node must still be cordoned
	putBack                // uncordon a node whose instance is healthy
	askRoom                // whether pods of drained nodes have found no room
)

// verbs is a set of them.
type verbs uint32

func (s verbs) has(v verb) bool { return s&(1<<v) != 0 }

func (s verbs) with(v verb) verbs { return s | 1<<v }

func (s verbs) without(v verb) verbs { return s &^ (1 << v) }

// step is one thing to do. Two that are equal are one: it continues.
type step struct {
	do       verb
	key      key    // of its reason; zero if it is the instance's
	uid      string // of the Node; empty if any
	deadline int64  // as Unix time in ms; 0 if it has none
}

// plan is what to do about an instance now. What is not in it ends.
type plan struct {
	steps   []step
	drainBy time.Time // of the step drainNode
	late    node.Mark // that the node should have, and has not: it is drained without
	ends    []ending
	cancels []*reason
	drains  []*reason // that the drain of the node is for
	begins  []event.Event
	again   time.Time // when to decide again; zero if only after a change

	postponed node.Postponement
	isAsking  bool // the API server is asked whether it is still postponed
}

// ending is how a reason ends.
type ending struct {
	*reason
	outcome string
	err     error // for the queue
}

func (p *plan) do(v verb, r *reason) { p.steps = append(p.steps, step{do: v, key: r.key}) }

// onNode has the step done that the Node requires.
func (p *plan) onNode(v verb, uid string) { p.steps = append(p.steps, step{do: v, uid: uid}) }

// cordon has the Node cordoned until the deadline; zero if that is not known. It returns the step.
func (p *plan) cordon(r *reason, uid string, deadline time.Time) step {
	st := step{do: cordon, key: r.key, uid: uid}
	if !deadline.IsZero() {
		st.deadline = deadline.UnixMilli()
	}
	p.steps = append(p.steps, st)
	return st
}

// drain has the Node drained by the deadline of the mark. One that is being drained goes on by its own if the mark has
// none yet.
func (p *plan) drain(uid string, m node.Mark, isLate bool) {
	st := step{do: drainNode, uid: uid}
	if !slices.Contains(p.steps, st) {
		p.steps = append(p.steps, st)
	}
	if p.drainBy.IsZero() || !m.Deadline.IsZero() && m.Deadline.Before(p.drainBy) {
		p.drainBy = m.Deadline
	}
	if isLate {
		p.late = m
	}
}

func (p *plan) end(r *reason, outcome Outcome, err error) {
	p.ends = append(p.ends, ending{r, string(outcome), err})
}

// cancel has the reason end when its drain has stopped.
func (p *plan) cancel(r *reason) {
	if !r.canceled {
		p.cancels = append(p.cancels, r)
	}
}

// at has the instance decided about again at the time.
func (p *plan) at(t time.Time) {
	if p.again.IsZero() || t.Before(p.again) {
		p.again = t
	}
}
