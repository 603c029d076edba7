package rollouts

import (
	"encoding/json"
	"time"
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

// Run is a process of the trigger.
type Run struct {
	At        time.Duration
	Command   Command
	Kill      int           `json:",omitempty"` // It is killed after so many calls; 0 is never.
	Reads     bool          `json:",omitempty"` // Calls that change nothing count, too.
	Interrupt time.Duration `json:",omitempty"` // It is interrupted after this time; 0 is never.
}

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
