// Package trigger is the story of a rollout: what is outdated is found, checked, replaced and followed to its
// end. It declares the interfaces that it needs, and imports no SDK.
package rollout

import (
	"context"

	"github.com/node-drainer/node-drainer/internal/report"
	"github.com/node-drainer/node-drainer/pkg/cluster"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// Reader is refresh.Reader.
type Reader interface {
	Find(ctx context.Context, s refresh.Selection) ([]refresh.Group, error)
	Group(ctx context.Context, name string) (refresh.Group, error)
	Templates(ctx context.Context, groups []refresh.Group, version string) (refresh.Templates, error)
	Complete(ctx context.Context, groups []refresh.Group) error
	Hooks(ctx context.Context, group string) ([]refresh.Hook, error)
	Refreshes(ctx context.Context, group string) ([]refresh.Refresh, error)
	Refresh(ctx context.Context, group, id string) (refresh.Refresh, error)
}

// Writer is refresh.Writer.
type Writer interface {
	Start(
		ctx context.Context, g refresh.Group, t refresh.Target, pin bool, p refresh.Preferences,
	) (string, error)
	Cancel(ctx context.Context, group string) (string, error)
	Rollback(ctx context.Context, group string) (string, error)
	Pause(ctx context.Context, group string) error
	Resume(ctx context.Context, group string) error
	MarkUnhealthy(ctx context.Context, instanceID string) error
	Terminate(ctx context.Context, instanceID string) error
	Raise(ctx context.Context, g refresh.Group, by int) (refresh.Surge, error)
	Lower(ctx context.Context, g refresh.Group) (bool, error)
	Suspend(ctx context.Context, g refresh.Group, processes []string) ([]string, error)
	Release(ctx context.Context, g refresh.Group) ([]string, error)
}

// Cluster is cluster.View. It is nil where the cluster cannot be reached.
type Cluster interface {
	Node(instanceID string) (cluster.Node, bool)
	Loads(ctx context.Context, nodes []string) (map[string]cluster.Load, error)
}

// Planner says what is outdated. It has no Writer.
type Planner struct {
	cfg    Config
	reader Reader
	view   Cluster
}

// NewPlanner returns a Planner. The view may be nil.
func NewPlanner(cfg Config, reader Reader, view Cluster) *Planner {
	return &Planner{cfg: cfg, reader: reader, view: view}
}

// Trigger has outdated instances replaced.
type Trigger struct {
	*Planner
	writer   Writer
	tainter  Tainter // nil without.
	reporter report.Reporter
}

// New returns a Trigger. The view may be nil.
func New(cfg Config, reader Reader, writer Writer, view Cluster, reporter report.Reporter) *Trigger {
	return &Trigger{Planner: NewPlanner(cfg, reader, view), writer: writer, reporter: reporter}
}

// Action is what can be done to a refresh that runs.
type Action string

// The actions.
const (
	ActCancel   Action = "cancel"
	ActRollback Action = "rollback"
	ActPause    Action = "pause"
	ActResume   Action = "resume"
)
