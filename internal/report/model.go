// Package report writes plans, the progress of rollouts, and their outcomes, for people and for machines. It
// gets them as plain data.
package report

import (
	"slices"
	"time"

	"github.com/node-drainer/node-drainer/internal/cluster"
	"github.com/node-drainer/node-drainer/internal/history"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// Plan is what a rollout of a group would do, and why.
type Plan struct {
	Group     string            `json:"group"`
	Mode      refresh.Mode      `json:"mode"`
	Nodegroup string            `json:"nodegroup,omitempty"` // The EKS managed node group that the group belongs to.
	Target    string            `json:"target"`              // What its instances should have been launched from, as text.
	Desired   int               `json:"desired"`
	Outdated  int               `json:"outdated"`                // How many will be replaced.
	Kept      int               `json:"kept"`                    // How many are outdated and will not be replaced.
	Newer     string            `json:"newerVersion,omitempty"`  // That the template has a newer version than the group's.
	Active    string            `json:"activeRefresh,omitempty"` // The id of the active refresh.
	Reasons   []refresh.Reason  `json:"reasons,omitempty"`       // Why the managed node group is outdated, also without nodes.
	Refused   []string          `json:"refused,omitempty"`       // The checks for which a run would end before it changes anything.
	Steps     []string          `json:"steps,omitempty"`         // What a run would send, in its order, if it is not refused.
	Holds     []refresh.Hold    `json:"holds,omitempty"`         // What triggers have changed for a rollout.
	Duration  *Duration         `json:"duration,omitempty"`      // Of a rollout; nil if there are no forecasts.
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
	Launched time.Time        `json:"launched,omitzero"`
	Outdated bool             `json:"outdated"`
	Reasons  []refresh.Reason `json:"reasons,omitempty"`
	Kept     []refresh.Reason `json:"kept,omitempty"`
	Node     *cluster.Node    `json:"node,omitempty"` // nil if not known.
	Load     *cluster.Load    `json:"load,omitempty"`
	Drain    *Forecast        `json:"drain,omitempty"` // nil if there is no forecast.
}

// Rollout is the state of a rollout in all groups at one moment.
type Rollout struct {
	At      time.Time `json:"at"`
	Started time.Time `json:"started"`
	Groups  []Group   `json:"groups"` // In the order of the rollout; always the same ones.
}

// Group is the state of a rollout in one group.
type Group struct {
	Name      string         `json:"group"`
	Mode      refresh.Mode   `json:"mode"`
	Nodegroup string         `json:"nodegroup,omitempty"` // The EKS managed node group that the group belongs to.
	Phase     Phase          `json:"phase"`
	Target    string         `json:"target"`
	Desired   int            `json:"desired"`
	Refresh   string         `json:"refresh,omitempty"`        // The id of the Instance Refresh.
	Attached  bool           `json:"attached,omitempty"`       // It was not started by this run.
	Status    string         `json:"status,omitempty"`         // Of the refresh, from the API.
	Reason    string         `json:"reason,omitempty"`         // Of that status, from the API.
	Percent   int            `json:"refreshPercent,omitempty"` // What AWS says of the refresh.
	Total     int            `json:"total"`                    // The number of instances to be replaced, counted at the start.
	Gone      int            `json:"gone"`                     // How many of them count as replaced, depending on --until.
	Holds     []refresh.Hold `json:"holds,omitempty"`          // What triggers have changed for a rollout; in a status only.
	Instances []Instance     `json:"instances"`                // All that are in the group now.
	Notes     []Note         `json:"notes,omitempty"`          // Actions and findings, oldest first. Notes are only appended.
	Outcome   Outcome        `json:"outcome,omitempty"`        // Empty until it has ended.
	Message   string         `json:"message,omitempty"`        // Of the outcome: the state, and what to do.
	Ended     time.Time      `json:"ended,omitzero"`
	Failed    string         `json:"failed,omitempty"` // The target that trigger watch does not try again; of a status only.
}

// Ended reports whether nothing is under way in any of the groups of a status.
func (r Rollout) Ended() bool {
	return !slices.ContainsFunc(r.Groups, func(g Group) bool { return g.Outcome == "" })
}

// Note is an action or a finding that the other fields do not show.
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

// Phase is the phase of a group's rollout.
type Phase string

// The phases, in their order.
const (
	Queued    Phase = "queued"    // It waits for other groups, or for another refresh.
	Preparing Phase = "preparing" // It is checked, and made ready: nodes are tainted, and the desired capacity is raised.
	Replacing Phase = "replacing" // New instances are launched, old ones terminated.
	Baking    Phase = "baking"    // All instances are replaced; alarms are watched.
	Draining  Phase = "draining"  // The refresh has ended; old nodes still have pods.
	Finished  Phase = "finished"
)

// Outcome is how the rollout of a group ended.
type Outcome string

// The outcomes.
const (
	Done        Outcome = "done"     // No outdated instance is left.
	Nothing     Outcome = "nothing"  // There was none.
	Detached    Outcome = "detached" // The refresh continues; the trigger does not wait for it.
	Refused     Outcome = "refused"  // By the preflight; nothing was changed.
	Failed      Outcome = "failed"   // Failed or cancelled.
	Gated       Outcome = "gated"    // A gate did not pass.
	RolledBack  Outcome = "rolled-back"
	Ineffective Outcome = "ineffective" // What the group launches for the target is outdated, too.
	TimedOut    Outcome = "timed-out"
	Stalled     Outcome = "stalled"
	Conflict    Outcome = "conflict"   // Another refresh is active.
	Incomplete  Outcome = "incomplete" // It ended, but outdated or retained instances remain, or a hold of its own.
	Interrupted Outcome = "interrupted"
	Error       Outcome = "error"   // A call failed.
	Skipped     Outcome = "skipped" // Not started, because another group failed.
)

// Reporter reports a plan, a status, marked nodes or a rollout. It is called from one goroutine at a time, and may
// keep what it is given.
type Reporter interface {
	Plan(plans []Plan, exitCode int)
	Status(r Rollout) // The newest refresh of each group.
	Nodes(all Nodes)  // The marked nodes.
	// History reports records of drains, detailed with what became of each pod.
	History(drains []history.Drain, detailed bool)
	Note(group string, n Note) // Of trigger watch, between rollouts; the group is empty if it is about none.
	Changed(c Change)          // What has happened in a rollout, at once.
	Show(r Rollout)            // How far it is, once a second.
	End(r Rollout)             // Once.
	Err() error                // The first error of writing. Nothing was written after it.
}
