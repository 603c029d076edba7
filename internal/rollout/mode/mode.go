package mode

import (
	"context"

	"github.com/node-drainer/node-drainer/internal/rollout/hold"
	"github.com/node-drainer/node-drainer/internal/rollout/loop"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// Writer makes the calls of all modes.
type Writer interface {
	refreshWriter
	hold.ProcessWriter
	batchWriter
	standbyWriter
	standbyReturner
	begunWriter
}

// Mode is how the instances of a group are replaced: one of refresh.Modes.
type Mode interface {
	// Attach reports whether what is under way in the group is to be followed, so that nothing is to be started. The
	// active refresh is nil if there is none.
	Attach(ctx context.Context, active *refresh.Refresh) (attached bool, err error)
	// Step does what is to be done next in a phase: in PhaseTaint it ends what is under way in the group and is not
	// followed, in PhaseSurge it raises the desired capacity if that is requested, in PhaseReplace it replaces what is
	// outdated. Its phases have this order.
	Step(ctx context.Context, phase refresh.Phase) (*loop.Wait, error)
	// Undo does what Config.OnInterrupt asks for, and describes the result to the user.
	Undo(ctx context.Context) string
	// Remains describes what goes on or stays as it is without the trigger.
	Remains() string
	// Begun reports whether anything does: of this run, or of an earlier one that this one continues.
	Begun() bool
}

// New returns the mode of the configuration for a group.
func New(g *loop.Group, aws Writer, begins *Beginning, gates *Gates) Mode {
	byAWS := operation{group: g, aws: aws, gates: gates, hours: hold.Hours{Group: g, AWS: aws}}
	m := newMarker(g, aws)
	inBatches := &batches{group: g, by: m, capacity: m.capacity, beginning: begins, gates: gates}
	switch g.Config.Mode {
	case refresh.ModeNodegroup:
		return &nodegroupUpdate{operation: byAWS}
	case refresh.ModeUnhealthy:
		return inBatches
	case refresh.ModeStandby:
		inBatches.by = &standby{aws: aws, marker: m}
		return inBatches
	default:
		return &instanceRefresh{operation: byAWS}
	}
}

func newMarker(g *loop.Group, aws batchWriter) marker {
	return marker{g, aws, &hold.Capacity{Group: g, AWS: aws}, marks{}}
}
