package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/node-drainer/node-drainer/pkg/refresh"
)

func reporters(out *strings.Builder) map[string]Reporter {
	return map[string]Reporter{
		"text": Text(out), "json": JSON(out), "ndjson": NDJSON(out, func() time.Time { return started }), "github": GitHub(out),
	}
}

func TestGolden(t *testing.T) {
	t.Parallel()
	for name := range reporters(nil) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			r := reporters(&out)[name]
			if err := r.Plan(plans()); err != nil {
				t.Fatal(err)
			}
			golden(t, "plan."+name, out.String())
			out.Reset()
			report(r)
			golden(t, "rollout."+name, out.String())
			if err := Err(r); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestSummaryGolden(t *testing.T) {
	t.Parallel()
	all := rollouts()
	var out strings.Builder
	if err := Summary(&out, all[len(all)-1]); err != nil {
		t.Fatal(err)
	}
	golden(t, "summary.md", out.String())
}

func TestStatusGolden(t *testing.T) {
	t.Parallel()
	for _, format := range []string{FormatText, FormatJSON, FormatNDJSON} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			for _, moment := range []int{5, 9} {
				if err := WriteStatus(&out, format, rollouts()[moment]); err != nil {
					t.Fatal(err)
				}
			}
			golden(t, "status."+format, out.String())
		})
	}
}

// TestNoControlCharacters: without a terminal, no control characters but line feeds are written, whatever names and
// reasons contain. TestLiveHostileText checks what is written to a terminal.
func TestNoControlCharacters(t *testing.T) {
	t.Parallel()
	rollout, plans := hostile()
	written := map[string]func(*strings.Builder) error{
		"summary":       func(out *strings.Builder) error { return Summary(out, rollout) },
		"status text":   func(out *strings.Builder) error { return WriteStatus(out, FormatText, rollout) },
		"status json":   func(out *strings.Builder) error { return WriteStatus(out, FormatJSON, rollout) },
		"status ndjson": func(out *strings.Builder) error { return WriteStatus(out, FormatNDJSON, rollout) },
	}
	for name := range reporters(nil) {
		written[name] = func(out *strings.Builder) error {
			r := reporters(out)[name]
			if err := r.Plan(plans); err != nil {
				return err
			}
			r.Show(Rollout{At: at(0), Groups: []Group{{Name: hostileText}}})
			r.Show(rollout)
			r.End(rollout)
			return Err(r)
		}
	}
	for name, write := range written {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			if err := write(&out); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(out.String(), "forged") {
				t.Fatal("the names are missing")
			}
			for _, r := range out.String() {
				if r != '\n' && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) {
					t.Fatalf("wrote %U:\n%q", r, out.String())
				}
			}
		})
	}
}

func TestJSONEscapes(t *testing.T) {
	t.Parallel()
	odd := "a\x1b[2J\u009bb\u202ec\u2028d\x7fe\U000e0001f 日本 <b>"
	var out strings.Builder
	JSON(&out).End(Rollout{Groups: []Group{{Name: odd}}})
	var back Rollout
	if err := json.Unmarshal([]byte(out.String()), &back); err != nil {
		t.Fatal(err)
	}
	if back.Groups[0].Name != odd {
		t.Errorf("%q became %q", odd, back.Groups[0].Name)
	}
}

func TestNDJSONLines(t *testing.T) {
	t.Parallel()
	rollout, plans := hostile()
	var out strings.Builder
	r := NDJSON(&out, time.Now)
	if err := r.Plan(plans); err != nil {
		t.Fatal(err)
	}
	r.Show(rollout)
	r.End(rollout)
	var last map[string]any
	for _, l := range splitLines(out.String()) {
		last = nil
		if err := json.Unmarshal([]byte(l), &last); err != nil {
			t.Fatalf("%v in %s", err, l)
		}
		if last["at"] == nil || last["type"] == nil || (last["group"] == nil && last["type"] != "end") {
			t.Errorf("no at, group or type in %s", l)
		}
	}
	if last["type"] != "end" || last["outcome"] != "failed" || last["exitCode"] != 3.0 {
		t.Errorf("the last line is %v", last)
	}
}

func TestEmptyLists(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	if err := JSON(&out).Plan(nil); err != nil || out.String() != "[]\n" {
		t.Errorf("wrote %q, %v", out.String(), err)
	}
	out.Reset()
	if err := JSON(&out).Plan([]Plan{{}}); err != nil || strings.Contains(out.String(), "null") {
		t.Errorf("wrote %q, %v", out.String(), err)
	}
}

func TestHeartbeat(t *testing.T) {
	t.Parallel()
	g := Group{Name: "workers", Mode: refresh.ModeRefresh, Phase: Replacing, Refresh: "1", Status: "InProgress", Total: 2, Instances: oldInstances("InService", 1)}
	idle := Group{Name: "later", Phase: Queued, Total: 5}
	show := func(seconds ...int) []string {
		var out strings.Builder
		r := Text(&out)
		for _, second := range seconds {
			r.Show(Rollout{At: at(second), Started: started, Groups: []Group{idle, g}})
		}
		return splitLines(out.String())
	}
	first := len(show(0))
	for name, row := range map[string]struct {
		seconds []int
		more    int
	}{
		"within a minute":                      {[]int{0, 1, 30, 59}, 0},
		"after a minute, only running groups":  {[]int{0, 59, 60}, 1},
		"once":                                 {[]int{0, 60, 61, 119}, 1},
		"after another minute":                 {[]int{0, 60, 119, 120}, 2},
		"once after ten minutes without calls": {[]int{0, 600}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := show(row.seconds...)
			if len(got) != first+row.more {
				t.Fatalf("%d lines more, want %d:\n%s", len(got)-first, row.more, strings.Join(got, "\n"))
			}
			if row.more > 0 && !strings.Contains(got[len(got)-1], "workers  0 % replaced: 0 of 2 old instances gone; 1 InService") {
				t.Errorf("the heartbeat is %q", got[len(got)-1])
			}
		})
	}
}

func TestWriteErrors(t *testing.T) {
	t.Parallel()
	size := func() (int, int) { return 80, 24 }
	for name, make := range map[string]func(*brokenWriter) Reporter{
		"text":   func(b *brokenWriter) Reporter { return Text(b) },
		"live":   func(b *brokenWriter) Reporter { return Live(b, size, true) },
		"json":   func(b *brokenWriter) Reporter { return JSON(b) },
		"ndjson": func(b *brokenWriter) Reporter { return NDJSON(b, time.Now) },
		"github": func(b *brokenWriter) Reporter { return GitHub(b) },
	} {
		for _, after := range []int{0, 2500} {
			t.Run(fmt.Sprintf("%s after %d bytes", name, after), func(t *testing.T) {
				t.Parallel()
				out := &brokenWriter{left: after}
				r := make(out)
				if err := r.Plan(plans()); after == 0 && !errors.Is(err, errGone) {
					t.Errorf("Plan returned %v", err)
				}
				report(r)
				if !errors.Is(Err(r), errGone) || out.later > 0 {
					t.Errorf("Err is %v, and %d bytes were written later", Err(r), out.later)
				}
			})
		}
	}
	for name, err := range map[string]error{
		"summary":     Summary(&brokenWriter{}, rollouts()[0]),
		"status text": WriteStatus(&brokenWriter{}, FormatText, rollouts()[0]),
		"status json": WriteStatus(&brokenWriter{}, FormatJSON, rollouts()[0]),
	} {
		if !errors.Is(err, errGone) {
			t.Errorf("%s returned %v", name, err)
		}
	}
}

func TestNew(t *testing.T) {
	t.Parallel()
	kindOf := func(r Reporter) string { return fmt.Sprintf("%T", r) }
	for name, row := range map[string]struct {
		options Options
		want    string
	}{
		"a pipe":                               {Options{}, "*report.textReporter"},
		"a terminal":                           {Options{Format: "auto", Terminal: true}, "*report.liveReporter"},
		"text on a terminal":                   {Options{Format: "text", Terminal: true}, "*report.textReporter"},
		"text on a terminal of GitHub Actions": {Options{Format: "text", Terminal: true, GitHub: true}, "*report.githubReporter"},
		"GitHub Actions":                       {Options{Format: "auto", GitHub: true}, "*report.githubReporter"},
		"NDJSON in GitHub Actions":             {Options{Format: "ndjson", GitHub: true}, "*report.ndjsonReporter"},
		"json":                                 {Options{Format: "json", Terminal: true}, "*report.jsonReporter"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := New(row.options)
			if err != nil || kindOf(got) != row.want {
				t.Errorf("%T, %v, want %s", got, err, row.want)
			}
		})
	}
	if _, err := New(Options{Format: "yaml"}); err == nil {
		t.Error("New accepts the format yaml")
	}
	if err := WriteStatus(&strings.Builder{}, "yaml", Rollout{}); err == nil {
		t.Error("WriteStatus accepts the format yaml")
	}
}

// TestPlanOfALargeGroup: it lists the outdated instances, and counts the others.
func TestPlanOfALargeGroup(t *testing.T) {
	t.Parallel()
	p := Plan{Group: "workers", Outdated: 3}
	for n := range 5000 {
		p.Instances = append(p.Instances, Planned{ID: fmt.Sprintf("i-%04d", n), State: "InService", Outdated: n >= 4997})
	}
	var out strings.Builder
	if err := Text(&out).Plan([]Plan{p}); err != nil {
		t.Fatal(err)
	}
	if n := len(splitLines(out.String())); n > 12 {
		t.Errorf("%d lines:\n%s", n, out.String())
	}
	for _, want := range []string{"i-4999", "4997 more instances up to date", "workers: 3 of 5000 instances are outdated."} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}
