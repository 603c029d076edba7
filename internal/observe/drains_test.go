package observe_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/node-drainer/node-drainer/pkg/drain"
)

// TestNodeEvents: only the first of all pods that wait for the same has an Event on the node, in each drain.
func TestNodeEvents(t *testing.T) {
	r := newRecorder("error")
	record := func(node int, reason drain.WaitReason, budget string) {
		s := newSubject(node)
		r.PodBlocked(s.target, s.held(reason, budget, ""))
	}
	record(1, drain.BlockedByBudget, "web/a")
	record(1, drain.BlockedByBudget, "web/a")
	record(1, drain.BlockedByBudget, "web/b")
	record(1, drain.OptedOut, "")
	record(2, drain.BlockedByBudget, "web/a")
	record(1, drain.BlockedByBudget, "web/a")
	r.DrainEnded(newSubject(1).target, drain.LeftBehind)
	record(1, drain.BlockedByBudget, "web/a")
	var nodes []string
	for _, e := range r.events {
		if node, _, _ := strings.Cut(e, " warning"); strings.HasPrefix(e, "event node") {
			nodes = append(nodes, node)
		}
	}
	want := []string{
		"event node node-1 (uid-1) EvictionBlocked", "event node node-1 (uid-1) EvictionBlocked", "event node node-1 (uid-1) EvictionPostponed",
		"event node node-2 (uid-2) EvictionBlocked", "event node node-1 (uid-1) EvictionBlocked",
	}
	if diff := cmp.Diff(want, nodes); diff != "" {
		t.Errorf("Events on nodes (-want +got):\n%s", diff)
	}
	if len(r.events) != len(want)+7 {
		t.Errorf("%d Events, want one on each pod, each time", len(r.events))
	}
}

// TestPodsWaiting: the metric is the sum of the last progress of each node.
func TestPodsWaiting(t *testing.T) {
	r := newRecorder("error")
	one, two := newSubject(1), newSubject(2)
	held := func(n int) drain.WaitCount {
		return drain.WaitCount{Reason: drain.BlockedByBudget, Budget: "web/a", Pods: n}
	}
	later := drain.WaitCount{Reason: drain.LaterTier, Pods: 1}
	for _, tt := range []struct {
		name            string
		record          func()
		budgeted, later float64
	}{
		{"a node", func() { r.DrainProgressed(one.progress(5, held(3), later)) }, 3, 1},
		{"another node", func() { r.DrainProgressed(two.progress(5, held(4), held(1))) }, 8, 1},
		{"the first node continues", func() { r.DrainProgressed(one.progress(3, held(2))) }, 7, 0},
		{"the same progress again", func() { r.DrainProgressed(one.progress(3, held(2))) }, 7, 0},
		{"its drain ends", func() { r.DrainEnded(one.target, drain.LeftBehind) }, 5, 0},
		{"its drain ends again", func() { r.DrainEnded(one.target, drain.LeftBehind) }, 5, 0},
		{"the other drain is interrupted", func() { r.DrainEnded(two.target, drain.Interrupted) }, 0, 0},
	} {
		tt.record()
		samples := r.scrape(t)
		if b, l := samples[`pods_waiting{reason="blocked-by-budget"}`], samples[`pods_waiting{reason="later-tier"}`]; b != tt.budgeted || l != tt.later {
			t.Errorf("%s: %v wait for budgets and %v for tiers, want %v and %v", tt.name, b, l, tt.budgeted, tt.later)
		}
	}
}

// TestForcedPods: of the pods of a node that were forced in spite of one budget, the first have Events of their own, and
// the others share one on the node, soon and at the end of the drain.
func TestForcedPods(t *testing.T) {
	r := newRecorder("error")
	s := newSubject(1)
	force := func(budget string, from, to int) {
		for i := from; i < to; i++ {
			s.pod.Name, s.pod.Budgets = fmt.Sprintf("%s-6d4cf56db6-%04d", budget, i), []string{"web/" + budget}
			r.PodForced(s.target, drain.Removal{Pod: s.pod, Kind: drain.Deletion, Reason: drain.AtDeadline})
		}
	}
	synctest.Test(t, func(*testing.T) {
		force("api", 0, 30)
		force("db", 0, 3)
		r.DrainProgressed(s.progress(30))
		time.Sleep(10 * time.Second)
		r.DrainProgressed(s.progress(30))
		force("api", 30, 60)
		r.DrainEnded(s.target, drain.LeftBehind)
		r.DrainEnded(s.target, drain.LeftBehind)
	})
	var nodes []string
	for _, e := range r.events {
		_, message, _ := strings.Cut(e, "warning=true: ")
		if strings.HasPrefix(e, "event node") {
			nodes = append(nodes, message)
		}
		if len(message) > 1024 {
			t.Errorf("a message has %d bytes", len(message))
		}
	}
	if len(nodes) != 2 || !strings.HasPrefix(nodes[0], "Deleted: 27 more pods of PodDisruptionBudget web/api: web/api-6d4cf56db6-0003, ") ||
		!strings.HasSuffix(nodes[0], "web/api-6d4cf56db6-0029") ||
		!strings.HasPrefix(nodes[1], "Deleted: 30 more pods of PodDisruptionBudget web/api: web/api-6d4cf56db6-0030, ") {
		t.Errorf("Events on the node: %q", nodes)
	}
	if n := len(r.events) - len(nodes); n != 6 {
		t.Errorf("%d Events on pods, want 6", n)
	}
}

// TestPodsLeftBehindAreNamed as far as the message of an Event has space.
func TestPodsLeftBehindAreNamed(t *testing.T) {
	for _, tt := range []struct{ pods, named int }{{30, 30}, {60, 36}} {
		r, s := newRecorder("error"), newSubject(1)
		left := make([]string, tt.pods)
		for i := range left {
			left[i] = fmt.Sprintf("web/api-6d4cf56db6-x%04d", i)
		}
		r.NodeDrained(s.event, s.node, drain.Report{Total: tt.pods, Left: left})
		_, message, _ := strings.Cut(r.events[0], "warning=true: ")
		if named := strings.Count(message, "web/api"); named != tt.named || len(message) > 1024 {
			t.Errorf("%d of %d pods are named in %d bytes: %s", named, tt.pods, len(message), message)
		}
	}
}

// TestDeadlines: the metrics have the earliest instants of the drains that run.
func TestDeadlines(t *testing.T) {
	r := newRecorder("error")
	one, two := newSubject(1), newSubject(2)
	two.target.Deadline = one.target.Deadline.Add(-time.Minute)
	progress := func(s subject, forced time.Duration) drain.Progress {
		p := s.progress(3)
		if forced != 0 {
			p.ForcedAt = s.target.Deadline.Add(-forced)
		}
		return p
	}
	for _, tt := range []struct {
		name             string
		record           func()
		deadline, forced time.Time
	}{
		{"none runs", func() {}, time.Time{}, time.Time{}},
		{"a drain whose pods do not wait", func() { r.DrainProgressed(progress(two, 0)) }, two.target.Deadline, time.Time{}},
		{
			"another one whose pods wait", func() { r.DrainProgressed(progress(one, 30*time.Second)) },
			two.target.Deadline, one.target.Deadline.Add(-30 * time.Second),
		},
		{
			"the first one waits, too", func() { r.DrainProgressed(progress(two, 20*time.Second)) },
			two.target.Deadline, two.target.Deadline.Add(-20 * time.Second),
		},
		{
			"it ends", func() { r.DrainEnded(two.target, drain.LeftBehind) },
			one.target.Deadline, one.target.Deadline.Add(-30 * time.Second),
		},
		{"all end", func() { r.DrainEnded(one.target, drain.LeftBehind) }, time.Time{}, time.Time{}},
	} {
		tt.record()
		samples := r.scrape(t)
		for name, want := range map[string]time.Time{
			"nearest_deadline_timestamp_seconds": tt.deadline, "forced_removal_timestamp_seconds": tt.forced,
		} {
			if unix := max(want.Unix(), 0); samples[name] != float64(unix) {
				t.Errorf("%s: %s is %v, want %v", tt.name, name, samples[name], unix)
			}
		}
	}
}
