package rollout

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/node-drainer/node-drainer/internal/cluster"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

func (a fakeWrites) EnterStandby(ctx context.Context, _ string, ids []string) error {
	if err := a.call(ctx, "EnterStandby ", strings.Join(ids, ",")); err != nil {
		return err
	}
	a.setState(ids, "Standby")
	return nil
}

func (a fakeWrites) TerminateStandby(ctx context.Context, id string) error {
	return a.call(ctx, "TerminateStandby ", id)
}

func (a fakeWrites) Stop(ctx context.Context, ids []string) error {
	return a.call(ctx, "Stop ", strings.Join(ids, ","))
}

func (a fakeWrites) RequestDrain(ctx context.Context, n cluster.Node) error {
	return a.call(ctx, "RequestDrain ", n.Name)
}

func (a fakeWrites) WithdrawDrain(ctx context.Context, n cluster.Node) error {
	return a.call(ctx, "WithdrawDrain ", n.Name)
}

func (a fakeWrites) ExitStandby(ctx context.Context, _ string, ids []string) error {
	return a.call(ctx, "ExitStandby ", strings.Join(ids, ","))
}

func (a fakeWrites) StartMachines(ctx context.Context, ids []string) error {
	return a.call(ctx, "StartMachines ", strings.Join(ids, ","))
}

func (fakeWrites) MachineStates(context.Context, []string) (map[string]string, error) {
	return nil, nil
}

func (a fakeWrites) setState(ids []string, state string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for n, i := range a.group.Instances {
		if slices.Contains(ids, i.ID) {
			a.group.Instances[n].State = state
		}
	}
}

func (a fakeWrites) WriteStandby(ctx context.Context, g refresh.Group, record refresh.StandbyRecord) error {
	set, remove := refresh.StandbyTags(g, record)
	a.mu.Lock()
	tags := maps.Clone(g.Tags)
	if tags == nil {
		tags = map[string]string{}
	}
	maps.Copy(tags, set)
	for _, key := range remove {
		delete(tags, key)
	}
	a.group.Tags = tags
	a.mu.Unlock()
	return a.call(ctx, "WriteStandby")
}
