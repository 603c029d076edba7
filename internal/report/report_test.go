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
		"text": Text(out), "json": JSON(out), "ndjson": NDJSON(out, func() time.Time { return began }), "github": GitHub(out),
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
			tell(r)
			golden(t, "rollout."+name, out.String())
			if err := Err(r); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestSummaryGolden(t *testing.T) {
	t.Parallel()
	all := story()
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
				if err := WriteStatus(&out, format, story()[moment]); err != nil {
					t.Fatal(err)
				}
			}
			golden(t, "status."+format, out.String())
		})
	}
}

// What is no terminal gets no control characters but line feeds, whatever names and reasons hold. (What a
// terminal gets is held by TestLiveObeysNobodyElse.)
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
			r.Show(Rollout{At: at(0), Groups: []Group{{Name: evil}}})
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
				t.Fatal("the names were not told at all")
			}
			for _, r := range out.String() {
				if r != '\n' && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) {
					t.Fatalf("wrote %U:\n%q", r, out.String())
				}
			}
		})
	}
}

func TestJSONKeepsWhatItEscapes(t *testing.T) {
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

func TestNDJSONIsOneObjectOnEachLine(t *testing.T) {
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
	for _, l := range linesOf(out.String()) {
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

func TestEmptyPlanIsAnArray(t *testing.T) {
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
	g := Group{Name: "workers", Mode: refresh.ModeRefresh, Phase: Replacing, Refresh: "1", Status: "InProgress", Total: 2, Instances: oldOnes("InService", 1)}
	idle := Group{Name: "later", Phase: Queued, Total: 5}
	show := func(seconds ...int) []string {
		var out strings.Builder
		r := Text(&out)
		for _, second := range seconds {
			r.Show(Rollout{At: at(second), Started: began, Groups: []Group{idle, g}})
		}
		return linesOf(out.String())
	}
	first := len(show(0))
	for name, row := range map[string]struct {
		seconds []int
		more    int
	}{
		"not before a minute":                  {[]int{0, 1, 30, 59}, 0},
		"after a minute, of what is under way": {[]int{0, 59, 60}, 1},
		"once":                                 {[]int{0, 60, 61, 119}, 1},
		"again after another minute":           {[]int{0, 60, 119, 120}, 2},
		"once, however long nobody called":     {[]int{0, 600}, 1},
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

func TestWriteErrorsAreKept(t *testing.T) {
	t.Parallel()
	size := func() (int, int) { return 80, 24 }
	for name, make := range map[string]func(*broken) Reporter{
		"text":   func(b *broken) Reporter { return Text(b) },
		"live":   func(b *broken) Reporter { return Live(b, size, true) },
		"json":   func(b *broken) Reporter { return JSON(b) },
		"ndjson": func(b *broken) Reporter { return NDJSON(b, time.Now) },
		"github": func(b *broken) Reporter { return GitHub(b) },
	} {
		for _, after := range []int{0, 2500} {
			t.Run(fmt.Sprintf("%s after %d bytes", name, after), func(t *testing.T) {
				t.Parallel()
				out := &broken{left: after}
				r := make(out)
				if err := r.Plan(plans()); after == 0 && !errors.Is(err, errGone) {
					t.Errorf("Plan returned %v", err)
				}
				tell(r)
				if !errors.Is(Err(r), errGone) || out.later > 0 {
					t.Errorf("Err is %v, and %d bytes came later", Err(r), out.later)
				}
			})
		}
	}
	for name, err := range map[string]error{
		"summary":     Summary(&broken{}, story()[0]),
		"status text": WriteStatus(&broken{}, FormatText, story()[0]),
		"status json": WriteStatus(&broken{}, FormatJSON, story()[0]),
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
		"a pipe gets text":                         {Options{}, "*report.textReporter"},
		"a terminal gets a view":                   {Options{Format: "auto", Terminal: true}, "*report.live"},
		"text was asked for on a terminal":         {Options{Format: "text", Terminal: true}, "*report.textReporter"},
		"text on a terminal of GitHub":             {Options{Format: "text", Terminal: true, GitHub: true}, "*report.github"},
		"GitHub Actions gets annotations":          {Options{Format: "auto", GitHub: true}, "*report.github"},
		"machines are not bothered by annotations": {Options{Format: "ndjson", GitHub: true}, "*report.ndjson"},
		"json": {Options{Format: "json", Terminal: true}, "*report.document"},
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
		t.Error("there is a format yaml")
	}
	if err := WriteStatus(&strings.Builder{}, "yaml", Rollout{}); err == nil {
		t.Error("there is a format yaml for the status")
	}
}

// A plan of a large group lists what is outdated, and counts the rest.
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
	if n := len(linesOf(out.String())); n > 12 {
		t.Errorf("%d lines:\n%s", n, out.String())
	}
	for _, want := range []string{"i-4999", "4997 more instances up to date", "workers: 3 of 5000 instances are outdated."} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}
