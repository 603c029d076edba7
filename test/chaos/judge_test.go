package main

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/test/awsim"
	"github.com/node-drainer/node-drainer/test/cluster"
)

// at is a time of the run that the tests judge.
func at(seconds float64) time.Time {
	return time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC).Add(time.Duration(seconds * float64(time.Second)))
}

// kept are the facts of a run in which one instance was scaled in, one was taken by EC2, and one lived on.
func kept() facts {
	return facts{
		Actions: []awsim.Action{
			{
				Group: two, Hook: ourHook, InstanceID: "i-in", Transition: awsim.Terminating, StartedAt: at(10),
				ClosedAt: at(30), ClosedBy: awsim.ByCompletion, Result: "CONTINUE",
			},
			{
				Group: two, Hook: otherHook, InstanceID: "i-in", Transition: awsim.Terminating, StartedAt: at(10),
				ClosedAt: at(15), ClosedBy: awsim.ByCompletion, Result: "CONTINUE",
			},
			{Group: abroad, Hook: ourHook, InstanceID: "i-abroad", StartedAt: at(12)},
		},
		Interruptions: []awsim.Interruption{
			{
				InstanceID: "i-spot", WarnedAt: at(10), DueAt: at(35), TakenAt: at(35), GoneAt: at(38),
				PodsAtEnd: []string{"shop/b"}, Killed: []string{"shop/b"},
			},
		},
		Requests: []cluster.Request{
			{Verb: "create", Resource: "pods", Subresource: "eviction", Namespace: "shop", Name: "a", Code: 201, At: at(12)},
			{Verb: "delete", Resource: "pods", Namespace: "shop", Name: "b", Code: 200, At: at(25)},
		},
		Pods: []pod{
			{Namespace: "shop", Name: "a", UID: "1", Node: "node-i-in", Seen: span{at(0), at(14)}, Told: at(12)},
			{Namespace: "shop", Name: "a", UID: "2", Node: "node-i-on", Seen: span{From: at(14)}},
			{
				Namespace: "shop", Name: "b", UID: "3", Node: "node-i-spot", Guarded: true, Grace: 30 * time.Second,
				Seen: span{at(0), at(38)}, Told: at(25),
			},
		},
		Nodes: []node{
			{Name: "node-i-in", InstanceID: "i-in", Marks: []mark{{Seen: at(11), Since: at(11), Deadline: at(71)}}},
			{
				Name: "node-i-spot", InstanceID: "i-spot",
				Marks: []mark{{Seen: at(11), Since: at(11), Deadline: at(32)}},
			},
			{Name: "node-i-on", InstanceID: "i-on"},
		},
		Fates: []fate{
			{InstanceID: "i-in", Kind: scaleIn, span: span{From: at(10)}},
			{InstanceID: "i-spot", Kind: spot, span: span{From: at(10)}},
		},
		Lives: []life{
			{Name: "agent-1.001", span: span{at(0), at(20)}, Ended: killed},
			{Name: "agent-1.002", span: span{at(22), at(60)}, Ended: stopped},
			{Name: "agent-2.001", span: span{at(0), at(60)}, Ended: stopped},
		},
	}
}

func TestJudge(t *testing.T) {
	hook := func(f *facts) *awsim.Action { return &f.Actions[0] }
	evicted := func(name string, seconds float64) cluster.Request {
		return cluster.Request{
			Verb: "create", Resource: "pods", Subresource: "eviction", Namespace: "shop", Name: name, Code: 201,
			At: at(seconds),
		}
	}
	seenLate := func(f *facts) { f.Pods[0].Seen, f.Pods[1].Seen.From = span{at(18), at(20)}, at(20) }
	timesOut := func(f *facts, lastBeat float64) {
		hook(f).Heartbeats = []time.Time{at(lastBeat)}
		hook(f).ClosedAt, hook(f).ClosedBy = at(lastBeat).Add(beat), awsim.ByHeartbeatTimeout
		hook(f).Result = "ABANDON"
		f.Lives = append(f.Lives, life{Name: "agent-3.001", span: span{at(0), at(999)}, Ended: stopped})
	}
	tests := []struct {
		name   string
		change func(*facts)
		want   string // The promise that was broken; "" for none.
	}{
		{"all went well", func(*facts) {}, ""},

		{"a pod is on the node when its hook is completed", func(f *facts) {
			hook(f).PodsAtClose = []string{"shop/a"}
		}, proof},
		{"that was at the deadline on the node", func(f *facts) {
			hook(f).PodsAtClose, hook(f).ClosedAt = []string{"shop/a"}, at(71.5)
		}, ""},
		{"that was at a deadline that came later than the completion", func(f *facts) {
			hook(f).PodsAtClose = []string{"shop/a"}
			f.Nodes[0].Marks = append(f.Nodes[0].Marks, mark{Seen: at(40), Since: at(11), Deadline: at(29)})
		}, proof},
		{"a pod is on a node that bears no mark when its hook is completed", func(f *facts) {
			hook(f).PodsAtClose, f.Nodes[0].Marks = []string{"shop/a"}, nil
		}, proof},
		{"the node had gone before, and the scheduler has not heard of it", func(f *facts) {
			hook(f).PodsAtClose, f.Nodes[0].Marks, f.Nodes[0].Gone = []string{"shop/a"}, nil, at(29)
		}, ""},
		{"the node has gone since", func(f *facts) {
			hook(f).PodsAtClose, f.Nodes[0].Gone = []string{"shop/a"}, at(33)
		}, proof},
		{"nobody knows the pods at the completion", func(f *facts) { hook(f).PodsError = "refused" }, proof},
		{"nobody knows them since the API server was away", func(f *facts) {
			hook(f).PodsError, f.Outages = "refused", []span{{at(29), at(35)}}
		}, ""},
		{"nobody knows them since all stood still", func(f *facts) {
			hook(f).PodsError, f.Stalls = "timeout", []span{{at(26), at(31)}}
		}, ""},
		{"the API server was away, and the end of the machine killed a pod", func(f *facts) {
			hook(f).PodsError, f.Outages = "refused", []span{{at(29), at(35)}}
			hook(f).Killed = []string{"shop/a"}
		}, proof},

		{"a pod is deleted long before the deadline", func(f *facts) { f.Requests[1].At = at(15) }, budgets},
		{"a pod without a budget is deleted when half of the time is over", func(f *facts) {
			f.Pods[2].Guarded, f.Pods[2].Grace = false, 2*time.Second
			f.Requests[1].At = at(22)
		}, budgets},
		{"the watch shows the mark late since all stood still", func(f *facts) {
			f.Nodes[1].Marks[0].Seen, f.Stalls = at(29), []span{{at(25), at(29)}}
		}, ""},
		{"the watch shows the mark late", func(f *facts) { f.Nodes[1].Marks[0].Seen = at(29) }, budgets},
		{"the API server was away before the node could be marked, and half of the time is over", func(f *facts) {
			f.Nodes[1].Marks, f.Outages = nil, []span{{at(11), at(20)}}
		}, ""},
		{"half of the time is not over then", func(f *facts) {
			f.Nodes[1].Marks, f.Outages, f.Requests[1].At = nil, []span{{at(11), at(16)}}, at(18)
		}, budgets},
		{"the mark came after the API server, and counts from then", func(f *facts) {
			f.Nodes[1].Marks[0].Seen, f.Nodes[1].Marks[0].Since = at(26), at(26)
			f.Outages, f.Requests[1].At = []span{{at(11), at(21)}}, at(22)
		}, ""},
		{"the mark came late, and the API server was there", func(f *facts) {
			f.Nodes[1].Marks[0].Seen, f.Nodes[1].Marks[0].Since = at(23.5), at(23)
			f.Requests[1].At = at(22)
		}, budgets},
		{"the API server was away when the node was marked", func(f *facts) {
			f.Nodes[1].Marks[0].Seen, f.Nodes[1].Marks[0].Since = at(11), at(11)
			f.Outages, f.Requests[1].At = []span{{at(12), at(16)}}, at(18)
		}, budgets},
		{"a pod is deleted on a node without a mark", func(f *facts) { f.Nodes[1].Marks = nil }, budgets},
		{"a pod's deletion was refused", func(f *facts) {
			f.Requests[1].At, f.Requests[1].Code = at(15), http.StatusConflict
		}, ""},

		{"a hook runs into its timeout", func(f *facts) {
			hook(f).ClosedBy, hook(f).Result = awsim.ByHeartbeatTimeout, "ABANDON"
		}, completes},
		{"that was since the API server was away, with a hand-over, for more than half of the timeout", func(f *facts) {
			timesOut(f, 30)
			f.Outages = []span{{at(45), at(66)}}
		}, ""},
		{"the API server was away for less than that", func(f *facts) {
			timesOut(f, 30)
			f.Outages = []span{{at(45), at(64)}}
		}, completes},
		{"it was away before the last heartbeat", func(f *facts) {
			timesOut(f, 60)
			f.Outages = []span{{at(25), at(58)}}
		}, completes},
		{"it was away and came back at the end only", func(f *facts) {
			timesOut(f, 30)
			f.Outages = []span{{at(62), at(95)}}
		}, completes},
		{"it was away, and no heartbeat had been sent yet", func(f *facts) {
			timesOut(f, 10)
			hook(f).Heartbeats, f.Outages = nil, []span{{at(20), at(45)}}
		}, ""},
		{"it was away, then no agent lived, and then all stood still", func(f *facts) {
			timesOut(f, 30)
			f.Outages, f.Stalls = []span{{at(40), at(45)}}, []span{{at(66), at(72)}}
			f.Lives = []life{{span: span{at(0), at(47)}, Ended: killed}, {span: span{at(48), at(99)}, Ended: stopped}}
		}, ""},
		{"agents ended one after the other", func(f *facts) {
			timesOut(f, 30)
			f.Lives = []life{{span: span{at(0), at(60)}, Ended: killed}, {span: span{at(59), at(99)}, Ended: stopped}}
		}, completes},
		{"a launch times out in such an absence, and its instance goes", func(f *facts) {
			timesOut(f, 30)
			hook(f).Transition, hook(f).InstanceID, f.Outages = awsim.Launching, "i-on", []span{{at(45), at(76)}}
			f.Requests = append(f.Requests, evicted("a", 95))
		}, ""},
		{"a pod is evicted before that", func(f *facts) {
			timesOut(f, 30)
			hook(f).Transition, hook(f).InstanceID, f.Outages = awsim.Launching, "i-on", []span{{at(45), at(76)}}
			f.Requests = append(f.Requests, evicted("a", 85))
		}, innocent},
		{"a hook is completed with ABANDON", func(f *facts) { hook(f).Result = "ABANDON" }, completes},
		{"a hook is open in the end", func(f *facts) { hook(f).ClosedAt = time.Time{} }, completes},
		{"the hook of others is open in the end", func(f *facts) { f.Actions[1].ClosedAt = time.Time{} }, completes},
		{"EC2 takes the machine of an instance while its hook waits", func(f *facts) {
			hook(f).ClosedBy, f.Fates[0].Kind = awsim.ByInterruption, spotAmid
		}, ""},
		{"a launch is abandoned", func(f *facts) {
			hook(f).Transition, hook(f).Result = awsim.Launching, "ABANDON"
		}, completes},
		{"a node has pods when its launch is completed", func(f *facts) {
			hook(f).Transition, hook(f).PodsAtClose = awsim.Launching, []string{"shop/a"}
		}, ""},

		{"the hook of another cluster is completed", func(f *facts) { f.Actions[2].ClosedAt = at(20) }, others},
		{"the hook of another cluster is held", func(f *facts) { f.Actions[2].Heartbeats = []time.Time{at(20)} }, others},
		{"the hook of another team is held", func(f *facts) { f.Meddling = []string{"a heartbeat"} }, others},

		{"a pod is evicted from a node that lives on", func(f *facts) {
			f.Requests = append(f.Requests, evicted("a", 20))
		}, innocent},
		{"a pod is evicted before its instance goes", func(f *facts) { f.Requests[0].At = at(5) }, innocent},
		{"a pod is evicted that was never seen", func(f *facts) {
			f.Requests = append(f.Requests, evicted("c", 20))
		}, innocent},
		{"a pod is evicted just after the event was called off", func(f *facts) { f.Fates[0].To = at(11) }, ""},
		{"a pod is evicted long after the event was called off", func(f *facts) {
			f.Fates[0].To, f.Fates[0].From = at(-5), at(-20)
		}, innocent},
		{"the API server was away when the event was called off", func(f *facts) {
			f.Fates[0].To, f.Fates[0].From, f.Outages = at(-5), at(-20), []span{{at(-6), at(8)}}
		}, ""},
		{"all stood still when the event was called off", func(f *facts) {
			f.Fates[0].To, f.Fates[0].From, f.Stalls = at(-5), at(-20), []span{{at(-1), at(4)}}
		}, ""},
		{"all stood still amid an absence of the API server, which is counted once", func(f *facts) {
			f.Fates[0].To, f.Fates[0].From = at(-7), at(-20)
			f.Outages, f.Stalls = []span{{at(-6), at(-3)}}, []span{{at(-6), at(-3)}}
		}, innocent},
		{"an eviction was refused", func(f *facts) {
			f.Requests = append(f.Requests, evicted("a", 20))
			f.Requests[2].Code = http.StatusTooManyRequests
		}, ""},
		{"the watch shows a pod a moment late", func(f *facts) { f.Pods[0].Seen.From = at(13) }, ""},
		{"the watch shows a pod late", func(f *facts) { seenLate(f) }, innocent},
		{"that was since all stood still", func(f *facts) {
			seenLate(f)
			f.Stalls = []span{{at(12.5), at(17.5)}}
		}, ""},
		{"all stood still some time before", func(f *facts) {
			seenLate(f)
			f.Stalls = []span{{at(4), at(9)}}
		}, innocent},

		{"a mark is left on a node that lives on", func(f *facts) { f.Remains = []string{"node-i-on: taint"} }, clean},
		{"a message is left in the queue", func(f *facts) { f.Left = []string{"{}"} }, emptied},

		{"a pod of a Spot Instance dies without warning", func(f *facts) { f.Pods[2].Told = time.Time{} }, told},
		{"a pod of it is told by the end of the machine only", func(f *facts) { f.Pods[2].Told = at(37.9) }, told},
		{"that pod came when the node had long been marked", func(f *facts) {
			f.Pods[2].Told, f.Pods[2].Bound = at(37.9), at(14.1)
		}, ""},
		{"that pod came a moment after the mark", func(f *facts) {
			f.Pods[2].Told, f.Pods[2].Bound = at(37.9), at(13.9)
		}, told},
		{"that pod came to a node without a mark", func(f *facts) {
			f.Pods[2].Told, f.Pods[2].Bound, f.Nodes[1].Marks, f.Requests = at(37.9), at(20), nil, nil
		}, told},
		{"a pod of it is told at the last moment", func(f *facts) { f.Pods[2].Told = at(34.9) }, ""},
		{"that was while no agent lived", func(f *facts) {
			f.Pods[2].Told, f.Lives = time.Time{}, []life{{span: span{at(40), at(60)}, Ended: stopped}}
		}, ""},
		{"that was while the API server was away", func(f *facts) {
			f.Pods[2].Told, f.Outages = time.Time{}, []span{{at(9), at(36)}}
		}, ""},
		{"no agent lived for a moment, and it was too late for another one to lead", func(f *facts) {
			f.Pods[2].Told = time.Time{}
			f.Lives = []life{{span: span{at(0), at(26)}, Ended: killed}, {span: span{at(26.1), at(60)}, Ended: stopped}}
		}, ""},
		{"no agent lived for a moment early in the notice", func(f *facts) {
			f.Pods[2].Told = time.Time{}
			f.Lives = []life{{span: span{at(0), at(18)}, Ended: killed}, {span: span{at(19), at(60)}, Ended: stopped}}
		}, told},
		{"the API server came back too late for an agent to lead", func(f *facts) {
			f.Pods[2].Told, f.Outages = time.Time{}, []span{{at(9), at(22)}}
		}, ""},
		{"the API server went before the last pods must be told", func(f *facts) {
			f.Pods[2].Told, f.Outages = time.Time{}, []span{{at(26), at(36)}}
		}, ""},
		{"the API server was away early in the notice only", func(f *facts) {
			f.Pods[2].Told, f.Outages = time.Time{}, []span{{at(9), at(19)}}
		}, told},
		{"all stood still late in the notice", func(f *facts) {
			f.Pods[2].Told, f.Stalls = time.Time{}, []span{{at(24), at(29)}}
		}, ""},
		{"all stood still before the notice", func(f *facts) {
			f.Pods[2].Told, f.Stalls = time.Time{}, []span{{at(4), at(9)}}
		}, told},

		{"an agent ends by itself", func(f *facts) { f.Lives[0].Ended = "exit status 66" }, alive},
		{"an agent does not stop", func(f *facts) { f.Lives[1].Ended = "it had not stopped" }, alive},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := kept()
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
