// Package report tells people and machines of rollouts: of plans, of how far they are, and of how they ended.
// What it tells is given to it as plain data.
package report

import (
	"time"

	"github.com/node-drainer/node-drainer/pkg/cluster"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// Plan is what would be done to a group, and why.
type Plan struct {
	Group     string            `json:"group"`
	Mode      refresh.Mode      `json:"mode"`
	Target    string            `json:"target"` // What its instances should have been launched from, in words.
	Desired   int               `json:"desired"`
	Outdated  int               `json:"outdated"`                // How many will be replaced.
	Kept      int               `json:"kept"`                    // How many are outdated and will not be.
	Active    string            `json:"activeRefresh,omitempty"` // The id of the refresh that is under way.
	Instances []Planned         `json:"instances"`
	Findings  []refresh.Finding `json:"findings"`
}

// Planned is one instance of a plan.
type Planned struct {
	ID       string           `json:"instance"`
	Zone     string           `json:"zone"`
	Type     string           `json:"type"`
	State    string           `json:"state"`
	Image    string           `json:"image,omitempty"`
	Launched *time.Time       `json:"launched,omitempty"`
	Outdated bool             `json:"outdated"`
	Reasons  []refresh.Reason `json:"reasons,omitempty"`
	Kept     []refresh.Reason `json:"kept,omitempty"`
	Node     *cluster.Node    `json:"node,omitempty"` // nil if the cluster was not asked, or does not know it.
	Load     *cluster.Load    `json:"load,omitempty"`
}

// Rollout is how the replacement of instances stands, in all groups, at one moment.
type Rollout struct {
	At      time.Time `json:"at"`
	Started time.Time `json:"started"`
	Groups  []Group   `json:"groups"` // By name; always the same ones.
}

// Group is how it stands in one group.
type Group struct {
	Name      string       `json:"group"`
	Mode      refresh.Mode `json:"mode"`
	Phase     Phase        `json:"phase"`
	Target    string       `json:"target"`
	Desired   int          `json:"desired"`
	Refresh   string       `json:"refresh,omitempty"`  // The id of the Instance Refresh.
	Attached  bool         `json:"attached,omitempty"` // It was not started by this run.
	Status    string       `json:"status,omitempty"`   // Of the refresh, in the API's words.
	Reason    string       `json:"reason,omitempty"`   // Of that status, in the API's words.
	Percent   int          `json:"percent"`            // Of the refresh.
	Total     int          `json:"total"`              // The instances to be replaced, as they were counted at the start.
	Gone      int          `json:"gone"`               // How many of them are out of the way, as --until says.
	Instances []Instance   `json:"instances"`          // All of the group, and those that left it during the run are not in it.
	Notes     []Note       `json:"notes,omitempty"`    // What was done and found, the oldest first. It only grows.
	Outcome   Outcome      `json:"outcome,omitempty"`  // How it ended; empty until then.
	Message   string       `json:"message,omitempty"`  // Of the outcome: what is so and what to do.
	Ended     time.Time    `json:"ended,omitzero"`
}

// Note is something that was done or found, and is not to be seen from the rest.
type Note struct {
	At    time.Time     `json:"at"`
	Level refresh.Level `json:"level"`
	Text  string        `json:"text"`
}

// Instance is one instance of a rollout.
type Instance struct {
	ID        string        `json:"instance"`
	Zone      string        `json:"zone"`
	State     string        `json:"state"` // Its lifecycle state.
	Old       bool          `json:"old"`   // It is to be replaced.
	Unhealthy bool          `json:"unhealthy,omitempty"`
	Node      *cluster.Node `json:"node,omitempty"`
}

// Phase is where a group's rollout is.
type Phase string

// The phases, in their order.
const (
	Queued    Phase = "queued"    // Other groups come first, or another refresh does.
	Replacing Phase = "replacing" // New instances come, old ones go.
	Baking    Phase = "baking"    // All are replaced; alarms are watched.
	Draining  Phase = "draining"  // AWS has done its part; old nodes still have pods to move.
	Finished  Phase = "over"
)

// Outcome is how the rollout of a group ended.
type Outcome string

// The outcomes.
const (
	Done        Outcome = "done"    // No outdated instance is left.
	Nothing     Outcome = "nothing" // There was none.
	Detached    Outcome = "left"    // The refresh goes on; it was not to be waited for.
	Refused     Outcome = "refused" // By the preflight: nothing was changed.
	Failed      Outcome = "failed"  // Failed, or cancelled by somebody.
	RolledBack  Outcome = "rolled-back"
	TimedOut    Outcome = "timed-out"
	Stalled     Outcome = "stalled"
	Conflict    Outcome = "conflict"   // Another refresh is under way.
	Incomplete  Outcome = "incomplete" // It ended, but outdated or retained instances remain.
	Interrupted Outcome = "interrupted"
	Error       Outcome = "error"   // AWS refused a call, or the like.
	Skipped     Outcome = "skipped" // Not begun, since another group failed.
)

// Reporter is told of a rollout. It is called from one goroutine at a time.
type Reporter interface {
	Plan(plans []Plan) error
	Show(r Rollout) // As often as something has changed, and once a second in a live view.
	End(r Rollout)  // Once.
}
