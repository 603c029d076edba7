package main

import (
	"slices"
	"time"

	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/cluster"
)

// facts is everything that judge knows of a run. Only the exit codes come from the agents.
type facts struct {
	Actions       []awsim.Action
	Interruptions []awsim.Interruption
	Requests      []cluster.Request // The agents' requests to the API server.
	ForeignCalls  []foreignCall     // Calls of the agents about hooks of another team or cluster.
	Pods          []pod
	Nodes         []node
	Gaps          []span // In which pods may have appeared and disappeared unseen.
	Removals      []removal
	Processes     []processRecord
	Outages       []span   // Of the API server.
	Stalls        []span   // Of the whole machine.
	Failures      []span   // Of Auto Scaling.
	Left          []string // Messages in the queue at the end, except another cluster's.
	Leftovers     []string // What the agents left on nodes that are not terminating.
}

// unavailable returns the times when the API server did not answer: it was stopped, or the machine stalled.
func (f facts) unavailable() []span { return slices.Concat(f.Outages, f.Stalls) }

// noAgentOrServer returns the times when no agent could act: the API server did not answer, or no agent ran.
func (f facts) noAgentOrServer() []span {
	all, since := f.unavailable(), time.Time{}
	for _, l := range inOrder(f.Processes, func(l processRecord) time.Time { return l.From }) {
		if l.From.After(since) {
			all = append(all, span{since, l.From})
		}
		since = latest(since, l.To)
	}
	return append(all, span{From: since})
}

// inOrder returns the values in the order of time.
func inOrder[T any](all []T, from func(T) time.Time) []T {
	return slices.SortedFunc(slices.Values(all), func(x, y T) int { return from(x).Compare(from(y)) })
}

func latest(x, y time.Time) time.Time {
	if x.After(y) {
		return x
	}
	return y
}

// span is a period. A zero To means that it has not ended.
type span struct{ From, To time.Time }

// has reports whether t lies in the span, extended at both ends.
func (s span) has(t time.Time, longer time.Duration) bool {
	return !t.Before(s.From.Add(-longer)) && (s.To.IsZero() || !t.After(s.To.Add(longer)))
}

// covered returns how much of s the others cover, each extended at its end.
func (s span) covered(longer time.Duration, others []span) (all time.Duration) {
	at := s.From // Everything before has been counted.
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

// pod is what the watch showed of a pod.
type pod struct {
	Namespace, Name, UID string
	Node                 string
	Guarded              bool          // It has a budget.
	Grace                time.Duration // Its terminationGracePeriodSeconds.
	Seen                 span          // From when the watch showed it first until its deletion.
	Bound                time.Time     // When the watch first showed it on its node.
	SignaledAt           time.Time     // When the watch first showed a deletion timestamp, or zero.
}

// node is what the watch showed of a node.
type node struct {
	Name, InstanceID string
	Marks            []mark // In order.
	Gone             time.Time
}

// mark is the annotation of an agent on a node.
type mark struct {
	Seen            time.Time
	Since, Deadline time.Time
}

// removal is why an instance terminates, and the time for which that holds.
type removal struct {
	InstanceID string
	Kind       string
	span
}

// foreignCall is a call of an agent about a hook of another team or cluster.
type foreignCall struct {
	Action, Group, Hook, InstanceID string
	At                              time.Time
}

// processRecord is one process of an agent.
type processRecord struct {
	Name string
	span
	Ended     string // killed or stopped, or how it exited by itself.
	Led       bool   // It was the leader for a while.
	LastLines []string
}

// How agents are ended.
const (
	killed  = "killed"
	stopped = "stopped"
)
