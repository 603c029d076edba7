package main

import (
	"strings"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/test/awsim"
)

func plain(out *strings.Builder) *screen {
	return &screen{out: out, width: func() int { return defaultWidth }}
}

func TestScreen(t *testing.T) {
	for colors, want := range map[bool]string{
		true:  "one\n\r\x1b[Kbar\r\x1b[Ktwo \x1b[32mok\x1b[0m\nbar\r\x1b[K",
		false: "one\n\r\x1b[Kbar\r\x1b[Ktwo ok\nbar\r\x1b[K",
	} {
		var out strings.Builder
		s := plain(&out)
		s.terminal, s.colors = true, colors
		s.line("one")
		s.status("bar")
		s.line("two %s", s.green("ok"))
		s.status("")
		if out.String() != want {
			t.Errorf("%q, want %q", out.String(), want)
		}
	}
}

func goodResult() result {
	return result{
		Pods: view{Total: 12, Gone: 12, Ready: 12, Fewest: 10}, Stayed: true, Min: 10,
		Action: awsim.Action{
			ClosedBy: awsim.ByCompletion, Result: "CONTINUE", Heartbeats: make([]time.Time, 4),
			Completions: []awsim.Completion{{By: "token", Result: "CONTINUE"}},
		},
	}
}

func TestChecks(t *testing.T) {
	if err := goodResult().check(); err != nil {
		t.Errorf("all checks pass, but: %v", err)
	}
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
