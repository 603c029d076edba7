package main

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/cluster"
)

// at returns a time of the run that the tests judge.
func at(seconds float64) time.Time {
	return time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC).Add(time.Duration(seconds * float64(time.Second)))
}

func evicted(name string, seconds float64) cluster.Request {
	return cluster.Request{
		Verb: "create", Resource: "pods", Subresource: "eviction", Namespace: "shop", Name: name, Code: 201, At: at(seconds),
	}
}

// terminated returns an action that was completed.
func terminated(hook string, seconds float64) awsim.Action {
	return awsim.Action{
		Group: two, Hook: hook, InstanceID: "i-in", Transition: awsim.Terminating, StartedAt: at(10),
		ClosedAt: at(seconds), ClosedBy: awsim.ByCompletion, Result: "CONTINUE",
	}
}

// abroad returns a call about the action of another cluster.
func abroad(action string) []foreignCall {
	return []foreignCall{{action, otherCluster, ourHook, "i-abroad", at(20)}}
}

// marks returns that a node was marked, and its deadline.
func marks(deadline float64) []mark {
	return []mark{{Seen: at(11), Since: at(11), Deadline: at(deadline)}}
}

// goodRun returns the facts of a run in which one instance was scaled in, EC2 took one, and one stayed in service.
func goodRun() facts {
	return facts{
		Actions: []awsim.Action{
			terminated(ourHook, 30), terminated(otherHook, 15),
			{Group: otherCluster, Hook: ourHook, InstanceID: "i-abroad", StartedAt: at(12)},
		},
		Interruptions: []awsim.Interruption{{
			InstanceID: "i-spot", WarnedAt: at(10), DueAt: at(35), TakenAt: at(35), GoneAt: at(38),
			Killed: []string{"shop/b"},
		}},
		Requests: []cluster.Request{
			evicted("a", 12),
			{Verb: "delete", Resource: "pods", Namespace: "shop", Name: "b", Code: 200, At: at(25)},
		},
		Pods: []pod{
			{Namespace: "shop", Name: "a", UID: "1", Node: "node-i-in", Seen: span{at(0), at(14)}, SignaledAt: at(12)},
			{Namespace: "shop", Name: "a", UID: "2", Node: "node-i-on", Seen: span{From: at(14)}},
			{
				Namespace: "shop", Name: "b", UID: "3", Node: "node-i-spot", Guarded: true, Grace: 30 * time.Second,
				Seen: span{at(0), at(38)}, SignaledAt: at(25),
			},
		},
		Nodes: []node{
			{Name: "node-i-in", InstanceID: "i-in", Marks: marks(71)},
			{Name: "node-i-spot", InstanceID: "i-spot", Marks: marks(32)},
			{Name: "node-i-on", InstanceID: "i-on"},
		},
		Removals: []removal{
			{InstanceID: "i-in", Kind: scaleIn, span: span{From: at(10)}},
			{InstanceID: "i-spot", Kind: spot, span: span{From: at(10)}},
		},
		Processes: []processRecord{
			{Name: "agent-1.001", span: span{at(0), at(20)}, Ended: killed},
			{Name: "agent-1.002", span: span{at(22), at(60)}, Ended: stopped},
			{Name: "agent-2.001", span: span{at(0), at(60)}, Ended: stopped},
		},
	}
}

func TestJudge(t *testing.T) {
	hook := func(f *facts) *awsim.Action { return &f.Actions[0] }
	seenLate := func(f *facts) { f.Pods[0].Seen, f.Pods[1].Seen.From = span{at(18), at(20)}, at(20) }
	timesOut := func(f *facts, lastBeat float64) {
		hook(f).Heartbeats = []time.Time{at(lastBeat)}
		hook(f).ClosedAt, hook(f).ClosedBy = at(lastBeat).Add(heartbeatTimeout), awsim.ByHeartbeatTimeout
		hook(f).Result = "ABANDON"
		f.Processes = append(f.Processes, processRecord{Name: "agent-3.001", span: span{at(0), at(999)}, Ended: stopped})
	}
	tests := []struct {
		name   string
		change func(*facts)
		want   string // The promise that is broken, or "".
	}{
		{"no promise is broken", func(*facts) {}, ""},

		{"a pod is on the node when its hook is completed", func(f *facts) {
			hook(f).PodsAtClose = []string{"shop/a"}
		}, emptyNode},
		{"a pod is on the node at its deadline", func(f *facts) {
			hook(f).PodsAtClose, hook(f).ClosedAt = []string{"shop/a"}, at(71.5)
		}, ""},
		{"a pod is on the node, whose deadline was set after the completion", func(f *facts) {
			hook(f).PodsAtClose = []string{"shop/a"}
			f.Nodes[0].Marks = append(f.Nodes[0].Marks, mark{Seen: at(40), Since: at(11), Deadline: at(29)})
		}, emptyNode},
		{"a pod is on a node without a mark when its hook is completed", func(f *facts) {
			hook(f).PodsAtClose, f.Nodes[0].Marks = []string{"shop/a"}, nil
		}, emptyNode},
		{"a pod is deleted before the node has the deadline of a second event, since the API server was down", func(f *facts) {
			f.Nodes[1].Marks = []mark{{Seen: at(11), Since: at(11), Deadline: at(3600)}, {Seen: at(29), Since: at(11), Deadline: at(32)}}
			f.Removals[1].From, f.Outages = at(20), []span{{at(19), at(24)}}
		}, ""},
		{"a pod is deleted before the node has the deadline of a second event", func(f *facts) {
			f.Nodes[1].Marks = []mark{{Seen: at(11), Since: at(11), Deadline: at(3600)}, {Seen: at(29), Since: at(11), Deadline: at(32)}}
			f.Removals[1].From = at(20)
		}, budgets},
		{"a pod is on a node that was deleted before the completion", func(f *facts) {
			hook(f).PodsAtClose, f.Nodes[0].Marks, f.Nodes[0].Gone = []string{"shop/a"}, nil, at(29)
		}, ""},
		{"a pod is on a node that was deleted after the completion", func(f *facts) {
			hook(f).PodsAtClose, f.Nodes[0].Gone = []string{"shop/a"}, at(33)
		}, emptyNode},
		{"the pods are unknown at the completion", func(f *facts) { hook(f).PodsError = "refused" }, emptyNode},
		{"the pods are unknown because of an outage", func(f *facts) {
			hook(f).PodsError, f.Outages = "refused", []span{{at(29), at(35)}}
		}, ""},
		{"the pods are unknown because of an outage, and the machine killed one", func(f *facts) {
			hook(f).PodsError, f.Outages = "refused", []span{{at(29), at(35)}}
			hook(f).Killed = []string{"shop/a"}
		}, emptyNode},

		{"a pod is deleted long before the deadline", func(f *facts) { f.Requests[1].At = at(15) }, budgets},
		{"a pod without a budget is deleted when half of the time has passed", func(f *facts) {
			f.Pods[2].Guarded, f.Pods[2].Grace = false, 2*time.Second
			f.Requests[1].At = at(22)
		}, budgets},
		{"the watch shows the mark late", func(f *facts) { f.Nodes[1].Marks[0].Seen = at(29) }, budgets},
		{"an outage prevents the mark, and half of the time has passed", func(f *facts) {
			f.Nodes[1].Marks, f.Outages = nil, []span{{at(11), at(20)}}
		}, ""},
		{"an outage prevents the mark, and half of the time has not passed", func(f *facts) {
			f.Nodes[1].Marks, f.Outages, f.Requests[1].At = nil, []span{{at(11), at(16)}}, at(18)
		}, budgets},
		{"the mark is set after an outage, and its time counts from then", func(f *facts) {
			f.Nodes[1].Marks[0].Seen, f.Nodes[1].Marks[0].Since = at(26), at(26)
			f.Outages, f.Requests[1].At = []span{{at(11), at(21)}}, at(22)
		}, ""},
		{"an outage follows the mark", func(f *facts) {
			f.Nodes[1].Marks[0].Seen, f.Nodes[1].Marks[0].Since = at(11), at(11)
			f.Outages, f.Requests[1].At = []span{{at(12), at(16)}}, at(18)
		}, budgets},
		{"a pod is deleted on a node without a mark", func(f *facts) { f.Nodes[1].Marks = nil }, budgets},
		{"a pod's deletion was refused", func(f *facts) {
			f.Requests[1].At, f.Requests[1].Code = at(15), http.StatusConflict
		}, ""},

		{"a hook times out", func(f *facts) {
			hook(f).ClosedBy, hook(f).Result = awsim.ByHeartbeatTimeout, "ABANDON"
		}, completed},
		{"a hook times out because of an outage of more than half of its timeout", func(f *facts) {
			timesOut(f, 30)
			f.Outages = []span{{at(45), at(66)}}
		}, ""},
		{"a hook times out after a shorter outage", func(f *facts) {
			timesOut(f, 30)
			f.Outages = []span{{at(45), at(64)}}
		}, completed},
		{"a hook times out after an outage before the last heartbeat", func(f *facts) {
			timesOut(f, 60)
			f.Outages = []span{{at(25), at(58)}}
		}, completed},
		{"a hook times out because of an outage before the first heartbeat", func(f *facts) {
			timesOut(f, 10)
			hook(f).Heartbeats, f.Outages = nil, []span{{at(20), at(45)}}
		}, ""},
		{"a hook times out because of an outage, then no agent, then a stall", func(f *facts) {
			timesOut(f, 30)
			f.Outages, f.Stalls = []span{{at(40), at(45)}}, []span{{at(66), at(72)}}
			f.Processes = []processRecord{{span: span{at(0), at(47)}, Ended: killed}, {span: span{at(48), at(99)}, Ended: stopped}}
		}, ""},
		{"a hook times out while agents overlap", func(f *facts) {
			timesOut(f, 30)
			f.Processes = []processRecord{{span: span{at(0), at(60)}, Ended: killed}, {span: span{at(59), at(99)}, Ended: stopped}}
		}, completed},
		{"a launch times out because of an outage, and a pod is evicted then", func(f *facts) {
			timesOut(f, 30)
			hook(f).Transition, hook(f).InstanceID, f.Outages = awsim.Launching, "i-on", []span{{at(45), at(76)}}
			f.Requests = append(f.Requests, evicted("a", 95))
		}, ""},
		{"a pod is evicted before its launch times out", func(f *facts) {
			timesOut(f, 30)
			hook(f).Transition, hook(f).InstanceID, f.Outages = awsim.Launching, "i-on", []span{{at(45), at(76)}}
			f.Requests = append(f.Requests, evicted("a", 85))
		}, onlyTerminating},
		{"a hook is completed with ABANDON", func(f *facts) { hook(f).Result = "ABANDON" }, completed},
		{"a hook is open at the end", func(f *facts) { hook(f).ClosedAt = time.Time{} }, completed},
		{"the hook of another team is open at the end", func(f *facts) { f.Actions[1].ClosedAt = time.Time{} }, completed},
		{"EC2 takes the instance while its hook is pending", func(f *facts) {
			hook(f).ClosedBy, f.Removals[0].Kind = awsim.ByInterruption, spotDuringDrain
		}, ""},
		{"a launch is abandoned", func(f *facts) {
			hook(f).Transition, hook(f).Result = awsim.Launching, "ABANDON"
		}, completed},
		{"a node has pods when its launch is completed", func(f *facts) {
			hook(f).Transition, hook(f).PodsAtClose = awsim.Launching, []string{"shop/a"}
		}, ""},

		{"the hook of another cluster is completed", func(f *facts) { f.Actions[2].ClosedAt = at(20) }, others},
		{"the hook of another cluster is held", func(f *facts) { f.ForeignCalls = abroad(heartbeat) }, others},
		{"the hook of another cluster is held, and Auto Scaling fails for a moment", func(f *facts) {
			f.ForeignCalls, f.Failures = abroad(heartbeat), []span{{at(18), at(19)}}
		}, others},
		{"the hook of another cluster is held, as Auto Scaling fails", func(f *facts) {
			f.ForeignCalls, f.Failures = abroad(heartbeat), []span{{at(11), at(18)}}
		}, ""},
		{"the hook of another cluster is completed by a call, as Auto Scaling fails", func(f *facts) {
			f.ForeignCalls, f.Failures = abroad(completion), []span{{at(11), at(18)}}
		}, others},
		{"the hook of another team is held, as Auto Scaling fails", func(f *facts) {
			f.ForeignCalls = []foreignCall{{heartbeat, two, otherHook, "i-in", at(14)}}
			f.Failures = []span{{at(0), at(18)}}
		}, others},

		{"a pod is evicted from a node in service", func(f *facts) {
			f.Requests = append(f.Requests, evicted("a", 20))
		}, onlyTerminating},
		{"a pod is evicted before its instance terminates", func(f *facts) { f.Requests[0].At = at(5) }, onlyTerminating},
		{"a pod is evicted that was never seen", func(f *facts) {
			f.Requests = append(f.Requests, evicted("c", 20))
		}, onlyTerminating},
		{"a pod is evicted while the watch starts again", func(f *facts) {
			f.Requests, f.Gaps = append(f.Requests, evicted("c", 20)), []span{{at(19), at(21)}}
		}, ""},
		{"a pod is evicted just after its event was canceled", func(f *facts) { f.Removals[0].To = at(11) }, ""},
		{"a pod is evicted long after its event was canceled", func(f *facts) {
			f.Removals[0].To, f.Removals[0].From = at(-5), at(-20)
		}, onlyTerminating},
		{"a pod is evicted after a cancellation during an outage", func(f *facts) {
			f.Removals[0].To, f.Removals[0].From, f.Outages = at(-5), at(-20), []span{{at(-6), at(8)}}
		}, ""},
		{"a stall during an outage counts once", func(f *facts) {
			f.Removals[0].To, f.Removals[0].From = at(-7), at(-20)
			f.Outages, f.Stalls = []span{{at(-6), at(-3)}}, []span{{at(-6), at(-3)}}
		}, onlyTerminating},
		{"an eviction was refused", func(f *facts) {
			f.Requests = append(f.Requests, evicted("a", 20))
			f.Requests[2].Code = http.StatusTooManyRequests
		}, ""},
		{"the watch shows a pod a moment late", func(f *facts) { f.Pods[0].Seen.From = at(13) }, ""},
		{"the watch shows a pod late", func(f *facts) { seenLate(f) }, onlyTerminating},
		{"the watch shows a pod late because of a stall", func(f *facts) {
			seenLate(f)
			f.Stalls = []span{{at(12.5), at(17.5)}}
		}, ""},

		{"a mark is left on a node in service", func(f *facts) { f.Leftovers = []string{"node-i-on: taint"} }, cleanedUp},
		{"a message is left in the queue", func(f *facts) { f.Left = []string{"{}"} }, emptyQueue},

		{"a pod of a Spot Instance gets no SIGTERM", func(f *facts) { f.Pods[2].SignaledAt = time.Time{} }, warned},
		{"a pod gets its SIGTERM from the termination of the machine", func(f *facts) { f.Pods[2].SignaledAt = at(37.9) }, warned},
		{"a pod without SIGTERM was bound long after the mark", func(f *facts) {
			f.Pods[2].SignaledAt, f.Pods[2].Bound = at(37.9), at(18.1)
		}, ""},
		{"a pod without SIGTERM was bound just after the mark", func(f *facts) {
			f.Pods[2].SignaledAt, f.Pods[2].Bound = at(37.9), at(17.9)
		}, warned},
		{"a pod without SIGTERM was bound just after the mark, and after EC2 took the instance", func(f *facts) {
			f.Pods[2].SignaledAt, f.Pods[2].Bound, f.Nodes[1].Marks[0].Seen = at(37.9), at(35.1), at(31)
			f.Requests = nil
		}, ""},
		{"a pod without SIGTERM was bound after EC2 took the instance, and marked later", func(f *facts) {
			f.Pods[2].SignaledAt, f.Pods[2].Bound, f.Nodes[1].Marks[0].Seen = at(37.9), at(35.1), at(36)
			f.Requests = nil
		}, warned},
		{"a pod without SIGTERM was bound to a node without a mark", func(f *facts) {
			f.Pods[2].SignaledAt, f.Pods[2].Bound, f.Nodes[1].Marks, f.Requests = at(37.9), at(20), nil, nil
		}, warned},
		{"a pod gets its SIGTERM at the last moment", func(f *facts) { f.Pods[2].SignaledAt = at(34.9) }, ""},
		{"no agent runs for a moment, too late for another one to lead", func(f *facts) {
			f.Pods[2].SignaledAt = time.Time{}
			f.Processes = []processRecord{{span: span{at(0), at(26)}, Ended: killed}, {span: span{at(26.1), at(60)}, Ended: stopped}}
		}, ""},
		{"no agent runs for a moment early in the notice", func(f *facts) {
			f.Pods[2].SignaledAt = time.Time{}
			f.Processes = []processRecord{{span: span{at(0), at(18)}, Ended: killed}, {span: span{at(19), at(60)}, Ended: stopped}}
		}, warned},
		{"two leaders end late in the notice", func(f *facts) {
			f.Pods[2].SignaledAt = time.Time{}
			f.Processes = append(f.Processes, processRecord{span: span{at(0), at(21)}, Ended: killed, Led: true},
				processRecord{span: span{at(0), at(33)}, Ended: killed, Led: true})
		}, ""},
		{"two agents end late in the notice, one of which has led", func(f *facts) {
			f.Pods[2].SignaledAt = time.Time{}
			f.Processes = append(f.Processes, processRecord{span: span{at(0), at(21)}, Ended: killed, Led: true},
				processRecord{span: span{at(0), at(33)}, Ended: killed})
		}, warned},
		{"an outage begins before the last pods must get their SIGTERM", func(f *facts) {
			f.Pods[2].SignaledAt, f.Outages = time.Time{}, []span{{at(26), at(36)}}
		}, ""},
		{"a stall late in the notice", func(f *facts) {
			f.Pods[2].SignaledAt, f.Stalls = time.Time{}, []span{{at(24), at(29)}}
		}, ""},

		{"an agent exits by itself", func(f *facts) { f.Processes[0].Ended = "exit status 66" }, running},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := goodRun()
			tt.change(&f)
			found := judge(f)
			var promises []string
			for _, b := range found {
				promises = append(promises, b.Promise)
			}
			promises = slices.Compact(promises)
			if tt.want == "" && len(found) > 0 || tt.want != "" && !slices.Equal(promises, []string{tt.want}) {
				t.Errorf("broken: %q, want %q: %+v", promises, tt.want, found)
			}
		})
	}
}
