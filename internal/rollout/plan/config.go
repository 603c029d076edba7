package plan

import (
	"context"
	"time"

	"github.com/node-drainer/node-drainer/internal/autoscaler"
	"github.com/node-drainer/node-drainer/internal/cluster"
	"github.com/node-drainer/node-drainer/internal/gate"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// Config configures rollouts. The zero value of a duration is no limit.
type Config struct {
	Selection refresh.Selection

	Mode    refresh.Mode
	Version string        // See refresh.Criteria.
	MaxAge  time.Duration // In batches only.
	Only    []string      // In batches only: replace these instances only.
	Exclude []string      // In batches only: keep instances whose nodes have a label KEY or KEY=VALUE.
	All     bool          // Replace all instances, outdated or not.

	// ModeRefresh only.
	Preferences refresh.Preferences
	Surge       *refresh.Amount // Instead of the percentages of Preferences.
	Pin         refresh.Pin
	OnConflict  Conflict

	// In batches only.
	Pace refresh.Pace

	Taint      cluster.Effect // Keeps new pods off outdated nodes; empty is NoTaint.
	Allow      []string       // Preflight checks that may fail.
	Suspend    []string       // Processes to suspend during the rollout, of refresh.Suspendable.
	Autoscaler Autoscaler     // The Cluster Autoscaler to pause during rollouts, or nil.
	RaiseMax   bool           // Raise the maximum size of a group during the rollout, if that is too small.

	Wait         bool
	Until        Until
	Timeout      time.Duration
	StallTimeout time.Duration
	ReadyTimeout time.Duration // How long a new instance may be in service without a ready node.
	PollInterval time.Duration
	OnInterrupt  Interrupt
	Gate         Gate // Decides whether the rollout continues; nil always does.
	GateTimeout  time.Duration
	Order        []string      // The names of the groups in the order in which they are replaced; empty is by their waves.
	Together     refresh.Phase // The last phase that is done for all groups, before any begins the next.
	Parallel     int           // Groups at a time; 0 is all.
	FailFast     bool

	Interval time.Duration   // Between two rounds of a Watcher.
	Windows  refresh.Windows // Outside them nothing begins, and refreshes are paused.

	Self   string // The instance that the trigger runs on, or empty.
	Holder string // Names this process to other triggers, without spaces.
}

// rollsBack reports whether a refresh may have to be rolled back.
func (c Config) rollsBack() bool { return c.Preferences.AutoRollback || c.OnInterrupt == Rollback }

// Taints reports whether outdated nodes are tainted.
func (c Config) Taints() bool { return c.Taint != cluster.NoTaint && c.Taint != "" }

// HoldsAny reports whether a rollout changes a group in a way that AWS does not exclude for two clients.
func (c Config) HoldsAny() bool {
	return c.Mode.InBatches() || len(c.Suspend) > 0 || c.RaiseMax || len(c.Windows) > 0 && c.Mode != refresh.ModeNodegroup
}

// Conflict is what to do if a refresh of the group is under way already.
type Conflict string

// The ways to handle a conflict.
const (
	Attach       Conflict = "attach" // Follow it, if it has the same target.
	Wait         Conflict = "wait"   // Wait for its end, then replace what is still outdated.
	CancelActive Conflict = "cancel" // Cancel it, then start another one.
	Fail         Conflict = "fail"
)

// Until is when a rollout has ended.
type Until string

// The conditions, each of which includes the ones before.
const (
	Replaced   Until = "replaced"   // AWS reports success.
	Drained    Until = "drained"    // No terminating hook holds an old instance.
	Terminated Until = "terminated" // The old instances have left the group.
)

// Interrupt is what to do about a running refresh when the trigger is interrupted.
type Interrupt string

// The ways to handle an interrupt.
const (
	Detach   Interrupt = "detach" // Leave it running.
	Cancel   Interrupt = "cancel"
	Rollback Interrupt = "rollback"
)

// Gate is a check of the user's own. Try returns why the rollout must not continue at the point, or nil.
type Gate interface {
	Try(ctx context.Context, at gate.Point) error
}

// Autoscaler is the Deployment of the Cluster Autoscaler: see autoscaler.Deployment.
type Autoscaler interface {
	String() string
	State(ctx context.Context) (autoscaler.State, error)
	Pause(ctx context.Context, owner string, expires time.Time, dead *autoscaler.Pause) error
	Renew(ctx context.Context, owner string, expires time.Time) error
	Resume(ctx context.Context, p autoscaler.Pause) (resumed bool, err error)
}
