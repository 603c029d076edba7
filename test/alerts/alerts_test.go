// Package alerts tests with Prometheus's own engine that each alert of the chart fires on what it is for, and never on a
// healthy agent.
package alerts

import (
	"context"
	"os"
	"regexp"
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

func TestAlerts(t *testing.T) {
	t.Parallel()
	for _, tt := range scenarios() {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			firing := play(t, healthy().with(tt.series))
			for _, m := range tt.want {
				if !slices.Equal(firing[m.after], m.fires) {
					t.Errorf("after %d minutes %q fires, want %q", m.after, firing[m.after], m.fires)
				}
			}
		})
	}
}

// TestNoAlertIsMissing: each alert fires in one of the scenarios.
func TestNoAlertIsMissing(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, s := range scenarios() {
		for _, m := range s.want {
			for _, name := range m.fires {
				seen[name] = true
			}
		}
	}
	for _, group := range groups(t, nil) {
		for _, rule := range group.Rules() {
			if !seen[rule.Name()] {
				t.Errorf("no scenario has %s fire", rule.Name())
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
			if strings.TrimSuffix(alert.Labels.Get("job"), "-watch") != "node-drainer" {
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
			expression := regexp.MustCompile(`job="node-drainer(-watch)?"`).ReplaceAllString(rule.Query().String(),
				`job="drainer$1",namespace="agents"`)
			if rule.Name() != "NodeDrainerPodsForced" { // which is disabled
				want = append(want, rule.Name()+": "+canonical(t, expression))
			}
		}
	}
	for _, rule := range made.Spec.Groups[0].Rules {
		got = append(got, rule.Alert+": "+canonical(t, rule.Expr.String()))
		if rule.Labels["team"] != "platform" || rule.Labels["severity"] == "" {
			t.Errorf("%s has the labels %q", rule.Alert, rule.Labels)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("the rules are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// canonical returns an expression with its matchers in order.
func canonical(t *testing.T, expression string) string {
	t.Helper()
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(expression)
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	return parsed.String()
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
