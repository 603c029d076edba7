package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/node-drainer/node-drainer/test/awsim"
)

func plain(out *strings.Builder) *screen {
	return &screen{out: out, width: func() int { return defaultWidth }}
}

func TestBar(t *testing.T) {
	for name, row := range map[string]struct {
		done, inProgress, total int
		want                    string
	}{
		"nothing to do":       {0, 0, 0, "░░░░░░░░░░"},
		"nothing done":        {0, 0, 12, "░░░░░░░░░░"},
		"some stop":           {0, 2, 12, "▒░░░░░░░░░"},
		"some done":           {6, 2, 12, "█████▒░░░░"},
		"all but one":         {11, 1, 12, "█████████▒"},
		"all":                 {12, 0, 12, "██████████"},
		"more than the total": {13, 1, 12, "██████████"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := plain(nil).bar(row.done, row.inProgress, row.total, 10); got != row.want {
				t.Errorf("%s, want %s", got, row.want)
			}
		})
	}
}

func TestScreen(t *testing.T) {
	for name, row := range map[string]struct {
		terminal, colors bool
		want             string
	}{
		"file":               {false, false, "one\ntwo ok\n"},
		"terminal":           {true, true, "one\n\r\x1b[Kbar\r\x1b[Ktwo \x1b[32mok\x1b[0m\nbar\r\x1b[K"},
		"terminal, no color": {true, false, "one\n\r\x1b[Kbar\r\x1b[Ktwo ok\nbar\r\x1b[K"},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			s := plain(&out)
			s.terminal, s.colors = row.terminal, row.colors
			s.line("one")
			s.status("bar")
			s.line("two %s", s.green("ok"))
			s.status("")
			if out.String() != row.want {
				t.Errorf("%q, want %q", out.String(), row.want)
			}
		})
	}
}

func goodResult() result {
	return result{
		Pods: view{Total: 12, Gone: 12, Ready: 12, Fewest: 10}, Stayed: true, Min: 10,
		Action: awsim.Action{
			ClosedBy: awsim.ByCompletion, Result: "CONTINUE", Heartbeats: make([]time.Time, 4),
			Completions: []awsim.Completion{{By: "token", Result: "CONTINUE"}},
		},
		Tainted: 110 * time.Millisecond, Drained: 13200 * time.Millisecond, Whole: 14700 * time.Millisecond,
		Kubernetes: map[string]int{"watch": 3, "create": 48, "patch": 1}, Evictions: 35, Refused: 23,
		AWS: map[string]int{"sqs.ReceiveMessage": 3, "sqs.DeleteMessageBatch": 2, "autoscaling.DescribeTags": 1},
	}
}

func TestSummary(t *testing.T) {
	want := strings.TrimPrefix(`
  ok   pods moved           12 of 12
  ok   pods killed          0
  ok   fewest pods ready    10; the PodDisruptionBudget's minimum is 10
  ok   DaemonSet's pod      stayed until the instance was terminated
  ok   heartbeats           4; the hook times out 10s after the last one
  ok   hook completed by    the agent, with CONTINUE, naming the token
       times                to taint 0.1 s, to drain 13.2 s, to terminate 14.7 s
       Kubernetes requests  create 48, patch 1, watch 3; evictions 35, refused 23 of them
       AWS requests         autoscaling 1, sqs 5`, "\n")
	r := goodResult()
	if diff := cmp.Diff(want, r.table(plain(nil))); diff != "" {
		t.Error(diff)
	}
	if err := r.check(); err != nil {
		t.Errorf("all checks pass, but: %v", err)
	}
}

func TestChecks(t *testing.T) {
	for want, spoil := range map[string]func(*result){
		"pods are left":                  func(r *result) { r.Pods.Gone = 11 },
		"pods were killed":               func(r *result) { r.Action.Killed = []string{"shop/a"} },
		"deleted bypassing their budget": func(r *result) { r.Forced = 1 },
		"Budget was violated":            func(r *result) { r.Pods.Fewest = 9 },
		"DaemonSet's pod was evicted":    func(r *result) { r.Stayed = false },
		"no heartbeat":                   func(r *result) { r.Action.Heartbeats = nil },
		"it ended by heartbeat-timeout":  func(r *result) { r.Action.ClosedBy = awsim.ByHeartbeatTimeout },
		"completed with ABANDON":         func(r *result) { r.Action.Result = "ABANDON" },
		"with pods on the node: shop/b":  func(r *result) { r.Action.PodsAtClose = []string{"shop/b"} },
		"are not known":                  func(r *result) { r.Action.PodsError = "no answer" },
	} {
		t.Run(want, func(t *testing.T) {
			r := goodResult()
			spoil(&r)
			err := r.check()
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("check: %v", err)
			}
			if !strings.Contains(r.table(plain(nil)), "BAD") {
				t.Error("the table does not show it")
			}
		})
	}
}
