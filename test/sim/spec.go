// Package sim runs the agent in worlds that a seed generates: clusters, Auto Scaling groups, hooks, workloads, events
// and faults. Everything runs in virtual time in one bubble of testing/synctest: the code of the agent against
// package kube, which models Kubernetes, and package awsim, which models AWS. A judge compares what happened with what
// must hold in each world. See docs/testing.md.
package sim

import (
	"encoding/json"
	"slices"
	"time"
)

// Spec describes a world. It is plain data: a world that fails is made smaller by leaving parts out, so what names a
// part that is not there has no effect.
type Spec struct {
	Seed     uint64
	Order    uint64        `json:",omitempty"` // the seed of what Go leaves to chance, where that can be replayed
	Visible  time.Duration `json:",omitempty"` // how long descriptions of Auto Scaling are stale
	Skew     time.Duration `json:",omitempty"` // by how much the clock of AWS is ahead of that of the agents
	Clusters []Cluster
	Steps    []Step    `json:",omitempty"`
	Faults   []Fault   `json:",omitempty"`
	Versions []Version `json:",omitempty"` // make sim-upgrade: in order of time
	Triggers []Trigger `json:",omitempty"` // joint worlds: see triggers.go
	// GateFails is from when to when the gate of triggers fails.
	GateFails [2]time.Duration `json:",omitzero"`
}

// Cluster is a Kubernetes cluster, with the agents that are installed in it.
type Cluster struct {
	Name      string
	Installs  []Install
	Groups    []Group
	Workloads []Workload  `json:",omitempty"`
	Daemons   []DaemonSet `json:",omitempty"`
	// Autoscaler is a Cluster Autoscaler, in joint worlds.
	Autoscaler bool `json:",omitempty"`
	Timing     Timing
}

// Install is an installation of the agent, with a queue of its own.
type Install struct {
	Name     string
	Team     string   `json:",omitempty"` // the nodes that it manages; all if empty
	Replicas int      // more than one elect a leader
	Named    bool     `json:",omitempty"` // HOOK_NAMES is set
	Settings []string `json:",omitempty"` // further variables, as KEY=VALUE
	Later    []string `json:",omitempty"` // that all processes but the first have besides
	ByNode   bool     `json:",omitempty"` // its Nodes say how they are drained, in place of the variables
	Old      bool     `json:",omitempty"` // make sim-upgrade: its first processes are of the older commit
}

// manages reports whether an install manages the nodes of a group.
func (i Install) manages(g Group) bool { return i.Team == "" || i.Team == g.Team }

// manager returns the name of the install that manages the nodes of a group; empty if none does.
func (c Cluster) manager(g Group) string {
	for _, i := range c.Installs {
		if i.manages(g) {
			return i.Name
		}
	}
	return ""
}

// Group is an Auto Scaling group.
type Group struct {
	Name       string
	Nodes      int
	Team       string `json:",omitempty"` // the label of its nodes
	Spot       bool   `json:",omitempty"`
	MinHealthy int    `json:",omitempty"` // percentage of the maintenance policy; 0 is no policy
	Max        int    `json:",omitempty"` // the maximum size; 0 is room for another group of this size
	Hooks      []Hook
	Managed    bool  `json:",omitempty"` // it is that of a managed node group of EKS, in joint worlds
	Aged       int   `json:",omitempty"` // how many of its instances were launched long ago, in joint worlds
	Pool       *Pool `json:",omitempty"`
	// Broken is how many of the nodes that the group launches during the run never become Ready.
	Broken int `json:",omitempty"`
}

// Pool is a warm pool, which keeps stopped instances.
type Pool struct {
	Size  int  `json:",omitempty"` // how many it has while the group has its full size
	Kept  bool `json:",omitempty"` // it has so many at least, also while the group is larger
	Reuse bool `json:",omitempty"` // it takes instances back on scale-in
}

// Hook is a lifecycle hook of a group.
type Hook struct {
	Name      string
	Launch    bool   `json:",omitempty"`
	Install   string `json:",omitempty"` // whose hook it is; empty if another tool's
	Via       string `json:",omitempty"` // queue, sns, raw or eventbridge; empty if another tool polls
	Heartbeat time.Duration
	Continue  bool          `json:",omitempty"` // its default result; otherwise ABANDON
	Holds     time.Duration `json:",omitempty"` // how long another tool needs until it completes its own hook
}

// Workload is the pods of a controller.
type Workload struct {
	Name     string
	Kind     string // deployment, statefulset, job, bare, operated (a pod on each node) or restarted (a Deployment)
	Replicas int
	Grace    time.Duration // the termination grace period
	Stop     time.Duration // how long a pod really takes to stop
	Start    time.Duration // until a pod is Ready
	Budgets  []Budget      `json:",omitempty"`
	Priority int32         `json:",omitempty"`
	Wait     bool          `json:",omitempty"` // its pods have the annotation that opts out of eviction
	Unready  bool          `json:",omitempty"` // its pods never become Ready
	EmptyDir bool          `json:",omitempty"`
	Tolerant bool          `json:",omitempty"` // its pods tolerate every taint
	Pinned   string        `json:",omitempty"` // its pods fit one node: by a selector, or by its name
	PinnedTo int           `json:",omitempty"` // which node that is
	Held     time.Duration `json:",omitempty"` // its pods have a finalizer, which is removed so long after their deletion
	Detach   time.Duration `json:",omitempty"` // its pods have a volume, which stays attached so long after they have left
	Bytes    int           `json:",omitempty"` // its pods have an annotation of this size
	// Group makes the pods members of a replicated group with a leader, which hand over when the agent asks.
	Group *ReplicatedGroup `json:",omitempty"`
}

// ReplicatedGroup is how the members of a group behave.
type ReplicatedGroup struct {
	Sync    time.Duration // how long a member is Ready until it has the data of the others
	Answers time.Duration // how long a member takes to answer
	Elects  time.Duration // how long the members take to elect a leader when they have lost it
	Deaf    bool          `json:",omitempty"` // no member ever answers
}

// Budget is a PodDisruptionBudget of a workload.
type Budget struct {
	MinAvailable   string `json:",omitempty"`
	MaxUnavailable string `json:",omitempty"`
	AlwaysAllow    bool   `json:",omitempty"` // the policy for unhealthy pods
}

// DaemonSet runs a pod on each node.
type DaemonSet struct {
	Name     string
	Tolerant bool `json:",omitempty"` // tolerates every taint
	Critical bool `json:",omitempty"` // has the priority class system-node-critical
	Broken   bool `json:",omitempty"` // its pods never become Ready
	// Budget cannot be counted, because a DaemonSet has no scale.
	Budget *Budget `json:",omitempty"`
}

// Timing is how long the parts of a cluster take, where that differs from kube.DefaultTiming.
type Timing struct {
	Lag   time.Duration `json:",omitempty"` // how old the scheduler's view of nodes is
	Count time.Duration `json:",omitempty"` // until the disruption controller has counted
	Watch time.Duration `json:",omitempty"` // by how much watches lag
	// Latency is how long a request of the agent to the API server takes on average.
	Latency time.Duration `json:",omitempty"`
	Boot    time.Duration // until a launched instance registers as a Node
	Delete  time.Duration // until the Node of a terminated instance is deleted
}

// Step is something that happens in the world, At so long after its start.
type Step struct {
	At   time.Duration
	Do   string        // see steps.go
	Node int           `json:",omitempty"` // which member of the group, in order of launch
	Same bool          `json:",omitempty"` // the node of the step before with the same On and Node
	For  time.Duration `json:",omitempty"`
	N    int           `json:",omitempty"`
	Ago  time.Duration `json:",omitempty"` // how old a forged message says that it is
	// The group, workload or install that it concerns.
	On string `json:",omitempty"`
}

// Fault is something that fails From so long after the start of the world, For so long.
type Fault struct {
	From time.Duration
	For  time.Duration `json:",omitempty"`
	Do   string        // see faults.go
	On   string        `json:",omitempty"` // an install or a cluster
	What string        `json:",omitempty"` // an action or a resource
	N    int           `json:",omitempty"`
	// Webhook is what kube-admission adds.
	Webhook *Webhook `json:",omitempty"`
}

// Webhook is an admission webhook for the evictions of pods, their deletions, or both.
type Webhook struct {
	Evictions bool          `json:",omitempty"`
	Deletions bool          `json:",omitempty"`
	Workload  string        `json:",omitempty"` // whose pods it is called for; all if empty
	Code      int32         `json:",omitempty"` // of its refusals; it allows everything if it is 0
	Reason    string        `json:",omitempty"`
	Answers   time.Duration `json:",omitempty"` // how long it takes
	Timeout   time.Duration // how long the API server waits for it
	Ignores   bool          `json:",omitempty"` // a request goes on without an answer
}

// clone returns a copy in which groups can have other names.
func (s Spec) clone() Spec {
	s.Clusters, s.Steps = slices.Clone(s.Clusters), slices.Clone(s.Steps)
	for i := range s.Clusters {
		s.Clusters[i].Groups = slices.Clone(s.Clusters[i].Groups)
	}
	return s
}

// String returns the world as JSON on one line.
func (s Spec) String() string {
	text, err := json.Marshal(s)
	if err != nil {
		return err.Error() // cannot happen: it is plain data
	}
	return string(text)
}
