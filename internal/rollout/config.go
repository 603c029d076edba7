package rollout

import (
	"time"

	"github.com/node-drainer/node-drainer/pkg/cluster"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// Config is what the trigger is to do. The zero value of a duration is no limit.
type Config struct {
	Selection    refresh.Selection
	AllowManaged bool // Groups of EKS managed node groups too.

	Mode    refresh.Mode
	Version string        // See refresh.Criteria.
	MaxAge  time.Duration // ModeUnhealthy only.
	Only    []string      // ModeUnhealthy only: these instances.
	Exclude []string      // ModeUnhealthy only: instances of nodes with a label KEY or KEY=VALUE.
	All     bool          // Outdated or not.

	// Of ModeRefresh.
	Preferences refresh.Preferences
	Surge       *refresh.Amount // Instead of Preferences' percentages.
	Strategy    refresh.Strategy
	Pin         bool
	OnConflict  Conflict

	// Of ModeUnhealthy.
	Pace refresh.Pace

	Taint cluster.Effect // How new pods are kept off outdated nodes; empty is NoTaint.

	Allow []string // Checks of the preflight that may refuse in vain.

	Suspend []string // Processes of the groups that are suspended meanwhile: of refresh.Suspendable.

	Wait         bool
	Until        Until
	Timeout      time.Duration
	StallTimeout time.Duration
	PollInterval time.Duration
	OnInterrupt  Interrupt
	Parallel     int // Groups at a time; 0 is all.
	FailFast     bool

	Self string // The instance that the trigger runs on, or empty.
}

// Conflict is what to do if a refresh of the group is under way already.
type Conflict string

// What to do about it.
const (
	Attach       Conflict = "attach" // Follow it, if it has the same target.
	Wait         Conflict = "wait"   // Then look again what is outdated.
	CancelActive Conflict = "cancel" // Then start our own.
	Fail         Conflict = "fail"
)

// Until is when a rollout is over.
type Until string

// When it is over.
const (
	Replaced   Until = "replaced"   // AWS says so.
	Drained    Until = "drained"    // And no terminating hook holds an old instance.
	Terminated Until = "terminated" // And the old instances have left the group.
)

// Interrupt is what becomes of what runs, if the trigger is stopped.
type Interrupt string

// What becomes of it.
const (
	Detach   Interrupt = "detach" // It goes on.
	Cancel   Interrupt = "cancel"
	Rollback Interrupt = "rollback"
)
