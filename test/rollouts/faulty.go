package rollouts

import (
	"context"
	"time"

	"github.com/node-drainer/node-drainer/internal/rollout"
	"github.com/node-drainer/node-drainer/internal/rollout/plan"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// Blind reads each instance, and each node group, as one of another version than it has. If Aged, they were launched
// long ago.
type Blind struct {
	plan.Reader
	Aged bool
}

func (b Blind) change(all []refresh.Group) []refresh.Group {
	for n := range all {
		g := &all[n]
		if ng := g.Nodegroup; ng != nil {
			other := *ng
			other.Has.Release, g.Nodegroup = "1.31.0-20200101", &other
		}
		for k := range g.Instances {
			i := &g.Instances[k]
			if i.Template != nil {
				i.Template = &refresh.Template{ID: i.Template.ID, Name: i.Template.Name, Version: "77"}
			}
			if b.Aged {
				i.Launched = time.Now().Add(-1000 * time.Hour)
			}
		}
	}
	return all
}

// Find implements plan.Reader.
func (b Blind) Find(ctx context.Context, s refresh.Selection) ([]refresh.Group, error) {
	all, err := b.Reader.Find(ctx, s)
	return b.change(all), err
}

// Group implements plan.Reader.
func (b Blind) Group(ctx context.Context, name string) (refresh.Group, error) {
	g, err := b.Reader.Group(ctx, name)
	return b.change([]refresh.Group{g})[0], err
}

// Complete implements plan.Reader.
func (b Blind) Complete(ctx context.Context, all []refresh.Group) error {
	err := b.Reader.Complete(ctx, all)
	b.change(all)
	return err
}

// Forgetful changes nothing of what it should give back.
type Forgetful struct {
	rollout.Writer
	Surge, Standby, Processes, Most bool
}

// Terminate implements rollout.Writer.
func (f Forgetful) Terminate(ctx context.Context, id string) error {
	if f.Surge {
		return nil
	}
	return f.Writer.Terminate(ctx, id)
}

// Lower implements rollout.Writer.
func (f Forgetful) Lower(ctx context.Context, g refresh.Group) (int, error) {
	if f.Surge {
		return g.Desired, f.WriteSurge(ctx, g.Name, refresh.Surge{})
	}
	return f.Writer.Lower(ctx, g)
}

// WriteStandby implements rollout.Writer.
func (f Forgetful) WriteStandby(ctx context.Context, g refresh.Group, record refresh.StandbyRecord) error {
	if f.Standby {
		return nil
	}
	return f.Writer.WriteStandby(ctx, g, record)
}

// Release implements rollout.Writer.
func (f Forgetful) Release(ctx context.Context, g refresh.Group, only ...string) ([]string, error) {
	if f.Processes {
		return nil, nil
	}
	return f.Writer.Release(ctx, g, only...)
}

// RestoreMax implements rollout.Writer.
func (f Forgetful) RestoreMax(ctx context.Context, g refresh.Group) (bool, error) {
	if f.Most {
		return false, nil
	}
	return f.Writer.RestoreMax(ctx, g)
}
