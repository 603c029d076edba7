package agent_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/node-drainer/node-drainer/pkg/ec2"
	"github.com/node-drainer/node-drainer/pkg/node"
	"github.com/node-drainer/node-drainer/pkg/queue"
)

// TestDuringADrain: a second event while a node is drained, after half a minute.
func TestDuringADrain(t *testing.T) {
	t.Parallel()
	hook := func(f *fixture) queue.Message { return message("drain", f.start) }
	for _, tt := range []struct {
		name          string
		given         func(f *fixture)
		first, second func(f *fixture) queue.Message
		steps         []string // until the second is handled
	}{
		{
			name:  "the maintenance is canceled: uncordoned",
			first: maintenance, second: canceledMaintenance,
			steps: []string{"cordon until 1h0m0s", "drain node-1 until 1h0m0s", "uncordon"},
		},
		{
			name: "the maintenance is canceled after the drain: uncordoned", given: func(f *fixture) { f.drainTakes = time.Second },
			first: maintenance, second: canceledMaintenance,
			steps: append(drainedWithoutHook("1h0m0s"), "uncordon"),
		},
		{
			name: "the canceled maintenance is still scheduled: the drain continues", given: func(f *fixture) {
				f.scheduled = func(time.Duration) (bool, error) { return true, nil }
			},
			first: maintenance, second: canceledMaintenance,
			steps: []string{"cordon until 1h0m0s", "drain node-1 until 1h0m0s"},
		},
		{
			name: "canceled maintenance of a node that is not cordoned", second: canceledMaintenance,
			steps: []string{},
		},
		{
			name: "canceled maintenance of an instance without a node", given: func(f *fixture) { f.registers = never },
			second: canceledMaintenance, steps: []string{},
		},
		{
			name:  "canceled maintenance during the drain of a hook: the drain continues",
			first: hook, second: canceledMaintenance,
			steps: []string{"hold drain", "cordon until 1h0m0s", "drain node-1 until 1h0m0s"},
		},
		{
			name: "a forged event during the drain of a hook: the drain continues", given: func(f *fixture) { f.ec2 = describes(ec2.Instance{State: running}) },
			first: hook, second: spotWarning,
			steps: []string{"hold drain", "cordon until 1h0m0s", "drain node-1 until 1h0m0s"},
		},
		{
			name: "a Spot interruption during the drain of a hook: the drain is tightened",
			// No label is wanted here: which of the two events would set it last is not defined.
			given: func(f *fixture) { f.excludeErrs = repeat(node.ErrGone, 2) },
			first: hook, second: spotWarning,
			steps: []string{
				"hold drain", "cordon until 1h0m0s", "drain node-1 until 1h0m0s", "cordon until 1m55s", "tighten node-1 until 1m55s",
				"release drain", "complete drain with CONTINUE",
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFixture()
				f.drainTakes = 10 * time.Minute
				f.scheduled = func(after time.Duration) (bool, error) { return after < time.Minute, nil }
				if tt.given != nil {
					tt.given(f)
				}
				a := f.agent()
				if tt.first != nil {
					go func() { _ = a.Handle(t.Context(), tt.first(f)) }()
				}
				time.Sleep(30 * time.Second)
				if err := a.Handle(t.Context(), tt.second(f)); err != nil {
					t.Error(err)
				}
				synctest.Wait()
				if diff := cmp.Diff(tt.steps, f.did("")); diff != "" {
					t.Error(diff)
				}
				if took := f.after(); took > 2*time.Minute {
					t.Errorf("the second event took until %v", took)
				}
				time.Sleep(time.Hour)
			})
		})
	}
}
