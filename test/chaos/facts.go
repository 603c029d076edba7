package main

import (
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
	Left          []string // What is in the queue in the end and is not another cluster's.
	Remains       []string // What is on living nodes in the end and was not there before.
}

// span is a time with a beginning and an end; a zero end is none.
type span struct{ From, To time.Time }

// has tells whether t lies in the span, which is made longer at both ends.
func (s span) has(t time.Time, longer time.Duration) bool {
	return !t.Before(s.From.Add(-longer)) && (s.To.IsZero() || !t.After(s.To.Add(longer)))
}

// pod is what the watch has shown of a pod.
type pod struct {
	Namespace, Name, UID string
	Node                 string
	Guarded              bool          // By a budget.
	Grace                time.Duration // Its own.
	Seen                 span          // From the first sight of it to its end.
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
