package observe_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/node-drainer/node-drainer/pkg/drain"
)

// podFacts returns the facts about pods and drains. The drain of a subject started five minutes ago, at 23:55, and has
// an hour left.
func podFacts() []fact {
	const (
		deadline = "2000-01-01T01:00:00Z"
		since    = "1999-12-31T23:56:00Z"
		draining = "Node node-1 is being drained until " + deadline + "; the pod "
		figures  = "it allows 0 disruptions now: 2 of its 3 pods are healthy, and it requires 2"
		never    = "it never allows a disruption: 1 of its 1 pods are healthy, and it requires 1"
	)
	line := func(more fields) fields {
		more["node"] = "node-1"
		return more
	}
	budgets := make([]drain.WaitCount, 7)
	for i := range budgets {
		budgets[i] = drain.WaitCount{Reason: drain.BlockedByBudget, Budget: fmt.Sprintf("shop/%d", i), Pods: 9 - i}
	}
	// blocked returns a fact of PodBlocked, whose Events on the pod and on the node say what it waits for.
	blocked := func(name string, w func(subject) drain.Waiting, level, event string, warning bool, what string) fact {
		return fact{
			name: "PodBlocked, " + name, record: func(r *recorder, s subject) { r.PodBlocked(s.target, w(s)) },
			line: line(fields{
				"level": level, "message": "eviction blocked", "pod": "web/pod-1", "since": "1999-12-31T23:56:00.000Z",
			}),
			metrics: samples{`pods_total{action="blocked"}`: 1},
			events: []string{
				fmt.Sprintf("pod web/pod-1 (pod-uid-1) %s warning=%v: %s%s", event, warning, draining, what),
				fmt.Sprintf("node node-1 (uid-1) %s warning=%v: Pod web/pod-1 %s", event, warning, what),
			},
		}
	}
	return []fact{
		{
			name: "DrainProgressed", record: func(r *recorder, s subject) { r.DrainProgressed(s.progress(3)) },
			line: line(fields{
				"level": "info", "message": "draining", "pods": 5.0, "left": 3.0, "blocked": 0.0, "waiting": "",
			}),
			conditions: []string{"node-1 (uid-1) drained=false final=false Draining: 3 of 5 pods left"},
		},
		{
			name: "DrainProgressed, held by budgets", record: func(r *recorder, s subject) {
				r.DrainProgressed(s.progress(5,
					drain.WaitCount{Reason: drain.BlockedByBudget, Budget: "shop/api", Pods: 2},
					drain.WaitCount{Reason: drain.Misconfigured, Budget: "shop/db", Pods: 1},
					drain.WaitCount{Reason: drain.LaterTier, Pods: 1}))
			},
			line: line(fields{"left": 5.0, "blocked": 3.0}),
			metrics: samples{
				`pods_waiting{reason="blocked-by-budget"}`: 2, `pods_waiting{reason="misconfigured-budget"}`: 1,
				`pods_waiting{reason="later-tier"}`: 1,
			},
			conditions: []string{"node-1 (uid-1) drained=false final=false Blocked: 5 of 5 pods left; " + strings.Join([]string{
				drain.WaitCount{Reason: drain.BlockedByBudget, Budget: "shop/api", Pods: 2}.String(),
				drain.WaitCount{Reason: drain.Misconfigured, Budget: "shop/db", Pods: 1}.String(),
				drain.WaitCount{Reason: drain.LaterTier, Pods: 1}.String(),
			}, "; ")},
		},
		{
			name: "DrainProgressed, held by many budgets", record: func(r *recorder, s subject) { r.DrainProgressed(s.progress(5, budgets...)) },
			line: line(fields{
				"blocked": 42.0, "waiting": "9 wait for PodDisruptionBudget shop/0; 8 wait for PodDisruptionBudget shop/1; " +
					"7 wait for PodDisruptionBudget shop/2; 6 wait for PodDisruptionBudget shop/3; " +
					"5 wait for PodDisruptionBudget shop/4; and 2 more reasons",
			}),
			metrics: samples{`pods_waiting{reason="blocked-by-budget"}`: 42},
			conditions: []string{"node-1 (uid-1) drained=false final=false Blocked: 5 of 5 pods left; " +
				"9 wait for PodDisruptionBudget shop/0; 8 wait for PodDisruptionBudget shop/1; " +
				"7 wait for PodDisruptionBudget shop/2; 6 wait for PodDisruptionBudget shop/3; " +
				"5 wait for PodDisruptionBudget shop/4; and 2 more reasons"},
		},
		{
			name: "DrainProgressed, waiting for volumes", record: func(r *recorder, s subject) {
				r.DrainProgressed(s.progress(0, drain.WaitCount{Reason: drain.VolumesAttached, Pods: 2}))
			},
			line:    line(fields{"left": 0.0, "blocked": 0.0}),
			metrics: samples{`pods_waiting{reason="volumes-attached"}`: 2},
			conditions: []string{"node-1 (uid-1) drained=false final=false Draining: 0 of 5 pods left; " +
				drain.WaitCount{Reason: drain.VolumesAttached, Pods: 2}.String()},
		},
		{
			// NodeDrained writes the final condition.
			name: "DrainProgressed, to the end", record: func(r *recorder, s subject) { r.DrainProgressed(s.progress(0)) },
			line: line(fields{"level": "info", "left": 0.0}),
		},
		{
			name: "DrainEnded", record: func(r *recorder, s subject) { r.DrainEnded(s.target, drain.ByForce) },
			line:    line(fields{"level": "debug", "message": "drain ended", "result": "by-force"}),
			metrics: samples{`drains_total{result="by-force"}`: 1},
		},
		{
			name: "PodEvicted", record: func(r *recorder, s subject) { r.PodEvicted(s.target, s.pod, 3*time.Second) },
			line: line(fields{"level": "debug", "pod": "web/pod-1"}),
			metrics: samples{
				`pods_total{action="evicted"}`: 1, "eviction_wait_seconds_count": 1, "eviction_wait_seconds_sum": 3,
			},
		},
		blocked("by its budget", func(s subject) drain.Waiting {
			return s.held(drain.BlockedByBudget, "web/budget", figures)
		}, "info", "EvictionBlocked", true, "has been waiting for PodDisruptionBudget web/budget since "+since+": "+figures),
		blocked("by a budget that only the API server names", func(s subject) drain.Waiting {
			return s.held(drain.BlockedByBudget, "", "figures")
		}, "info", "EvictionBlocked", true, "has been waiting for PodDisruptionBudget web/budget-1 since "+since+": figures"),
		blocked("by an unknown budget", func(s subject) drain.Waiting {
			s.pod.Budgets = nil
			return s.held(drain.BlockedByBudget, "", "the budget x needs 2 healthy pods")
		}, "info", "EvictionBlocked", true, "has been waiting since "+since+": the budget x needs 2 healthy pods"),
		blocked("forever, with a remedy", func(s subject) drain.Waiting {
			return s.held(drain.Misconfigured, "web/budget", never)
		}, "warn", "BudgetMisconfigured", true, "cannot be evicted because of PodDisruptionBudget web/budget: "+never+
			". Run more pods, lower its minAvailable, or raise its maxUnavailable"),
		blocked("by two budgets", func(s subject) drain.Waiting {
			s.pod.Budgets = []string{"web/a", "web/b"}
			return s.held(drain.Misconfigured, "web/a and web/b", "2 PodDisruptionBudgets select the pod")
		}, "warn", "BudgetMisconfigured", true, "cannot be evicted because of PodDisruptionBudget web/a and web/b: "+
			"2 PodDisruptionBudgets select the pod. Change their selectors so that only one of them selects the pod"),
		blocked("by its annotation", func(s subject) drain.Waiting {
			return s.held(drain.OptedOut, "", "")
		}, "info", "EvictionPostponed", false, "has been waiting since "+since+", because its annotation forbids the eviction"),
		blocked("by configuration", func(s subject) drain.Waiting {
			return s.held(drain.WaitedFor, "", "a Job's")
		}, "info", "EvictionPostponed", false, "has been waiting since "+since+", because the agent is configured to let it finish: a Job's"),
		{
			name: "PodForced, at the deadline", record: func(r *recorder, s subject) {
				r.PodForced(s.target, drain.Removal{Pod: s.pod, Grace: 30 * time.Second, Reason: drain.AtDeadline})
			},
			line: line(fields{
				"level": "warn", "message": "pod deleted at the deadline", "pod": "web/pod-1", "reason": "deadline",
				"budgets": []any{"web/budget-1"},
			}),
			metrics: samples{`pods_forced_total{reason="deadline"}`: 1},
			events: []string{"pod web/pod-1 (pod-uid-1) DeletedAtDeadline warning=true: Deleted with a grace period of 30s: " +
				"node node-1 must be empty by " + deadline + " and has been draining for 5m0s"},
		},
		{
			name: "PodForced, with the pod's own grace", record: func(r *recorder, s subject) {
				r.PodForced(s.target, drain.Removal{Pod: s.pod, Reason: "unhealthy"})
			},
			line:    line(fields{"level": "warn", "message": "unhealthy pod deleted", "pod": "web/pod-1", "reason": "unhealthy"}),
			metrics: samples{`pods_forced_total{reason="unhealthy"}`: 1},
			events: []string{"pod web/pod-1 (pod-uid-1) DeletedUnhealthy warning=true: Deleted with a grace period of 1m30s: node node-1 " +
				"is being drained, and the pod has not been Ready for so long that its budget does not protect it"},
		},
		{
			name: "EvictionRefused", record: func(r *recorder, s subject) { r.EvictionRefused(s.target, s.pod, drain.Blocked) },
			line:    line(fields{"level": "debug", "pod": "web/pod-1", "outcome": "blocked"}),
			metrics: samples{`evictions_refused_total{reason="blocked"}`: 1},
		},
		{
			name: "VolumesStillAttached", record: func(r *recorder, s subject) { r.VolumesStillAttached(s.target, []string{"pv-1", "pv-2"}) },
			line: line(fields{"level": "warn", "volumes": []any{"pv-1", "pv-2"}}),
			events: []string{"node node-1 (uid-1) VolumesLeftAttached warning=true: No longer waiting for 2 volumes that are " +
				"still attached; pods that need them elsewhere start late: pv-1, pv-2"},
		},
		{
			name: "ConditionFailed", record: func(r *recorder, s subject) { r.ConditionFailed(s.node.Name, errOutage) },
			line:    line(fields{"level": "warn", "api": "kubernetes", "error": "no answer"}),
			metrics: samples{`api_errors_total{api="kubernetes"}`: 1},
		},
	}
}

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
		if node, _, _ := strings.Cut(e, " warning"); strings.HasPrefix(e, "node") {
			nodes = append(nodes, node)
		}
	}
	want := []string{
		"node node-1 (uid-1) EvictionBlocked", "node node-1 (uid-1) EvictionBlocked", "node node-1 (uid-1) EvictionPostponed",
		"node node-2 (uid-2) EvictionBlocked", "node node-1 (uid-1) EvictionBlocked",
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
