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
		{"the API server was away, and the end of the machine killed a pod", func(f *facts) {
			hook(f).PodsError, f.Outages = "refused", []span{{at(29), at(35)}}
			hook(f).Killed = []string{"shop/a"}
		}, proof},

		{"a pod is deleted long before the deadline", func(f *facts) { f.Requests[1].At = at(15) }, budgets},
		{"a pod without a budget is deleted when half of the time is over", func(f *facts) {
			f.Pods[2].Guarded, f.Pods[2].Grace = false, 2*time.Second
			f.Requests[1].At = at(22)
		}, budgets},
		{"a pod is deleted on a node without a mark", func(f *facts) { f.Nodes[1].Marks = nil }, budgets},
		{"a pod's deletion was refused", func(f *facts) {
			f.Requests[1].At, f.Requests[1].Code = at(15), http.StatusConflict
		}, ""},

		{"a hook runs into its timeout", func(f *facts) {
			hook(f).ClosedBy, hook(f).Result = awsim.ByHeartbeatTimeout, "ABANDON"
		}, completes},
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
		{"an eviction was refused", func(f *facts) {
			f.Requests = append(f.Requests, evicted("a", 20))
			f.Requests[2].Code = http.StatusTooManyRequests
		}, ""},
		{"the watch shows a pod a moment late", func(f *facts) { f.Pods[0].Seen.From = at(13) }, ""},

		{"a mark is left on a node that lives on", func(f *facts) { f.Remains = []string{"node-i-on: taint"} }, clean},
		{"a message is left in the queue", func(f *facts) { f.Left = []string{"{}"} }, emptied},

		{"a pod of a Spot Instance dies without warning", func(f *facts) { f.Pods[2].Told = time.Time{} }, told},
		{"that was while no agent lived", func(f *facts) {
			f.Pods[2].Told, f.Lives = time.Time{}, []life{{span: span{at(40), at(60)}, Ended: stopped}}
		}, ""},
		{"that was while the API server was away", func(f *facts) {
			f.Pods[2].Told, f.Outages = time.Time{}, []span{{at(9), at(36)}}
		}, ""},
		{"the API server was away for a part of the notice only", func(f *facts) {
			f.Pods[2].Told, f.Outages = time.Time{}, []span{{at(9), at(20)}}
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
