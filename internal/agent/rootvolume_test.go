package agent_test

import (
	"slices"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/internal/agent"
	"github.com/node-drainer/node-drainer/internal/autoscaling"
	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/pkg/queue"
)

const (
	replacingWait      = autoscaling.State("ReplacingRootVolume:Wait")
	replacingProceeds  = autoscaling.State("ReplacingRootVolume:Proceed")
	rootVolumeReplaced = autoscaling.State("RootVolumeReplaced")
)

// replacing is the message of the terminating hook before a root volume is replaced.
func replacing(f *fixture) queue.Message {
	m := message("drain", f.start)
	m.Body = slices.Concat([]byte(`{"Action":"ReplaceRootVolume","Origin":"AutoScalingGroup",`+
		`"Destination":"AutoScalingGroup",`), m.Body[1:])
	return m
}

// TestRootVolumeReplacement: an instance whose root volume is replaced is drained like one that terminates.
func TestRootVolumeReplacement(t *testing.T) {
	t.Parallel()
	drained := drainedBy("1h0m0s")
	for _, tt := range []struct {
		name    string
		state   answer[autoscaling.State]
		steps   []string
		outcome agent.Outcome
	}{
		{"waits for its hook: drained", always(replacingWait), drained, agent.Drained},
		{"does not wait for its hook yet: drained", always(autoscaling.State("ReplacingRootVolume")), drained, agent.Drained},
		{"an old answer", changes(inService, 10*time.Second, replacingWait), drainedBy("1h0m10s..1h1m0s"), agent.Drained},
		{"past its hook", always(replacingProceeds), nil, agent.Gone},
		{"the volume is replaced", always(rootVolumeReplaced), nil, agent.Gone},
		{"a late copy during the launch that follows", always(pendingWait), nil, agent.Gone},
		{"in service", always(inService), nil, agent.Unconfirmed},
	} {
		each(t, tt.name, stateIs(tt.state), func(t *testing.T, f *fixture) {
			f.node.BootID = "boot-1"
			mustHandle(t, f, f.agent(), replacing)
			f.wantSteps(t, tt.steps...)
			f.wantOutcome(t, tt.outcome)
			if drained := tt.outcome == agent.Drained; drained != f.node.AwaitsBoot() {
				t.Errorf("drained: %v, and the mark is %+v", drained, f.node.Mark)
			}
		})
	}
}

// TestTerminationAfterRootVolumeReplacement: Auto Scaling may still describe the replacement when the instance terminates.
func TestTerminationAfterRootVolumeReplacement(t *testing.T) {
	t.Parallel()
	terminates := func(f *fixture) queue.Message {
		m := message("drain", f.start)
		m.Body = slices.Concat([]byte(`{"Action":"Terminate","Origin":"AutoScalingGroup","Destination":"EC2",`), m.Body[1:])
		return m
	}
	for _, old := range []autoscaling.State{replacingProceeds, rootVolumeReplaced} {
		each(t, string(old), stateIs(changes(old, 10*time.Second, terminating)), func(t *testing.T, f *fixture) {
			mustHandle(t, f, f.agent(), terminates)
			f.wantSteps(t, drainedBy("1h0m10s..1h1m0s")...)
			f.wantOutcome(t, agent.Drained)
		})
	}
}

// TestRootVolumeReplacementWithoutMessage: a resync finds the instance, and uncordons it when it is in service.
func TestRootVolumeReplacementWithoutMessage(t *testing.T) {
	inBubble(t, inGroup(replacingWait, "drain"), func(t *testing.T, f *fixture) {
		f.node.BootID = "boot-1"
		f.members = func(after time.Duration) (map[string]autoscaling.Member, error) {
			switch {
			case after < 4*time.Minute:
				return member(replacingWait), nil
			case after < 8*time.Minute:
				return member(rootVolumeReplaced), nil
			}
			return member(inService), nil
		}
		f.state = func(after time.Duration) (autoscaling.State, error) {
			members, err := f.members(after)
			return members[instance].State, err
		}
		resync(t, f.agent(), 8*time.Minute)
		f.wantSteps(t, drainedBy("1h0m0s")...)
		if !f.node.AwaitsBoot() {
			t.Errorf("the mark does not say that the instance boots: %+v", f.node.Mark)
		}
		resync(t, f.agent(), 8*time.Minute)
		if n := len(f.did("uncordon")); n != 1 || f.node.AwaitsBoot() {
			t.Errorf("uncordoned %d times; the mark is %+v", n, f.node.Mark)
		}
	})
}

// TestLaunchAfterRootVolumeReplacement: the Node of the old boot may still look ready. The launch waits for the new
// boot before it uncordons the node.
func TestLaunchAfterRootVolumeReplacement(t *testing.T) {
	t.Parallel()
	const m = time.Minute
	marked := with(launching, cordoned(event.LifecycleTerminating, -5*m, 55*m, 0), readyAt(0), func(f *fixture) {
		f.node.BootID, f.node.Mark.BootID = "boot-1", "boot-1"
	})
	ready := completed("CONTINUE", "await", "uncordon", "wait for node-1")
	const waits = `"node-1" waits for a boot from the new root volume`
	for _, tt := range []struct {
		name  string
		given given
		steps []string
		fact  string
		took  time.Duration
	}{
		{"the node boots", boots(2 * m), ready, waits, 2 * m},
		{"an old answer of Auto Scaling", with(boots(2*m), stateIs(changes(rootVolumeReplaced, 10*time.Second, pendingWait))), ready, waits, 2 * m},
		{"the node has booted before the message", boots(time.Nanosecond), ready, "launch uncordoned", 0},
		{"the mark is of a return to the warm pool, without a boot", func(f *fixture) { f.node.Mark.BootID = "" }, ready, "launch uncordoned", 0},
		{
			"EC2 is about to terminate the instance: it stays cordoned",
			with(boots(2*m), func(f *fixture) { f.node.Mark.TerminatesAt = f.start.Add(10 * m) }),
			completed("CONTINUE", "await", "wait for node-1"), waits, 2 * m,
		},
		{
			"the node does not boot in time", nil, completed("ABANDON", "await", "cordon until 1h15m0s", "drain node-1 until 55m0s", "exclude"),
			`"node-1" is overdue, lacks a boot from the new root volume: abandoned`, 15*m + 10*time.Second,
		},
		{
			"the watch does not show the boot", func(f *fixture) { f.hidden = true; boots(m)(f) },
			completed("CONTINUE", "await", "look up", "uncordon", "ask about node-1"), "launch ended ready", 15 * m,
		},
	} {
		each(t, tt.name, with(marked, tt.given), func(t *testing.T, f *fixture) {
			time.Sleep(time.Nanosecond)
			mustHandle(t, f, f.agent(), launchTo("AutoScalingGroup"))
			f.wantSteps(t, tt.steps...)
			if f.observed(tt.fact) != 1 || f.after().Round(time.Millisecond) != tt.took {
				t.Errorf("after %v, want %v; facts: %q", f.after(), tt.took, f.facts)
			}
		})
	}
}
