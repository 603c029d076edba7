package agent_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/internal/agent"
	"github.com/node-drainer/node-drainer/internal/autoscaling"
	"github.com/node-drainer/node-drainer/internal/event"
	"github.com/node-drainer/node-drainer/internal/node"
	"github.com/node-drainer/node-drainer/pkg/queue"
)

// drainedBy are the steps of a termination whose drain has the deadline, which may be a range. They may begin with
// further ones after the hold.
func drainedBy(deadline string, first ...string) []string {
	return slices.Concat([]string{"hold drain"}, first, drainedWithoutHook(deadline),
		[]string{"release drain", "complete drain with CONTINUE"})
}

// neverDrained are the steps of a termination that has nothing to drain; unregistered adds its completion.
func neverDrained(steps ...string) []string {
	return slices.Concat([]string{"hold drain"}, steps, []string{"release drain"})
}

func unregistered(steps ...string) []string {
	return append(neverDrained(steps...), "complete drain with CONTINUE")
}

// TestTermination: the steps of a termination, and its outcome.
func TestTermination(t *testing.T) {
	t.Parallel()
	const (
		until = "cordon until 1h0m0s"
		drain = "drain node-1 until 1h0m0s"
		late  = "drain node-1 untainted until 1h0m0s"
	)
	drained := drainedBy("1h0m0s")
	unanswered := []string{"cordon", "hold unconfirmed drain"}
	uncordoned := append(slices.Clip(unanswered), "uncordon")
	byPolicy := func(f *fixture) { f.node.Policy.Timeout = 10 * time.Minute }
	for _, tt := range []struct {
		name    string
		given   given
		steps   []string
		outcome agent.Outcome
	}{
		{"confirmed at once: cordoned and drained under the hold, then completed", nil, drained, agent.Drained},
		{"the Node has a timeout of its own", byPolicy, drainedBy("10m0s"), agent.Drained},
		{"the instance does not wait for its hook yet", inState("Terminating"), drained, agent.Drained},
		{"the drain fails: tried again", fails("drain", 1, errOutage), []string{"hold drain", until, drain, drain, "exclude", "release drain", "complete drain with CONTINUE"}, agent.Drained},
		{
			"another instance has a Node of the name: it is left alone",
			with(fails("drain", 1, errReplaced), func(f *fixture) { f.leaves, f.deleted = f.drainTakes, true }),
			[]string{"hold drain", until, drain, "look up", "release drain", "complete drain with CONTINUE"},
			agent.NodeLost,
		},
		{
			"the instance has registered again: its Node is drained by the same deadline",
			with(fails("drain", 1, errReplaced), func(f *fixture) { f.registersAgain = true }),
			append([]string{"hold drain", until, drain}, drained[1:]...), agent.Drained,
		},
		{
			"the instance has registered again, and the watch is behind: its Node is looked up and drained",
			with(fails("drain", 1, errReplaced), func(f *fixture) { f.registersAgain, f.isBehind = true, true }),
			append([]string{"hold drain", until, drain, "look up"}, drained[1:]...), agent.Drained,
		},
		{
			"the same, and the API server does not answer at first: tried again",
			with(fails("drain", 2, errReplaced), fails("look up", 1, errOutage), func(f *fixture) { f.registersAgain, f.isBehind = true, true }),
			append([]string{"hold drain", until, drain, drain, "look up"}, drained[1:]...), agent.Drained,
		},
		{"pods are left at the deadline", podsLeft, drained, agent.LeftBehind},
		{"no kubelet reports the end of the pods that are left", with(podsLeft, lost), drained, agent.NodeLost},
		{
			"pods are left on a node that is not Ready, of a terminated instance",
			with(podsLeft, notReady, ec2State("terminated")), drainedBy("0s"), agent.NodeLost,
		},
		{
			"pods are left on a node that is not Ready, of an instance that is shutting down",
			with(podsLeft, notReady, ec2State("shutting-down")), drained, agent.NodeLost,
		},
		{"pods are left on a node that is not Ready, of a running instance", with(podsLeft, notReady), drained, agent.LeftBehind},
		{
			"pods are left on a node that is Ready, of a terminated instance",
			with(podsLeft, ec2State("terminated")), drained, agent.LeftBehind,
		},
		{
			"the group gives up during the drain: not completed", givesUp("drain", 5*time.Second),
			neverDrained(until, drain), agent.CutShort,
		},
		{
			"the group gives up during the confirmation: not completed",
			with(stateIs(silent(never, terminating)), givesUp("drain", 6*time.Second)), unanswered, agent.Gone,
		},
		{"the completion fails at first", func(f *fixture) {
			calls := 0
			f.complete = func(context.Context) error {
				if calls++; calls == 1 {
					return errOutage
				}
				return nil
			}
		}, drained, agent.Drained},
		{"another action holds the instance when the first is completed: drained again", func(f *fixture) {
			calls := 0
			f.complete = func(context.Context) error {
				if calls++; calls == 1 {
					return autoscaling.ErrUnknownToken
				}
				return nil
			}
		}, append(slices.Clip(drained[:5]), slices.Replace(slices.Clone(drained), 1, 2, "cordon until 1h0m10.2s")...), agent.Drained},
		{
			"another action holds the instance when the first is completed after the deadline: not drained again", func(f *fixture) {
				calls := 0
				f.drainTakes = time.Hour
				f.complete = func(context.Context) error {
					if calls++; calls == 1 {
						return autoscaling.ErrUnknownToken
					}
					return nil
				}
			}, append(slices.Clip(drained[:5]), "hold drain", "cordon until 2h0m0.2s", "exclude", "release drain", "complete drain with CONTINUE"),
			agent.Drained,
		},
		{"the load-balancer label fails twice", fails("exclude", 2, errOutage), drained, agent.Drained},
		{
			"the node is deleted after the drain", fails("exclude", 1, node.ErrGone),
			unregistered(until, drain), agent.Drained,
		},

		// The confirmation.
		{
			"Auto Scaling does not answer: cordoned without a deadline, drained after the confirmation",
			stateIs(silent(5*time.Second, terminating)), append(slices.Clip(unanswered), drainedBy("1h0m7.75s..1h0m9.3s")...), agent.Drained,
		},
		{
			"Auto Scaling does not answer, and the first cordon fails",
			with(stateIs(silent(5*time.Second, terminating)), fails("cordon", 1, errOutage)),
			append(slices.Clip(unanswered), drainedBy("1h0m7.75s..1h0m9.3s")...), agent.Drained,
		},
		{
			"Auto Scaling does not answer, then contradicts: uncordoned", stateIs(silent(5*time.Second, inService)),
			uncordoned, agent.Unconfirmed,
		},
		{
			"Auto Scaling does not answer, then does not know the instance: uncordoned",
			stateIs(silent(5*time.Second, inNoGroup)), uncordoned, agent.Unconfirmed,
		},
		{
			"uncordon fails longer than the hook is held: still retried",
			with(stateIs(silent(5*time.Second, inNoGroup)), givesUp("drain", 2*time.Minute), fails("uncordon", 20, errOutage)),
			uncordoned, agent.Unconfirmed,
		},
		{
			"the node of an unconfirmed termination is deleted",
			with(stateIs(silent(5*time.Second, inService)), fails("uncordon", 1, node.ErrGone)),
			unanswered, agent.Unconfirmed,
		},
		{
			"unconfirmed, and cordoned by an agent that crashed before the confirmation: uncordoned",
			with(inState(inNoGroup), cordoned("", -time.Minute, 0, 0)),
			[]string{"uncordon"},
			agent.Unconfirmed,
		},
		{
			"contradicted for less than the timeout: not cordoned before the confirmation",
			stateIs(changes(inService, 45*time.Second, terminating)), drainedBy("1h0m45.75s..1h0m54.9s"), agent.Drained,
		},
		{
			"contradicted for longer than the timeout", stateIs(changes(inService, 61*time.Second, terminating)),
			nil, agent.Unconfirmed,
		},
		{"in no group, and has a node", inState(inNoGroup), nil, agent.Unconfirmed},
		{
			"in no group, and has a node with a deadline: its termination is over",
			with(inState(inNoGroup), cordoned("", -time.Minute, time.Hour, 0)), nil, agent.Gone,
		},
		{"in no group, and has no node", with(inState(inNoGroup), noNode), nil, agent.Gone},
		{"the hook is already completed", inState(proceeding), nil, agent.Gone},
		{"the group has no such hook", noHook, nil, agent.Gone},

		// The node and its cluster.
		{
			"registers after a minute, in a group of this cluster",
			with(registers(time.Minute), tagged(always([]string{"demo"}))), drainedBy("1h1m0s", "await"), agent.Drained,
		},
		{"never registers, in a group that names no cluster", noNode, unregistered("await", "look up"), agent.Unregistered},
		{
			"never registers, in a group of several clusters",
			with(noNode, tagged(always([]string{"demo", "other"}))), unregistered("await", "look up"), agent.Unregistered,
		},
		{
			"never registers, and the API server does not answer at first",
			with(noNode, fails("look up", 20, errOutage)), unregistered("await", "look up"), agent.Unregistered,
		},
		{
			"terminated at the console: its node never registers", with(noNode, ec2State("terminated")),
			unregistered("look up"), agent.Unregistered,
		},
		{"a node of this cluster in a group that names another", tagged(always([]string{"other"})), drained, agent.Drained},
		{
			"the tags cannot be read at first", with(noNode, tagged(silent(5*time.Second, []string{"demo"}))),
			unregistered("await", "look up"), agent.Unregistered,
		},
		{
			"the tags cannot be read, until the node registers",
			with(registers(time.Second), tagged(silent[[]string](never, nil))), drainedBy("1h0m1.75s..1h0m2.1s"), agent.Drained,
		},
		{"the watch does not show the node", hidden, drainedBy("1h5m0s", "await", "look up"), agent.Drained},
		{
			"the node is deleted before the cordon", with(fails("cordon", 1, node.ErrGone), deleted),
			unregistered("look up"), agent.Unregistered,
		},
		{
			"the instance has registered again, with another UID", fails("cordon", 1, node.ErrGone),
			drainedBy("1h0m0s"), agent.Drained,
		},

		// The cordon.
		{"the cordon fails three times", fails("cordon", 3, errOutage), drained, agent.Drained},
		{
			"the hook's timeout cannot be read at first: cordoned without a deadline", fails("deadline", 1, errOutage),
			drainedBy("1h0m0.25s..1h0m0.3s", "cordon"), agent.Drained,
		},
		{
			"neither the timeout nor the cordon succeed at first",
			with(fails("deadline", 2, errOutage), fails("cordon", 1, errOutage)),
			drainedBy("1h0m0.75s..1h0m0.9s", "cordon"), agent.Drained,
		},
		{
			"the node cannot be changed: drained after 10 % of the time",
			with(fails("cordon", 1000, errOutage), fails("exclude", 1000, errOutage)), unregistered(late), agent.Drained,
		},
		{
			"the node, whose deadline has passed, cannot be changed: drained by that deadline",
			with(fails("cordon", 1000, errOutage), fails("exclude", 1000, errOutage),
				cordoned(event.ScheduledChange, -20*time.Minute, -time.Minute, 0)),
			unregistered("drain node-1 until -1m0s"), agent.Drained,
		},
		{
			"the node can be changed during its drain: cordoned with the deadline of the drain",
			with(fails("cordon", 90, errOutage), func(f *fixture) { f.drainTakes = 10 * time.Minute }),
			unregistered(late, until, "exclude"), agent.Drained,
		},
		{
			"the node cannot be changed, and the instance returns to service meanwhile: not drained",
			with(fails("cordon", 1000, errOutage), stateIs(changes(terminating, 5*time.Minute, inService))),
			neverDrained(), agent.Unconfirmed,
		},
	} {
		each(t, tt.name, tt.given, func(t *testing.T, f *fixture) {
			err := f.agent().Handle(t.Context(), termination(f))
			f.awaitEnds()
			if failed := tt.outcome == agent.Interrupted; failed != errors.Is(err, errOutage) || failed != (err != nil) {
				t.Errorf("the message ended with %v", err)
			}
			f.wantSteps(t, tt.steps...)
			f.wantOutcome(t, tt.outcome)
			if f.observed("drained before") > 0 {
				t.Error("drained before the node was cordoned")
			}
		})
	}
}

// TestTerminationTimes: how long each part of a termination may delay the next one.
func TestTerminationTimes(t *testing.T) {
	t.Parallel()
	unanswered, denied := stateIs(silent(10*time.Minute, terminating)), stateIs(silent(never, terminating))
	for _, tt := range []struct {
		name        string
		given       given
		step        string // whose time is checked; empty: the end
		least, most time.Duration
		fact        string // which must be observed
	}{
		{"an unanswered confirmation: cordon", unanswered, "cordon", 2 * time.Second, 2 * time.Second, "retrying to confirm"},
		{
			"no state, but a heartbeat is accepted: cordon", with(denied, pendingIs(always(true))),
			"cordon", 2 * time.Second, 2 * time.Second, "retrying to confirm",
		},
		{
			"no state, but a heartbeat is accepted: drain", with(denied, pendingIs(always(true))),
			"drain", 10 * time.Second, 20 * time.Second, "ended drained",
		},
		{
			"no state, and a heartbeat is accepted later: drain", with(denied, pendingIs(silent(10*time.Minute, true))),
			"drain", 10 * time.Minute, 10*time.Minute + 18*time.Second, "ended drained",
		},
		{
			"no state, and heartbeats are refused, until there is a state: drain", unanswered,
			"drain", 10 * time.Minute, 10*time.Minute + 18*time.Second, "ended drained",
		},
		{
			"no state, and the group has no such hook: dropped", with(denied, noHook),
			"", time.Minute, time.Minute + 18*time.Second, "ended gone",
		},
		{
			"no state, and heartbeats are refused for as long as a drain takes: dropped", denied,
			"", time.Hour, time.Hour + 18*time.Second, "ended gone",
		},
		{"a contradicted message is dropped", inState(inService), "", time.Minute, time.Minute, "ended unconfirmed"},
		{
			"load balancers delay the completion until the deadline", fails("exclude", 1000, errOutage),
			"complete drain", time.Hour, time.Hour, "retrying to exclude",
		},
		{
			"an instance that was terminated is not awaited", with(noNode, ec2State("terminated")),
			"", 0, 300 * time.Millisecond, "",
		},
	} {
		each(t, tt.name, tt.given, func(t *testing.T, f *fixture) {
			mustHandle(t, f, f.agent(), termination)
			at := f.after()
			if tt.step != "" {
				at = f.when(tt.step)
			}
			if at < tt.least || at > tt.most || f.observed(tt.fact) == 0 {
				t.Errorf("after %v, want %v to %v; facts %q", at, tt.least, tt.most, f.facts)
			}
		})
	}
}

// TestSender: the outcome of an event names who sent its message, so that a forger can be found.
func TestSender(t *testing.T) {
	t.Parallel()
	each(t, "forged", inState(inService), func(t *testing.T, f *fixture) {
		m := termination(f)
		m.Sender = "AROAEXAMPLE:forger"
		if err := f.agent().Handle(t.Context(), m); err != nil || f.observed("sent by AROAEXAMPLE:forger") == 0 {
			t.Errorf("%v; facts %q", err, f.facts)
		}
	})
}

// TestOtherCluster: a message for another cluster is released, and its hook is not touched.
func TestOtherCluster(t *testing.T) {
	t.Parallel()
	for fact, m := range map[string]source{
		"ended " + string(agent.OtherCluster): termination, "launch ended other-cluster": launchTo(""),
	} {
		each(t, fact, with(noNode, tagged(always([]string{"other"}))), func(t *testing.T, f *fixture) {
			if strings.HasPrefix(fact, "launch") {
				launching(f)
			}
			err := f.agent().Handle(t.Context(), m(f))
			if err == nil || !strings.Contains(err.Error(), `group workers belongs to cluster ["other"], this is "demo"`) {
				t.Errorf("the message ended with %v", err)
			}
			f.wantSteps(t)
			if f.observed(fact) != 1 {
				t.Errorf("facts %q", f.facts)
			}
		})
	}
}

// TestTerminationFromTheWarmPool: Auto Scaling may still describe the instance as it was before, also one that had just
// left the pool. The hook is completed nevertheless.
func TestTerminationFromTheWarmPool(t *testing.T) {
	t.Parallel()
	leaving := func(origin string) source {
		return func(f *fixture) queue.Message {
			m := message("drain", f.start)
			m.Body = slices.Concat([]byte(`{"Origin":"`+origin+`","Destination":"EC2",`), m.Body[1:])
			return m
		}
	}
	for _, tt := range []struct {
		name    string
		state   answer[autoscaling.State]
		steps   []string
		outcome agent.Outcome
	}{
		{"terminates", always(autoscaling.State("Warmed:Terminating:Wait")), unregistered("look up"), agent.Unregistered},
		{
			"an old answer", changes(warmedStopped, 10*time.Second, autoscaling.State("Warmed:Terminating:Wait")),
			unregistered("look up"), agent.Unregistered,
		},
		{"stays in the pool", always(warmedStopped), nil, agent.Unconfirmed},
		{"past its hook", always(autoscaling.State("Warmed:Terminating:Proceed")), nil, agent.Gone},
	} {
		for _, origin := range []string{"WarmPool", "AutoScalingGroup"} {
			each(t, tt.name+", from "+origin, with(noNode, stateIs(tt.state), ec2State("stopped")), func(t *testing.T, f *fixture) {
				mustHandle(t, f, f.agent(), leaving(origin))
				f.wantSteps(t, tt.steps...)
				f.wantOutcome(t, tt.outcome)
			})
		}
	}
}
