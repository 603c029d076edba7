package observe_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/node-drainer/node-drainer/pkg/drain"
)

// podFacts are those of the pods of a node, and of the drain as a whole. The drain of a subject began five minutes
// ago, at 23:55, and has an hour left.
func podFacts() []fact {
	const (
		deadline = "2000-01-01T01:00:00Z"
		since    = "1999-12-31T23:56:00Z"
		draining = "Node node-1 is being drained until " + deadline + "; the pod "
		figures  = "it allows 0 disruptions now: 2 of its 3 pods are healthy, and it requires 2"
		never    = "it never allows a disruption: 1 of its 1 pods are healthy, and it requires 1"
	)
	line := func(more map[string]any) map[string]any {
		more["node"] = "node-1"
		return more
	}
	budgets := make([]drain.WaitCount, 7)
	for i := range budgets {
		budgets[i] = drain.WaitCount{Reason: drain.BlockedByBudget, Budget: fmt.Sprintf("shop/%d", i), Pods: 9 - i}
	}
	// blocked is a fact of PodBlocked: what it says of the pod, on the pod and on the node.
	blocked := func(name string, w func(subject) drain.Waiting, level, event string, warning bool, what string) fact {
		return fact{
			name: "PodBlocked, " + name, tell: func(d *desk, s subject) { d.PodBlocked(s.target, w(s)) },
			line: line(map[string]any{
				"level": level, "message": "eviction blocked", "pod": "web/pod-1", "since": "1999-12-31T23:56:00.000Z",
			}),
			metrics: map[string]float64{`pods_total{action="blocked"}`: 1},
			events: []string{
				fmt.Sprintf("pod web/pod-1 (pod-uid-1) %s warning=%v: %s%s", event, warning, draining, what),
				fmt.Sprintf("node node-1 (uid-1) %s warning=%v: Pod web/pod-1 %s", event, warning, what),
			},
		}
	}
	return []fact{
		{
			name: "DrainProgressed", tell: func(d *desk, s subject) { d.DrainProgressed(s.progress(3)) },
			line: line(map[string]any{
				"level": "info", "message": "draining", "pods": 5.0, "left": 3.0, "blocked": 0.0, "waiting": "",
			}),
			shown: []string{"node-1 (uid-1) drained=false final=false Draining: 3 of 5 pods left"},
		},
		{
			name: "DrainProgressed, held by budgets", tell: func(d *desk, s subject) {
				d.DrainProgressed(s.progress(5,
					drain.WaitCount{Reason: drain.BlockedByBudget, Budget: "shop/api", Pods: 2},
					drain.WaitCount{Reason: drain.Misconfigured, Budget: "shop/db", Pods: 1},
					drain.WaitCount{Reason: drain.LaterTier, Pods: 1}))
			},
			line: line(map[string]any{"left": 5.0, "blocked": 3.0}),
			metrics: map[string]float64{
				`pods_waiting{reason="blocked-by-budget"}`: 2, `pods_waiting{reason="misconfigured-budget"}`: 1,
				`pods_waiting{reason="later-tier"}`: 1,
			},
			shown: []string{"node-1 (uid-1) drained=false final=false Blocked: 5 of 5 pods left; " + strings.Join([]string{
				drain.WaitCount{Reason: drain.BlockedByBudget, Budget: "shop/api", Pods: 2}.String(),
				drain.WaitCount{Reason: drain.Misconfigured, Budget: "shop/db", Pods: 1}.String(),
				drain.WaitCount{Reason: drain.LaterTier, Pods: 1}.String(),
			}, "; ")},
		},
		{
			name: "DrainProgressed, held by many budgets", tell: func(d *desk, s subject) { d.DrainProgressed(s.progress(5, budgets...)) },
			line: line(map[string]any{
				"blocked": 42.0, "waiting": "9 wait for PodDisruptionBudget shop/0; 8 wait for PodDisruptionBudget shop/1; " +
					"7 wait for PodDisruptionBudget shop/2; 6 wait for PodDisruptionBudget shop/3; " +
					"5 wait for PodDisruptionBudget shop/4; and 2 reasons more",
			}),
			metrics: map[string]float64{`pods_waiting{reason="blocked-by-budget"}`: 42},
			shown: []string{"node-1 (uid-1) drained=false final=false Blocked: 5 of 5 pods left; " +
				"9 wait for PodDisruptionBudget shop/0; 8 wait for PodDisruptionBudget shop/1; " +
				"7 wait for PodDisruptionBudget shop/2; 6 wait for PodDisruptionBudget shop/3; " +
				"5 wait for PodDisruptionBudget shop/4; and 2 reasons more"},
		},
		{
			name: "DrainProgressed, waiting for volumes", tell: func(d *desk, s subject) {
				d.DrainProgressed(s.progress(0, drain.WaitCount{Reason: drain.VolumesAttached, Pods: 2}))
			},
			line:    line(map[string]any{"left": 0.0, "blocked": 0.0}),
			metrics: map[string]float64{`pods_waiting{reason="volumes-attached"}`: 2},
			shown: []string{"node-1 (uid-1) drained=false final=false Draining: 0 of 5 pods left; " +
				drain.WaitCount{Reason: drain.VolumesAttached, Pods: 2}.String()},
		},
		{
			// The final condition is about to come.
			name: "DrainProgressed, to the end", tell: func(d *desk, s subject) { d.DrainProgressed(s.progress(0)) },
			line: line(map[string]any{"level": "info", "left": 0.0}),
		},
		{
			name: "DrainEnded", tell: func(d *desk, s subject) { d.DrainEnded(s.target, drain.ByForce) },
			line:    line(map[string]any{"level": "debug", "message": "drain ended", "result": "by-force"}),
			metrics: map[string]float64{`drains_total{result="by-force"}`: 1},
		},
		{
			name: "PodEvicted", tell: func(d *desk, s subject) { d.PodEvicted(s.target, s.pod, 3*time.Second) },
			line: line(map[string]any{"level": "debug", "pod": "web/pod-1"}),
			metrics: map[string]float64{
				`pods_total{action="evicted"}`: 1, "eviction_wait_seconds_count": 1, "eviction_wait_seconds_sum": 3,
			},
		},
		blocked("by its budget", func(s subject) drain.Waiting {
			return s.held(drain.BlockedByBudget, "web/budget", figures)
		}, "info", "EvictionBlocked", true, "waits for PodDisruptionBudget web/budget since "+since+": "+figures),
		blocked("by a budget that only the API server names", func(s subject) drain.Waiting {
			return s.held(drain.BlockedByBudget, "", "figures")
		}, "info", "EvictionBlocked", true, "waits for PodDisruptionBudget web/budget-1 since "+since+": figures"),
		blocked("by a budget that is not known here", func(s subject) drain.Waiting {
			s.pod.Budgets = nil
			return s.held(drain.BlockedByBudget, "", "the budget x needs 2 healthy pods")
		}, "info", "EvictionBlocked", true, "waits since "+since+": the budget x needs 2 healthy pods"),
		blocked("for good, and what to change", func(s subject) drain.Waiting {
			return s.held(drain.Misconfigured, "web/budget", never)
		}, "warn", "BudgetMisconfigured", true, "is not let go by PodDisruptionBudget web/budget: "+never+
			". Run more pods, lower its minAvailable, or raise its maxUnavailable"),
		blocked("by two budgets", func(s subject) drain.Waiting {
			s.pod.Budgets = []string{"web/a", "web/b"}
			return s.held(drain.Misconfigured, "web/a and web/b", "2 PodDisruptionBudgets select the pod")
		}, "warn", "BudgetMisconfigured", true, "is not let go by PodDisruptionBudget web/a and web/b: "+
			"2 PodDisruptionBudgets select the pod. Have only one of them select the pod"),
		blocked("because it asks for it", func(s subject) drain.Waiting {
			return s.held(drain.OptedOut, "", "")
		}, "info", "EvictionPostponed", false, "is waited for since "+since+", as an annotation asks"),
		blocked("because the agent is configured so", func(s subject) drain.Waiting {
			return s.held(drain.WaitedFor, "", "a Job's")
		}, "info", "EvictionPostponed", false, "is waited for since "+since+", as the agent is configured: a Job's"),
		{
			name: "PodForced, at the deadline", tell: func(d *desk, s subject) {
				d.PodForced(s.target, drain.Removal{Pod: s.pod, Grace: 30 * time.Second, Reason: drain.AtDeadline})
			},
			line: line(map[string]any{
				"level": "warn", "message": "pod deleted at the deadline", "pod": "web/pod-1", "reason": "deadline",
				"budgets": []any{"web/budget-1"},
			}),
			metrics: map[string]float64{`pods_forced_total{reason="deadline"}`: 1},
			events: []string{"pod web/pod-1 (pod-uid-1) DeletedAtDeadline warning=true: Deleted with a grace of 30s: " +
				"node node-1 must be empty by " + deadline + " and has been draining for 5m0s"},
		},
		{
			name: "PodForced, with the pod's own grace", tell: func(d *desk, s subject) {
				d.PodForced(s.target, drain.Removal{Pod: s.pod, Reason: "unhealthy"})
			},
			line:    line(map[string]any{"level": "warn", "message": "unhealthy pod deleted", "pod": "web/pod-1", "reason": "unhealthy"}),
			metrics: map[string]float64{`pods_forced_total{reason="unhealthy"}`: 1},
			events: []string{"pod web/pod-1 (pod-uid-1) DeletedUnhealthy warning=true: Deleted with a grace of 1m30s: node node-1 " +
				"is being drained, and the pod has not been Ready for so long that its budget protects nothing"},
		},
		{
			name: "EvictionRefused", tell: func(d *desk, s subject) { d.EvictionRefused(s.target, s.pod, drain.Blocked) },
			line:    line(map[string]any{"level": "debug", "pod": "web/pod-1", "outcome": "blocked"}),
			metrics: map[string]float64{`evictions_refused_total{reason="blocked"}`: 1},
		},
		{
			name: "VolumesLeft", tell: func(d *desk, s subject) { d.VolumesStillAttached(s.target, []string{"pv-1", "pv-2"}) },
			line: line(map[string]any{"level": "warn", "volumes": []any{"pv-1", "pv-2"}}),
			events: []string{"node node-1 (uid-1) VolumesLeftAttached warning=true: No longer waiting for 2 volumes that are " +
				"still attached; pods that need them elsewhere start late: pv-1, pv-2"},
		},
		{
			name: "ConditionLost", tell: func(d *desk, s subject) { d.ConditionFailed(s.node.Name, errOutage) },
			line:    line(map[string]any{"level": "warn", "api": "kubernetes", "error": "no answer"}),
			metrics: map[string]float64{`api_errors_total{api="kubernetes"}`: 1},
		},
	}
}

// TestNodeIsToldOnce: of all pods that wait for one thing the first is named on the node, each time it is drained.
func TestNodeIsToldOnce(t *testing.T) {
	d := newDesk("error")
	tell := func(node int, reason drain.WaitReason, budget string) {
		s := newSubject(node)
		d.PodBlocked(s.target, s.held(reason, budget, ""))
	}
	tell(1, drain.BlockedByBudget, "web/a")
	tell(1, drain.BlockedByBudget, "web/a")
	tell(1, drain.BlockedByBudget, "web/b")
	tell(1, drain.OptedOut, "")
	tell(2, drain.BlockedByBudget, "web/a")
	tell(1, drain.BlockedByBudget, "web/a")
	d.DrainEnded(newSubject(1).target, drain.LeftBehind)
	tell(1, drain.BlockedByBudget, "web/a")
	var nodes []string
	for _, e := range d.events {
		if told, _, _ := strings.Cut(e, " warning"); strings.HasPrefix(e, "node") {
			nodes = append(nodes, told)
		}
	}
	want := []string{
		"node node-1 (uid-1) EvictionBlocked", "node node-1 (uid-1) EvictionBlocked", "node node-1 (uid-1) EvictionPostponed",
		"node node-2 (uid-2) EvictionBlocked", "node node-1 (uid-1) EvictionBlocked",
	}
	if diff := cmp.Diff(want, nodes); diff != "" {
		t.Errorf("the Events on nodes (-want +got):\n%s", diff)
	}
	if len(d.events) != len(want)+7 {
		t.Errorf("%d Events, want one on each pod, each time", len(d.events))
	}
}

// TestPodsThatWait is the sum over the nodes of what was told last of each.
func TestPodsThatWait(t *testing.T) {
	d := newDesk("error")
	one, two := newSubject(1), newSubject(2)
	held := func(n int) drain.WaitCount {
		return drain.WaitCount{Reason: drain.BlockedByBudget, Budget: "web/a", Pods: n}
	}
	later := drain.WaitCount{Reason: drain.LaterTier, Pods: 1}
	for _, tt := range []struct {
		name            string
		tell            func()
		budgeted, later float64
	}{
		{"a node", func() { d.DrainProgressed(one.progress(5, held(3), later)) }, 3, 1},
		{"another", func() { d.DrainProgressed(two.progress(5, held(4), held(1))) }, 8, 1},
		{"the first goes on", func() { d.DrainProgressed(one.progress(3, held(2))) }, 7, 0},
		{"and is told again", func() { d.DrainProgressed(one.progress(3, held(2))) }, 7, 0},
		{"it ends", func() { d.DrainEnded(one.target, drain.LeftBehind) }, 5, 0},
		{"the end is told twice", func() { d.DrainEnded(one.target, drain.LeftBehind) }, 5, 0},
		{"the other is called off", func() { d.DrainEnded(two.target, drain.Interrupted) }, 0, 0},
	} {
		tt.tell()
		samples := d.scrape(t)
		if b, l := samples[`pods_waiting{reason="blocked-by-budget"}`], samples[`pods_waiting{reason="later-tier"}`]; b != tt.budgeted || l != tt.later {
			t.Errorf("%s: %v wait for budgets and %v for others, want %v and %v", tt.name, b, l, tt.budgeted, tt.later)
		}
	}
}
