package agent_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/internal/agent"
	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/internal/node"
)

// Managed counts the node and the others.
func (f nodes) Managed() map[node.Manager]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	counts := map[node.Manager]int{}
	for manager, n := range f.managed {
		counts[manager] += n
	}
	if n := f.current(); n.Manager != "" {
		counts[n.Manager]++
	}
	return counts
}

func (f *fixture) NodesManaged(m node.Manager, nodes int, first bool) {
	if first {
		f.fact("%d nodes of %s", nodes, m)
	}
}

func of(m node.Manager) given { return func(f *fixture) { f.node.Manager = m } }

// TestNoticesForKarpenter: what AWS announces is left to Karpenter, whose queue has the same messages. What a user asks
// for is done, and so is what a hook waits for: then the instance is in a group, whatever its labels say.
func TestNoticesForKarpenter(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		given   given
		message source
		steps   []string
		outcome agent.Outcome // empty: the event is ignored, without a call of AWS
	}{
		{name: "Spot interruption", given: uncalled, message: spotWarning},
		{
			name: "Spot interruption before the node has registered", given: with(uncalled, registers(20*time.Second)),
			message: spotWarning, steps: []string{"await"},
		},
		{name: "rebalance recommendation", given: uncalled, message: rebalance},
		{name: "maintenance", given: uncalled, message: maintenance},
		{name: "termination bypassing Karpenter", given: uncalled, message: stateChange("shutting-down")},
		{name: "stop", given: uncalled, message: stateChange("stopping")},
		{
			name:  "Capacity Block",
			given: with(uncalled, func(f *fixture) { f.reserved = []string{instance} }), message: capacityBlock,
		},
		{name: "Capacity Reservation", given: uncalled, message: reservationInterruption},
		{
			name: "alarm", given: func(f *fixture) { f.cfg.Events.Alarm = event.Drain }, message: alarmOn,
			steps: drainedWithoutHook("1h0m0s"), outcome: agent.Drained,
		},
		{name: "hook", message: termination, steps: drainedBy("1h0m0s"), outcome: agent.Drained},
	} {
		for _, manager := range []node.Manager{node.Karpenter, node.AutoMode} {
			given := of(manager)
			if tt.given != nil {
				given = with(given, tt.given)
			}
			each(t, string(manager)+": "+tt.name, given, func(t *testing.T, f *fixture) {
				mustHandle(t, f, f.agent(), tt.message)
				f.wantSteps(t, tt.steps...)
				ignored := slices.ContainsFunc(f.facts, func(fact string) bool {
					return strings.HasPrefix(fact, "ignored") && strings.Contains(fact, "managed by "+string(manager))
				})
				if ignored != (tt.outcome == "") {
					t.Errorf("ignored: %t", ignored)
				}
				if tt.outcome != "" {
					f.wantOutcome(t, tt.outcome)
				}
			})
		}
	}
}

// TestManagedNodesAreLeftAlone: resyncs report each manager once, and do nothing about its nodes.
func TestManagedNodesAreLeftAlone(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		given given
		steps []string
	}{
		{name: "unmarked"},
		{
			name:  "with maintenance that was announced before",
			given: func(f *fixture) { f.node.Maintenance = f.start.Add(2 * time.Hour) },
		},
		{
			name:  "cordoned for a Spot interruption before, which does not come",
			given: cordoned(event.SpotInterruption, 0, time.Minute, 2*time.Minute), steps: []string{"uncordon"},
		},
	} {
		alone := with(of(node.Karpenter), inState(inNoGroup), func(f *fixture) {
			f.managed = map[node.Manager]int{node.Fargate: 3}
		})
		if tt.given != nil {
			alone = with(alone, tt.given)
		}
		each(t, tt.name, alone, func(t *testing.T, f *fixture) {
			resync(t, f.agent(), time.Hour)
			f.wantSteps(t, tt.steps...)
			for _, want := range []string{"1 nodes of karpenter", "3 nodes of fargate"} {
				if n := f.observed(want); n != 1 {
					t.Errorf("%q was observed %d times", want, n)
				}
			}
		})
	}
}
