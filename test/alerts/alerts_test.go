// Package alerts holds that each alert of the chart fires on what it is for, and on nothing that is healthy,
// by Prometheus's own engine.
package alerts

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
	"sigs.k8s.io/yaml"
)

const (
	file     = "../../charts/node-drainer/files/alerts.yaml"
	rendered = "../chart/testdata/full.yaml" // which test/chart holds
)

// series are values by the minute, by metric, instance and labels; in the notation of promqltest, where 0+1x59
// is an hour that begins with 0 and grows by 1 each minute.
type series map[string]string

// nowAndThen is a counter of what happens once in five minutes.
const nowAndThen = "0x4 1x4 2x4 3x4 4x4 5x4 6x4 7x4 8x4 9x4 10x4 11x4"

// healthy is an hour of two replicas that have drained a node and launched one each minute.
func healthy() series {
	s := series{
		`leader{instance="a"}`: "1x59", `leader{instance="b"}`: "0x59",
		`leader_transitions_total{instance="b"}`: "1x59", `messages_lost_total{instance="a"}`: "0x59",
		`step_retries_total{instance="a"}`:                             nowAndThen,
		`pods_total{instance="a",action="evicted"}`:                    "0+1x59",
		`pods_waiting{instance="a",reason="blocked-by-budget"}`:        "3x20 0x38",
		`pods_waiting{instance="a",reason="misconfigured-budget"}`:     "0x59",
		`pods_waiting{instance="a",reason="later-tier"}`:               "9x59",
		`pods_forced_total{instance="a",reason="deadline"}`:            "0x59",
		`pods_forced_total{instance="a",reason="unhealthy"}`:           "0+1x59",
		`terminations_total{instance="a",outcome="drained"}`:           "0+1x59",
		`terminations_total{instance="a",outcome="left-behind"}`:       "0x59",
		`terminations_total{instance="a",outcome="cut-short"}`:         "0x59",
		`terminations_total{instance="a",outcome="unconfirmed"}`:       "0x59",
		`launches_total{instance="a",outcome="ready"}`:                 "0+1x59",
		`launches_total{instance="a",outcome="unconfirmed"}`:           "0x59",
		`launches_total{instance="a",outcome="abandoned"}`:             "0x59",
		`launches_total{instance="a",outcome="continued"}`:             "0x59",
		`messages_refused_total{instance="a",reason="malformed"}`:      "0x59",
		`messages_refused_total{instance="a",reason="unknown-source"}`: "0x59",
		`api_errors_total{instance="a",api="autoscaling"}`:             nowAndThen,
		`api_errors_total{instance="a",api="kubernetes"}`:              nowAndThen,
	}
	return s
}

func (s series) with(more series) series {
	maps.Copy(s, more)
	return s
}

// load is the series for promqltest, under the labels that the ServiceMonitor gives them.
func (s series) load() string {
	var b strings.Builder
	b.WriteString("load 1m\n")
	for _, name := range slices.Sorted(maps.Keys(s)) {
		metric, own, _ := strings.Cut(name, "{")
		fmt.Fprintf(&b, "  node_drainer_%s{namespace=\"agents\",job=\"node-drainer\",%s %s\n", metric, own, s[name])
	}
	return b.String()
}

// minute is what fires after so many minutes.
type minute struct {
	after int
	fires []string
}

// story is an hour, and what fires in it.
type story struct {
	name   string
	series series
	want   []minute
}

func stories() []story {
	always := func(names ...string) []minute {
		var all []minute
		for after := range 60 {
			all = append(all, minute{after, names})
		}
		return all
	}
	fires := func(from int, name string) []minute { return []minute{{from - 1, nil}, {from, []string{name}}} }
	// A caller pauses for up to 15 s between two tries, and each may take the half minute of a receive.
	const refused, unanswered = "0x9 0+4x49", "0x9 0+1.2x49"
	gone := series{`leader{instance="a"}`: "1x9 stale", `leader{instance="b"}`: "0x9 stale"}
	return []story{
		{"all is well", healthy(), always()},
		{"nobody is scraped", healthy().with(gone), fires(15, "NodeDrainerAbsent")},
		{"no leader", healthy().with(series{`leader{instance="a"}`: "1x9 0x49"}), fires(12, "NodeDrainerNoLeader")},
		{
			"the other leads within a minute",
			healthy().with(series{`leader{instance="a"}`: "1x9 0x49", `leader{instance="b"}`: "0x10 1x48"}), always(),
		},
		{"two lead", healthy().with(series{`leader{instance="b"}`: "0x9 1x49"}), fires(12, "NodeDrainerTwoLeaders")},
		{
			"the leader changes each ten minutes",
			healthy().with(series{`leader_transitions_total{instance="b"}`: "1x9 2x9 3x9 4x9 5x9 6x9"}),
			[]minute{{15, nil}, {50, []string{"NodeDrainerLeaderChanges"}}},
		},
		{
			"calls fail", healthy().with(series{`api_errors_total{instance="a",api="autoscaling"}`: "0x9 0+30x49"}),
			[]minute{{20, nil}, {40, []string{"NodeDrainerCallsFail"}}},
		},
		{
			"one caller is refused for ever", healthy().with(series{`api_errors_total{instance="a",api="sqs"}`: refused}),
			[]minute{{20, nil}, {40, []string{"NodeDrainerCallsFail"}}},
		},
		{
			"one caller gets no answer for ever",
			healthy().with(series{`api_errors_total{instance="a",api="sqs"}`: unanswered}),
			[]minute{{20, nil}, {40, []string{"NodeDrainerCallsFail"}}},
		},
		{
			"calls have failed for eight minutes",
			healthy().with(series{`api_errors_total{instance="a",api="autoscaling"}`: "0x9 0+30x8 240x40"}), always(),
		},
		{
			"one step is refused for ever", healthy().with(series{`step_retries_total{instance="a"}`: refused}),
			[]minute{{20, nil}, {40, []string{"NodeDrainerStepsFail"}}},
		},
		{
			"one step gets no answer for ever", healthy().with(series{`step_retries_total{instance="a"}`: unanswered}),
			[]minute{{20, nil}, {40, []string{"NodeDrainerStepsFail"}}},
		},
		{
			"steps have failed for eight minutes",
			healthy().with(series{`step_retries_total{instance="a"}`: "0x9 0+30x8 240x40"}), always(),
		},
		{
			"a budget never allows",
			healthy().with(series{`pods_waiting{instance="a",reason="misconfigured-budget"}`: "0x9 2x49"}),
			fires(15, "NodeDrainerBudgetNeverAllows"),
		},
		{
			"pods are held, and none is evicted",
			healthy().with(series{
				`pods_waiting{instance="a",reason="blocked-by-budget"}`: "0x9 2x49",
				`pods_total{instance="a",action="evicted"}`:             "7x59",
			}), fires(40, "NodeDrainerPodsBlocked"),
		},
		{
			"pods are held after the last eviction",
			healthy().with(series{
				`pods_waiting{instance="a",reason="blocked-by-budget"}`: "3x59",
				`pods_total{instance="a",action="evicted"}`:             "0+1x10 10x48",
			}),
			[]minute{{40, nil}, {45, []string{"NodeDrainerPodsBlocked"}}},
		},
		{
			"a rollout of an hour moves pod after pod",
			healthy().with(series{`pods_waiting{instance="a",reason="blocked-by-budget"}`: "3x59"}), always(),
		},
		{
			"a rollout of an hour moves a pod each twenty minutes",
			healthy().with(series{
				`pods_waiting{instance="a",reason="blocked-by-budget"}`: "3x59",
				`pods_total{instance="a",action="evicted"}`:             "0x9 1x19 2x19 3x9",
			}), always(),
		},
		{
			"pods were forced", healthy().with(series{`pods_forced_total{instance="a",reason="deadline"}`: "0x9 1x49"}),
			append(fires(10, "NodeDrainerPodsForced"), minute{40, nil}),
		},
		{
			"pods were left behind",
			healthy().with(series{`terminations_total{instance="a",outcome="left-behind"}`: "0x9 1x49"}),
			append(fires(10, "NodeDrainerPodsLeftBehind"), minute{40, nil}),
		},
		{
			"a hook timed out before the drain had ended",
			healthy().with(series{`terminations_total{instance="a",outcome="cut-short"}`: "0x9 1x49"}),
			append(fires(10, "NodeDrainerDrainsCutShort"), minute{45, nil}),
		},
		{
			"a termination was made up",
			healthy().with(series{`terminations_total{instance="a",outcome="unconfirmed"}`: "0x9 1x49"}),
			fires(10, "NodeDrainerUnconfirmedMessages"),
		},
		{
			"a launch was made up",
			healthy().with(series{`launches_total{instance="a",outcome="unconfirmed"}`: "0x9 1x49"}),
			fires(10, "NodeDrainerUnconfirmedMessages"),
		},
		{
			"messages are no events",
			healthy().with(series{`messages_refused_total{instance="a",reason="malformed"}`: "0x9 1x49"}),
			fires(10, "NodeDrainerMessagesRefused"),
		},
		{
			"messages are lost", healthy().with(series{`messages_lost_total{instance="a"}`: "0x39 1x19"}),
			fires(40, "NodeDrainerMessagesLost"),
		},
		{
			"the resync of a new leader is faster than the queue",
			healthy().with(series{
				`messages_lost_total{instance="b"}`: "0x9 1x49",
				`leader{instance="a"}`:              "1x9 0x49", `leader{instance="b"}`: "0x9 1x49",
			}), always(),
		},
		{
			"launches are abandoned",
			healthy().with(series{`launches_total{instance="a",outcome="abandoned"}`: "0x9 1x49"}),
			append(fires(10, "NodeDrainerLaunchesFail"), minute{45, nil}),
		},
		{
			"launches go into service as they are",
			healthy().with(series{`launches_total{instance="a",outcome="continued"}`: "0x9 1x49"}),
			fires(10, "NodeDrainerLaunchesFail"),
		},
	}
}

func TestAlerts(t *testing.T) {
	t.Parallel()
	for _, tt := range stories() {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			firing := play(t, tt.series)
			for _, m := range tt.want {
				if !slices.Equal(firing[m.after], m.fires) {
					t.Errorf("after %d minutes %q fires, want %q", m.after, firing[m.after], m.fires)
				}
			}
		})
	}
}

// TestNoAlertIsMissing: each alert fires in one of the stories.
func TestNoAlertIsMissing(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, s := range stories() {
		for _, m := range s.want {
			for _, name := range m.fires {
				seen[name] = true
			}
		}
	}
	for _, group := range groups(t, nil) {
		for _, rule := range group.Rules() {
			if !seen[rule.Name()] {
				t.Errorf("no story has %s fire", rule.Name())
			}
		}
	}
}

// play returns which alerts fire after each minute of an hour.
func play(t *testing.T, s series) [][]string {
	t.Helper()
	loader, err := promqltest.NewLazyLoader(s.load(), promqltest.LazyLoaderOpts{
		EnableAtModifier: true, EnableNegativeOffset: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = loader.Close() })
	loaded := groups(t, loader)
	firing := make([][]string, 60)
	for i := range firing {
		at := time.Unix(0, 0).UTC().Add(time.Duration(i) * time.Minute)
		loader.WithSamplesTill(at, func(err error) {
			if err != nil {
				t.Fatal(err)
			}
			for _, group := range loaded {
				group.Eval(loader.Context(), at)
				firing[i] = append(firing[i], alerts(t, group)...)
			}
		})
	}
	return firing
}

func groups(t *testing.T, loader *promqltest.LazyLoader) map[string]*rules.Group {
	t.Helper()
	options := &rules.ManagerOptions{
		Context: t.Context(), NotifyFunc: func(context.Context, string, ...*rules.Alert) {},
		Logger: promslog.NewNopLogger(), Parser: parser.NewParser(parser.Options{}),
	}
	if loader != nil {
		options.QueryFunc = rules.EngineQueryFunc(loader.QueryEngine(), loader.Storage())
		options.Appendable = loader.Storage()
	}
	loaded, errs := rules.NewManager(options).LoadGroups(time.Minute, labels.EmptyLabels(), "", nil, false, file)
	for _, err := range errs {
		t.Fatal(err)
	}
	for _, group := range loaded {
		for _, rule := range group.Rules() {
			rule.(*rules.AlertingRule).SetRestored(true)
		}
	}
	return loaded
}

// alerts returns what fires, and checks that its words could be filled in.
func alerts(t *testing.T, group *rules.Group) []string {
	t.Helper()
	var names []string
	for _, rule := range group.Rules() {
		if err := rule.LastError(); err != nil {
			t.Fatalf("%s: %v", rule.Name(), err)
		}
		for _, alert := range rule.(*rules.AlertingRule).ActiveAlerts() {
			if alert.State != rules.StateFiring {
				continue
			}
			names = append(names, rule.Name())
			alert.Annotations.Range(func(l labels.Label) {
				if strings.Contains(l.Value, "<error") || strings.Contains(l.Value, "{{") || strings.Contains(l.Value, "<no value>") {
					t.Errorf("%s: the %s is %q", rule.Name(), l.Name, l.Value)
				}
			})
			if alert.Labels.Get("job") != "node-drainer" {
				t.Errorf("%s does not say whose it is: %s", rule.Name(), alert.Labels)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// TestRendered: what the chart makes of the file is what the Prometheus Operator takes, has the alerts that are
// not disabled, and asks for the metrics of its release alone.
func TestRendered(t *testing.T) {
	t.Parallel()
	var monitor monitoring.ServiceMonitor
	decode(t, "ServiceMonitor", &monitor)
	var made monitoring.PrometheusRule
	decode(t, "PrometheusRule", &made)
	if len(monitor.Spec.Endpoints) != 1 || len(made.Spec.Groups) != 2 {
		t.Fatalf("%d endpoints, %d groups", len(monitor.Spec.Endpoints), len(made.Spec.Groups))
	}
	var want, got []string
	for _, group := range groups(t, nil) {
		for _, rule := range group.Rules() {
			expression := strings.ReplaceAll(rule.Query().String(), `job="node-drainer"`, `job="drainer",namespace="agents"`)
			if rule.Name() != "NodeDrainerPodsForced" { // which is disabled
				want = append(want, rule.Name()+": "+expression)
			}
		}
	}
	for _, rule := range made.Spec.Groups[0].Rules {
		expression, err := parser.NewParser(parser.Options{}).ParseExpr(rule.Expr.String())
		if err != nil {
			t.Fatalf("%s: %v", rule.Alert, err)
		}
		got = append(got, rule.Alert+": "+expression.String())
		if rule.Labels["team"] != "platform" || rule.Labels["severity"] == "" {
			t.Errorf("%s has the labels %q", rule.Alert, rule.Labels)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("the rules are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// decode reads the one object of a kind that the chart has made.
func decode(t *testing.T, kind string, into any) {
	t.Helper()
	text, err := os.ReadFile(rendered)
	if err != nil {
		t.Fatal(err)
	}
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		if strings.Contains(document, "\nkind: "+kind+"\n") {
			if err := yaml.UnmarshalStrict([]byte(document), into); err != nil {
				t.Fatalf("%s: %v", kind, err)
			}
			return
		}
	}
	t.Fatalf("the chart makes no %s", kind)
}

// TestDashboard: each panel asks what Prometheus understands.
func TestDashboard(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../charts/node-drainer/files/dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			ID      int
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	asked, ids := 0, map[int]bool{}
	for _, panel := range dashboard.Panels {
		if ids[panel.ID] {
			t.Errorf("two panels have the id %d", panel.ID)
		}
		ids[panel.ID] = true
		for _, target := range panel.Targets {
			asked++
			expression := strings.ReplaceAll(target.Expr, "$__rate_interval", "5m") // which Grafana fills in
			if _, err := parser.NewParser(parser.Options{}).ParseExpr(expression); err != nil {
				t.Errorf("%s: %v", panel.Title, err)
			}
		}
	}
	if asked < len(dashboard.Panels) || asked == 0 {
		t.Errorf("%d panels ask %d questions", len(dashboard.Panels), asked)
	}
}
