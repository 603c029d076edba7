// Package rollouts simulates rollouts: the trigger itself replaces instances of groups that a seed generates, in a
// simulated AWS and in virtual time, while an operator, an autoscaler, other triggers and faults interfere. A judge knows
// of each instance whether it was outdated, and whose call has ended it. See docs/simulation.md.
package rollouts

import (
	"encoding/json"
	"time"

	"github.com/node-drainer/node-drainer/internal/cluster"
	"github.com/node-drainer/node-drainer/internal/rollout"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// Spec is all that a seed decides. It is plain data.
type Spec struct {
	Seed    uint64
	Groups  []Group
	Options Options
	Runs    []Run   `json:",omitempty"`
	Steps   []Step  `json:",omitempty"`
	Faults  []Fault `json:",omitempty"`

	Kubernetes bool             `json:",omitempty"` // The triggers reach the cluster.
	NodeAfter  time.Duration    `json:",omitempty"` // How long an instance is in service until its node is Ready.
	Quirk      Quirk            `json:",omitempty"`
	Visible    time.Duration    `json:",omitempty"` // How old the states are that AWS describes.
	Launch     time.Duration    `json:",omitempty"`
	GateFails  [2]time.Duration `json:",omitempty"` // The gate fails in this time.
}

// Quirk is a way in which AWS, or a simulation of it, describes or does something unexpected.
type Quirk string

// The quirks.
const (
	ForeignVersion Quirk = "foreign version" // Instances are described with a version that the template never had.
	LatestAsText   Quirk = "latest"          // Instances are described with the version $Latest.
	NoTemplate     Quirk = "no template"     // Instances are described without a launch template.
	AnyOrder       Quirk = "any order"       // Instances are described in another order each time.
	LaunchesFirst  Quirk = "launches first"  // The group launches what its first instance was launched from.
	UpperCase      Quirk = "upper case"      // The health is described in capitals, as DescribeAutoScalingInstances does.
)

// Group is an Auto Scaling group. Its first Old instances are of version 1 of its launch template, the others of the
// version 2.
type Group struct {
	Name           string
	Old, Size      int
	Min, Max       int
	Zones          int
	Policy         [2]int   `json:",omitempty"` // The maintenance policy; none if it is zero.
	Hooks          []Hook   `json:",omitempty"`
	Types          []string `json:",omitempty"` // The overrides of a mixed instances policy.
	Version        string   // $Latest, $Default, or number: the group names the number.
	Parameter      bool     `json:",omitempty"` // The image is a parameter of Systems Manager.
	Spot           bool     `json:",omitempty"`
	WarmPool       int      `json:",omitempty"`
	Standby        int      `json:",omitempty"` // Old instances that a user has moved into Standby.
	Protected      int      `json:",omitempty"` // Instances that a user has protected from scale in.
	Aged           int      `json:",omitempty"` // Instances that are older than Options.MaxAge allows.
	Excluded       int      `json:",omitempty"` // Instances whose nodes have the label keep.
	Wave           string   `json:",omitempty"`
	Suspended      string   `json:",omitempty"` // A process that a user has suspended.
	Nodegroup      bool     `json:",omitempty"`
	MaxUnavailable int      `json:",omitempty"` // Of the node group.
}

// Hook is a lifecycle hook, which nobody completes: it ends after a time.
type Hook struct {
	Name     string
	Launch   bool `json:",omitempty"`
	Takes    time.Duration
	Abandons bool `json:",omitempty"`
}

// Options are the flags of the triggers.
type Options struct {
	Mode         refresh.Mode
	Surge        refresh.Amount
	Batch        refresh.Amount
	Step         refresh.Amount
	Order        refresh.Order
	Then         refresh.Then
	Between      time.Duration     `json:",omitempty"`
	RaiseMax     bool              `json:",omitempty"`
	Suspend      []string          `json:",omitempty"`
	Checkpoints  []int             `json:",omitempty"`
	Strategy     refresh.Strategy  `json:",omitempty"`
	Pin          refresh.Pin       `json:",omitempty"`
	AutoRollback bool              `json:",omitempty"`
	Newest       bool              `json:",omitempty"` // --launch-template-version '$Latest', in groups that name a number.
	Alarm        bool              `json:",omitempty"` // A refresh fails while the alarm is on.
	OnConflict   rollout.Conflict  `json:",omitempty"`
	Windows      bool              `json:",omitempty"`
	Gate         bool              `json:",omitempty"`
	Only         int               `json:",omitempty"` // So many instances are named.
	All          bool              `json:",omitempty"`
	MaxAge       time.Duration     `json:",omitempty"`
	Exclude      bool              `json:",omitempty"`
	Taint        cluster.Effect    `json:",omitempty"`
	Together     refresh.Phase     `json:",omitempty"`
	Parallel     int               `json:",omitempty"`
	FailFast     bool              `json:",omitempty"`
	Autoscaler   bool              `json:",omitempty"` // The Cluster Autoscaler is paused.
	OnInterrupt  rollout.Interrupt `json:",omitempty"`
	NoWait       bool              `json:",omitempty"`
	Until        rollout.Until
	Stall        time.Duration
	Ready        time.Duration `json:",omitempty"`
	Timeout      time.Duration `json:",omitempty"`
	Poll         time.Duration
}

// Run is a process of the trigger.
type Run struct {
	At        time.Duration
	Command   Command
	Kill      int           `json:",omitempty"` // It is killed after so many calls; 0 is never.
	Reads     bool          `json:",omitempty"` // Calls that change nothing count, too.
	Interrupt time.Duration `json:",omitempty"` // It is interrupted after this time; 0 is never.
}

// Command is a command of the trigger.
type Command string

// The commands.
const (
	Trigger  Command = ""
	Watch    Command = "watch"
	Rollback Command = Command(rollout.ActRollback)
	Resume   Command = Command(rollout.ActResume)
	Cancel   Command = Command(rollout.ActCancel)
	Pause    Command = Command(rollout.ActPause)
)

// Step is what somebody does to a group.
type Step struct {
	At    time.Duration
	Do    string
	Group int
	N     int `json:",omitempty"`
}

// Fault is a fault of AWS.
type Fault struct {
	At, For time.Duration
	Kind    string
	Share   float64
}

func (s Spec) String() string {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // cannot happen: it is plain data
	}
	return string(text)
}
