package main

import (
	"slices"
	"time"

	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/cluster"
)

// facts is all that the judge knows of a run. Nothing of it comes from the agents but how they ended.
type facts struct {
	Actions       []awsim.Action
	Interruptions []awsim.Interruption
	Requests      []cluster.Request // What the agents asked of the API server.
	Meddling      []string          // Calls of the agents about hooks of others.
	Pods          []pod
	Nodes         []node
	Fates         []fate
	Lives         []life
	Outages       []span   // Of the API server.
	Stalls        []span   // Of the whole machine.
	Left          []string // What is in the queue in the end and is not another cluster's.
	Remains       []string // What is on living nodes in the end and was not there before.
}

// silences are the times when the API server did not answer: it was away, or all stood still.
func (f facts) silences() []span { return slices.Concat(f.Outages, f.Stalls) }

// absences are the times when no agent could do anything: the API server did not answer, or none lived.
func (f facts) absences() []span {
	all, since := f.silences(), time.Time{}
	for _, l := range inOrder(f.Lives, func(l life) time.Time { return l.From }) {
		if l.From.After(since) {
			all = append(all, span{since, l.From})
		}
		since = latest(since, l.To)
	}
	return append(all, span{From: since})
}

// inOrder returns what there is in the order of time.
func inOrder[T any](all []T, from func(T) time.Time) []T {
	return slices.SortedFunc(slices.Values(all), func(x, y T) int { return from(x).Compare(from(y)) })
}

func latest(x, y time.Time) time.Time {
	if x.After(y) {
		return x
	}
	return y
}

// span is a time with a beginning and an end; a zero end is none.
type span struct{ From, To time.Time }

// has tells whether t lies in the span, which is made longer at both ends.
func (s span) has(t time.Time, longer time.Duration) bool {
	return !t.Before(s.From.Add(-longer)) && (s.To.IsZero() || !t.After(s.To.Add(longer)))
}

// covered is how much of s others cover, each of which lasts so much longer.
func (s span) covered(longer time.Duration, others []span) (all time.Duration) {
	at := s.From // What is before has been counted.
	for _, one := range inOrder(others, func(one span) time.Time { return one.From }) {
		from, to := latest(at, one.From), one.To.Add(longer)
		if one.To.IsZero() || to.After(s.To) {
			to = s.To
		}
		if to.After(from) {
			all, at = all+to.Sub(from), to
		}
	}
	return all
}

// pod is what the watch has shown of a pod.
type pod struct {
	Namespace, Name, UID string
	Node                 string
	Guarded              bool          // By a budget.
	Grace                time.Duration // Its own.
	Seen                 span          // From the first sight of it to its end.
	Bound                time.Time     // When it was first seen on its node.
	Told                 time.Time     // When it was first seen to have got its SIGTERM; zero is never.
}

// node is what the watch has shown of a node.
type node struct {
	Name, InstanceID string
	Marks            []mark // In order.
	Gone             time.Time
}

// mark is what an agent has noted on a node.
type mark struct {
	Seen            time.Time
	Since, Deadline time.Time
}

// fate is why an instance is going, and how long that held.
type fate struct {
	InstanceID string
	Kind       string
	span
}

// life is that of one process of an agent.
type life struct {
	Name string
	span
	Asked time.Time // When we ended it; zero if we did not.
	Ended string    // killed or stopped by us; anything else is its own doing.
	Last  []string
}

// How we end an agent.
const (
	killed  = "killed"
	stopped = "stopped"
)
