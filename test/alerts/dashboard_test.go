package alerts

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/util/teststorage"
)

//go:generate go test -run ^TestPicture$ . -update

var update = flag.Bool("update", false, "write docs/pictures/dashboard.svg again")

// panel is one of the dashboard.
type panel struct {
	ID          int
	Type, Title string
	Targets     []struct{ Expr, LegendFormat string }
	FieldConfig struct{ Defaults struct{ Unit string } }
}

func dashboard(t *testing.T) []panel {
	t.Helper()
	text, err := os.ReadFile("../../charts/node-drainer/files/dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var read struct{ Panels []panel }
	if err := json.Unmarshal(text, &read); err != nil {
		t.Fatal(err)
	}
	return read.Panels
}

// ask fills in what Grafana does.
func ask(expression, rateInterval string) string {
	return strings.NewReplacer("$__rate_interval", rateInterval, "$namespace", ".+", "$job", ".+").Replace(expression)
}

// TestDashboard: each panel asks what Prometheus understands.
func TestDashboard(t *testing.T) {
	t.Parallel()
	asked, ids, panels := 0, map[int]bool{}, dashboard(t)
	for _, panel := range panels {
		if ids[panel.ID] {
			t.Errorf("two panels have the id %d", panel.ID)
		}
		ids[panel.ID] = true
		for _, target := range panel.Targets {
			asked++
			if _, err := parser.NewParser(parser.Options{}).ParseExpr(ask(target.Expr, "5m")); err != nil {
				t.Errorf("%s: %v", panel.Title, err)
			}
		}
	}
	if asked < len(panels) || asked == 0 {
		t.Errorf("%d panels ask %d questions", len(panels), asked)
	}
}

// shown are the panels in the picture.
func shown() []string {
	return []string{
		"Leaders", "Terminations in progress", "Waiting pods by reason", "Pods",
		"Time from the start of a drain to a pod's eviction", "Heartbeats", "Events by kind", "Terminations by outcome",
	}
}

// TestPicture: the picture of the pages shows the dashboard's queries of the metrics of the recorded demo.
func TestPicture(t *testing.T) {
	t.Parallel()
	recorded, err := os.ReadFile("../demo/replay/metrics.txt")
	if err != nil {
		t.Fatal(err)
	}
	storage := promqltest.LoadedStorage(t, labeled(string(recorded)))
	panels := dashboard(t)
	var charts []chart
	for _, title := range shown() {
		i := slices.IndexFunc(panels, func(p panel) bool { return p.Title == title })
		if i < 0 {
			t.Fatalf("the dashboard has no panel %q", title)
		}
		c := query(t, storage, panels[i], scrapes(string(recorded)))
		if len(c.lines) == 0 {
			t.Errorf("%q shows nothing", title)
		}
		charts = append(charts, c)
	}
	const file = "../../docs/pictures/dashboard.svg"
	got := draw(charts)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(file); err != nil || string(want) != got {
		t.Errorf("go generate . in test/alerts writes %s again: %v", file, err)
	}
}

// labeled adds the labels that a scrape by the ServiceMonitor adds.
func labeled(load string) string {
	return regexp.MustCompile(`(?m)^  (\w+)(?:\{(.*)\})? `).ReplaceAllString(load,
		`  $1{namespace="kube-system",job="node-drainer",pod="node-drainer-0",$2} `)
}

// scrapes returns how many values the longest series has.
func scrapes(load string) (most int) {
	for line := range strings.Lines(load) {
		n := 0
		for _, run := range regexp.MustCompile(` \S+x(\d+)`).FindAllStringSubmatch(line, -1) {
			var more int
			_, _ = fmt.Sscan(run[1], &more)
			n += more + 1
		}
		most = max(most, n)
	}
	return most
}

// chart is a panel with what its queries return, without lines that are always zero.
type chart struct {
	panel
	seconds int
	lines   []line
}

type line struct {
	legend string
	points []promql.FPoint
}

// query asks for the values of each second, at which the metrics were recorded. Grafana's rate interval is four
// scrapes.
func query(t *testing.T, storage *teststorage.TestStorage, p panel, count int) chart {
	t.Helper()
	const most = 1e6
	engine, start := promqltest.NewTestEngine(t, false, 0, most), time.Unix(0, 0)
	c := chart{panel: p, seconds: count - 1}
	end := start.Add(time.Duration(c.seconds) * time.Second)
	for _, target := range p.Targets {
		q, err := engine.NewRangeQuery(t.Context(), storage, nil, ask(target.Expr, "4s"), start, end, time.Second)
		if err != nil {
			t.Fatalf("%s: %v", p.Title, err)
		}
		matrix, err := q.Exec(t.Context()).Matrix()
		if err != nil {
			t.Fatalf("%s: %v", p.Title, err)
		}
		for _, series := range matrix {
			legend := regexp.MustCompile(`\{\{(\w+)\}\}`).ReplaceAllStringFunc(target.LegendFormat, func(name string) string {
				return series.Metric.Get(strings.Trim(name, "{}"))
			})
			if slices.ContainsFunc(series.Floats, func(f promql.FPoint) bool { return f.F > 0 }) {
				c.lines = append(c.lines, line{legend, slices.Clone(series.Floats)})
			}
		}
		q.Close()
	}
	slices.SortFunc(c.lines, func(a, b line) int { return strings.Compare(a.legend, b.legend) })
	return c
}
