package agent_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/internal/autoscaling"
	"github.com/node-drainer/node-drainer/internal/ec2"
	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/internal/node"
)

const (
	pending       = autoscaling.State("Pending")
	pendingWait   = autoscaling.State("Pending:Wait")
	warmedPending = autoscaling.State("Warmed:Pending:Wait")
	warmedStopped = autoscaling.State("Warmed:Stopped")
)

// held are the steps between the start and the end of the hold; completed adds a completion.
func held(steps ...string) []string {
	return slices.Concat([]string{"hold launch"}, steps, []string{"release launch"})
}

func completed(result string, steps ...string) []string {
	return append(held(steps...), "complete launch with "+result)
}

func TestLaunch(t *testing.T) {
	t.Parallel()
	const (
		waits        = `"node-1" waits for Ready`
		overdue      = `"node-1" is overdue, lacks Ready: `
		unregistered = `"" waits for a registered Node`
		toGroup      = "AutoScalingGroup"
		toPool       = "WarmPool"
	)
	ready, pooled := completed("CONTINUE", "await", "wait for node-1"), []string{"complete launch with CONTINUE"}
	drained := []string{"cordon until 1h15m0s", "drain node-1 until 1h15m0s", "exclude"}
	abandoned := completed("ABANDON", append([]string{"await", "wait for node-1", "ask about node-1"}, drained...)...)
	isReady := []string{waits, "launch ended ready"}
	isReadyAtOnce, isPooled := []string{"launch ended ready"}, []string{"launch ended pooled"}
	isAbandoned := []string{waits, overdue + "abandoned", "cordoned", "drain started", "drained", "launch ended abandoned"}
	isGone, isUnconfirmed := []string{"launch ended gone"}, []string{"launch ended unconfirmed"}
	for _, tt := range []struct {
		name        string
		given       given
		destination string
		steps       []string
		facts       []string // after the start
		took        time.Duration
	}{
		{"completed when the node is ready", nil, toGroup, ready, isReady, time.Minute},
		{"old message without a destination", nil, "", ready, isReady, time.Minute},
		{"the node is ready at once", with(readyAt(0), inState(pending)), "", ready, isReadyAtOnce, 0},
		{
			"the instance registers later", registers(30 * time.Second), "", ready,
			[]string{unregistered, waits, "launch ended ready"},
			time.Minute,
		},
		{"the node is not ready in time: drained, then abandoned", readyAt(never), "", abandoned, isAbandoned, 15*time.Minute + 10*time.Second},
		{
			"the group gives up during that drain", with(readyAt(never), givesUp("launch", 15*time.Minute+time.Second)), "",
			held("await", "wait for node-1", "ask about node-1", drained[0], drained[1]),
			[]string{waits, overdue + "abandoned", "cordoned", "drain started", "drain cut short", "launch ended gone", "drain interrupted"},
			15*time.Minute + time.Second,
		},
		{
			"the node is deleted when it is overdue", with(readyAt(never), fails("cordon", 1, node.ErrGone), deleted), "",
			completed("ABANDON", "await", "wait for node-1", "ask about node-1", "look up"),
			[]string{waits, overdue + "abandoned", "launch ended abandoned"},
			15 * time.Minute,
		},
		{
			"the node is not ready in time: continued, as configured",
			with(readyAt(never), func(f *fixture) { f.cfg.Launch.Continue = true }), "",
			completed("CONTINUE", "await", "wait for node-1", "ask about node-1"),
			[]string{waits, overdue + "continued", "launch ended continued"},
			15 * time.Minute,
		},
		{
			"it lacks only DaemonSets that are Ready on no node: continued",
			with(readyAt(never), func(f *fixture) { f.lacks, f.readyNowhere = []string{"cni", "csi"}, []string{"cni", "csi"} }), "",
			completed("CONTINUE", "await", "wait for node-1", "ask about node-1"),
			[]string{waits, `"node-1" is overdue, lacks cni, csi: continued`, "launch ended continued"},
			15 * time.Minute,
		},
		{
			"it lacks such a DaemonSet, and another: abandoned",
			with(readyAt(never), func(f *fixture) { f.lacks, f.readyNowhere = []string{"cni", "csi"}, []string{"cni"} }), "",
			abandoned,
			[]string{waits, `"node-1" is overdue, lacks cni, csi: abandoned`, "cordoned", "drain started", "drained", "launch ended abandoned"},
			15*time.Minute + 10*time.Second,
		},
		{
			"the instance never registers", noNode, "", completed("ABANDON", "await", "look up"),
			[]string{unregistered, `"" is overdue, lacks a registered Node: abandoned`, "launch ended abandoned"},
			15 * time.Minute,
		},
		{
			"the watch does not show the Node", hidden, "", completed("CONTINUE", "await", "look up", "ask about node-1"),
			[]string{unregistered, "launch ended ready"},
			15 * time.Minute,
		},
		{
			"the hook's timeout is shorter", with(readyAt(never), timeout("launch", 5*time.Minute)), "",
			completed("ABANDON", "await", "wait for node-1", "ask about node-1", "cordon until 5m0s", "drain node-1 until 5m0s", "exclude"),
			isAbandoned, 5 * time.Minute,
		},

		// The warm pool.
		{"into the warm pool: completed at once", with(inState(warmedPending), noNode), toPool, pooled, isPooled, 0},
		{"into the warm pool, without a destination", with(inState(warmedPending), noNode), "", pooled, isPooled, 0},
		{
			"from the warm pool, with a cordon of the termination into it", with(readyAt(0), cordoned("", -time.Hour, 0, 0)),
			toGroup, completed("CONTINUE", "await", "uncordon", "wait for node-1"),
			[]string{"launch uncordoned", "launch ended ready"},
			0,
		},
		{
			"with a cordon of a later termination", with(readyAt(0), cordoned("", time.Second, 0, 0)),
			"", ready, isReadyAtOnce, 0,
		},
		{
			"the node is deleted before it is uncordoned",
			with(readyAt(0), cordoned("", -time.Hour, 0, 0), fails("uncordon", 1, node.ErrGone)),
			"", ready, isReadyAtOnce, 0,
		},

		// The confirmation.
		{"already in service", inState(inService), "", nil, isGone, 0},
		{"already terminating", inState(terminating), "", nil, isGone, 0},
		{
			"the group gives up", with(readyAt(never), givesUp("launch", 5*time.Minute)), "",
			held("await", "wait for node-1"),
			[]string{waits, "launch ended gone"},
			5 * time.Minute,
		},
		{"in no group, and has no node", with(inState(inNoGroup), noNode), "", nil, isGone, time.Minute},
		{"in no group, and has a node", inState(inNoGroup), "", nil, isUnconfirmed, time.Minute},
		{"a late copy of the launch into the warm pool", nil, toPool, nil, isUnconfirmed, time.Minute},
		{
			"to the group, of an instance that enters the warm pool", inState(warmedPending),
			toGroup, nil, isUnconfirmed, time.Minute,
		},
		{
			"an old answer of Auto Scaling is followed by a new one",
			stateIs(changes(warmedStopped, 10*time.Second, pendingWait)), toGroup, ready, isReady, time.Minute,
		},
		{"already in the warm pool", inState(warmedStopped), toPool, nil, isGone, 0},
		{"the group has no such hook", noHook, "", nil, isGone, 0},
	} {
		each(t, tt.name, with(launching, tt.given), func(t *testing.T, f *fixture) {
			mustHandle(t, f, f.agent(), launchTo(tt.destination))
			f.wantSteps(t, tt.steps...)
			f.wantFacts(t, append([]string{"launch started"}, tt.facts...)...)
			if f.after() != tt.took {
				t.Errorf("it took %v, want %v", f.after(), tt.took)
			}
		})
	}
}

// TestLaunchDuringOutage: a node is not abandoned while the API server does not answer and the hook can be held.
func TestLaunchDuringOutage(t *testing.T) {
	t.Parallel()
	const (
		m           = time.Minute
		lastAttempt = 18 * time.Second // the longest pause between two attempts
	)
	outage := func(until, ready time.Duration) given {
		return func(f *fixture) { f.outage, f.ready = until, ready }
	}
	for _, tt := range []struct {
		name        string
		given       given
		result      string
		least, most time.Duration
	}{
		{"the node is ready right after the outage", outage(39*m, 40*m), "CONTINUE", 40 * m, 40 * m},
		{"the node is ready two minutes after the outage", outage(39*m, 41*m), "CONTINUE", 41 * m, 41 * m},
		{"the node is not ready three minutes after the outage", outage(39*m, never), "ABANDON", 42 * m, 42*m + lastAttempt},
		{
			"the outage lasts until Auto Scaling ends the action: its default result decides",
			with(outage(never, never), timeout("launch", time.Hour), givesUp("launch", time.Hour)), "", time.Hour, time.Hour,
		},
		{
			"Auto Scaling does not say the state, but accepts a heartbeat",
			with(readyAt(m), stateIs(silent(never, pendingWait)), pendingIs(always(true))), "CONTINUE", m, m,
		},
		{"only the watches are affected", with(hidden, fails("look up", 5, errOutage)), "CONTINUE", 15 * m, 16 * m},
	} {
		each(t, tt.name, with(launching, tt.given), func(t *testing.T, f *fixture) {
			f.drainTakes = 0
			mustHandle(t, f, f.agent(), launchTo(""))
			got := strings.Join(f.did("complete"), ", ")
			if tt.result != "" && got != "complete launch with "+tt.result || tt.result == "" && got != "" ||
				f.after() < tt.least || f.after() > tt.most {
				t.Errorf("%q after %v, want %q after %v to %v", got, f.after(), tt.result, tt.least, tt.most)
			}
		})
	}
}

// TestLaunchIntoPoolWithoutState: a heartbeat by the token confirms a launch into the warm pool, which is completed at
// once. The late copy of such a message names an action that is over, while a heartbeat by the instance's id may be
// accepted for its launch from there into service.
func TestLaunchIntoPoolWithoutState(t *testing.T) {
	t.Parallel()
	const unanswered = "hold unconfirmed launch"
	silentFor := func(d time.Duration) given {
		return with(launching, stateIs(silent(d, pendingWait)), pendingIs(always(true)))
	}
	each(t, "late copy", silentFor(5*time.Minute), func(t *testing.T, f *fixture) {
		f.tokenEnded = true
		mustHandle(t, f, f.agent(), launchTo("WarmPool"))
		f.wantSteps(t, unanswered)
	})
	each(t, "denied for good", silentFor(never), func(t *testing.T, f *fixture) {
		mustHandle(t, f, f.agent(), launchTo("WarmPool"))
		f.wantSteps(t, unanswered, "complete launch with CONTINUE")
		if f.after() > time.Minute {
			t.Errorf("completed after %v", f.after())
		}
	})
}

// TestLateLaunch: the time of the message counts, as EC2 confirms it, but the node gets the time of recovery.
func TestLateLaunch(t *testing.T) {
	t.Parallel()
	const m = time.Minute
	launched := func(f *fixture) { f.ec2 = always(ec2.Instance{State: running, Launched: f.start.Add(-21 * m)}) }
	for result, ready := range map[string]time.Duration{"CONTINUE": 0, "ABANDON": never} {
		each(t, result, with(launching, launched, readyAt(ready)), func(t *testing.T, f *fixture) {
			f.drainTakes = 0
			if err := f.agent().Handle(t.Context(), launchMessage("", f.start.Add(-20*time.Minute))); err != nil {
				t.Error(err)
			}
			if want := min(ready, 3*m); len(f.did("complete launch with "+result)) != 1 || f.after() != want {
				t.Errorf("%q after %v, want %s after %v", f.did("complete"), f.after(), result, want)
			}
		})
	}
}

// TestLateLaunchOfACordonedNode: a node that the agent uncordons only now needs a moment to become ready, since
// Kubernetes removes the taint node.kubernetes.io/unschedulable after that.
func TestLateLaunchOfACordonedNode(t *testing.T) {
	t.Parallel()
	const m = time.Minute
	for _, tt := range []struct {
		name   string
		given  given
		result string
		took   time.Duration
	}{
		{"it becomes ready", readyAt(2 * time.Second), "CONTINUE", 2 * time.Second},
		{"it does not become ready", readyAt(never), "ABANDON", 3 * m},
		{"nor until the hook's timeout", with(readyAt(never), timeout("launch", 21*m)), "ABANDON", m - 10*time.Second},
	} {
		given := with(launching, cordoned(event.LifecycleTerminating, -30*m, 30*m, 0), tt.given)
		each(t, tt.name, given, func(t *testing.T, f *fixture) {
			f.drainTakes = 0
			if err := f.agent().Handle(t.Context(), launchMessage("", f.start.Add(-20*m))); err != nil {
				t.Error(err)
			}
			if len(f.did("complete launch with "+tt.result)) != 1 || f.after() != tt.took {
				t.Errorf("%q after %v, want %s after %v", f.did("complete"), f.after(), tt.result, tt.took)
			}
		})
	}
}
