package report

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/node-drainer/node-drainer/internal/cluster"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

func reporters(out io.Writer) map[string]Reporter {
	return map[string]Reporter{
		"text": New(Options{Out: out}), "github": New(Options{Out: out, GitHub: true}), "json": New(Options{Format: FormatJSON, Out: out}),
		"ndjson": &ndjsonReporter{writer: &writer{out: out}, now: func() time.Time { return started }},
	}
}

func TestGolden(t *testing.T) {
	t.Parallel()
	for name := range reporters(nil) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			r := reporters(&out)[name]
			r.Plan(plans(), 0)
			golden(t, "plan."+name, out.String())
			out.Reset()
			report(r)
			golden(t, "rollout."+name, out.String())
			out.Reset()
			r.Status(rollouts()[5])
			r.Status(rollouts()[9])
			golden(t, "status."+strings.Replace(name, "github", "text", 1), out.String())
			out.Reset()
			r.Nodes(markedNodes())
			r.Nodes(NewNodes(started, nil, nil))
			golden(t, "nodes."+strings.Replace(name, "github", "text", 1), out.String())
			if err := r.Err(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestNote: a note between rollouts has the group, or says that it is the watch's own.
func TestNote(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"text": "12:03:09 workers  warn: refused\n12:03:09 watch  the window is closed\n", "json": "",
		"ndjson": `{"at":"2026-11-21T12:03:09Z","group":"workers","type":"note","level":"warn","text":"refused"}` + "\n" +
			`{"at":"2026-11-21T12:03:09Z","type":"note","level":"ok","text":"the window is closed"}` + "\n",
	} {
		var out strings.Builder
		r := reporters(&out)[name]
		r.Note("workers", Note{At: at(5), Level: refresh.Warn, Text: "refused"})
		r.Note("", Note{At: at(5), Level: refresh.OK, Text: "the window is closed"})
		if out.String() != want {
			t.Errorf("%s: wrote %q, want %q", name, out.String(), want)
		}
	}
}

// TestStatusOfAFailedTarget: the status says what trigger watch waits for.
func TestStatusOfAFailedTarget(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	reporters(&out)["text"].Status(Rollout{Groups: []Group{{Name: "workers", Failed: "lt-1/2 failed"}}})
	const want = "does not try this target again: lt-1/2 failed; it waits for another target, or for trigger resume --asg workers"
	if !strings.Contains(out.String(), want) {
		t.Errorf("wrote %q, want %q", out.String(), want)
	}
}

func TestSummaryGolden(t *testing.T) {
	t.Parallel()
	all := rollouts()
	golden(t, "summary.md", Summary(all[len(all)-1]))
}

// TestNoControlCharacters: without a terminal, no control characters but line feeds are written, whatever names and
// reasons contain, and each line of NDJSON is an object. TestLiveHostileText checks what is written to a terminal.
func TestNoControlCharacters(t *testing.T) {
	t.Parallel()
	rollout, plans := hostile()
	nodes := NewNodes(at(1), []cluster.MarkedNode{marked(hostileText, hostileText, 0, rollout.Groups[0].Instances[0].Node.Drain)}, nil)
	written := map[string]string{"summary": Summary(rollout), "summary of nodes": NodesSummary(nodes)}
	for name := range reporters(nil) {
		var out strings.Builder
		r := reporters(&out)[name]
		r.Plan(plans, 0)
		r.Status(rollout)
		r.Nodes(nodes)
		r.Note(hostileText, Note{At: at(1), Text: hostileText})
		r.Show(Rollout{At: at(0), Groups: []Group{{Name: hostileText}}})
		r.Show(rollout)
		r.End(rollout)
		written[name] = out.String()
	}
	for l := range strings.Lines(written["ndjson"]) {
		if !json.Valid([]byte(l)) {
			t.Errorf("no JSON: %s", l)
		}
	}
	for _, name := range []string{"json", "ndjson", "github"} {
		for l := range strings.Lines(written[name]) {
			if !strings.HasPrefix(l, "::") && strings.Contains(l, "##[") {
				t.Errorf("%s: wrote a workflow command: %s", name, l)
			}
		}
	}
	for name, text := range written {
		if !strings.Contains(text, "forged") {
			t.Errorf("%s: the names are missing", name)
		}
		for _, r := range text {
			if r != '\n' && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) {
				t.Fatalf("%s: wrote %U:\n%q", name, r, text)
			}
		}
	}
}

func TestJSONEscapes(t *testing.T) {
	t.Parallel()
	odd := "a\x1b[2J\u009bb\u202ec\u2028d\x7fe\U000e0001f 日本 <b> ##[x]"
	var out strings.Builder
	reporters(&out)["json"].End(Rollout{Groups: []Group{{Name: odd}}})
	var back Rollout
	if err := json.Unmarshal([]byte(out.String()), &back); err != nil {
		t.Fatal(err)
	}
	if back.Groups[0].Name != odd {
		t.Errorf("%q became %q", odd, back.Groups[0].Name)
	}
}

func TestHeartbeat(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	r := reporters(&out)["text"]
	g := Group{Name: "workers", Mode: refresh.ModeRefresh, Phase: Replacing, Refresh: "1", Status: "InProgress", Total: 2, Instances: oldInstances("InService", 1)}
	for _, tt := range []struct {
		second int
		beats  bool
	}{{0, false}, {30, false}, {59, false}, {60, true}, {61, false}, {119, false}, {120, true}, {720, true}, {721, false}} {
		r.Show(Rollout{At: at(tt.second), Started: started, Groups: []Group{{Name: "later", Phase: Queued, Total: 5}, g}})
		want := ""
		if tt.beats {
			want = at(tt.second).Format("15:04:05") + " workers  0 of 2 old instances gone; AWS says 0 %; 1 InService\n"
		}
		if got := out.String(); tt.second > 0 && got != want {
			t.Errorf("after %d seconds: %q, want %q", tt.second, got, want)
		}
		out.Reset()
	}
}

func TestWriteErrors(t *testing.T) {
	t.Parallel()
	for _, after := range []int{0, 2500} {
		for _, name := range []string{"text", "github", "json", "ndjson", "live"} {
			out := &brokenWriter{left: after}
			r := cmp.Or(reporters(out)[name], live(out, 80, 24, true))
			if r.Plan(plans(), 0); after == 0 && !errors.Is(r.Err(), errGone) {
				t.Errorf("%s: Err is %v after the plan", name, r.Err())
			}
			if report(r); !errors.Is(r.Err(), errGone) || out.later > 0 {
				t.Errorf("%s: Err is %v, and %d bytes were written after %d", name, r.Err(), out.later, after)
			}
		}
	}
}

func TestNew(t *testing.T) {
	t.Parallel()
	made := func(o Options) string { return fmt.Sprintf("%T", New(o)) }
	texts{
		"a pipe":                   {made(Options{Format: FormatAuto}), "*report.textReporter"},
		"a terminal":               {made(Options{Format: FormatAuto, Terminal: true}), "*report.liveReporter"},
		"text on a terminal":       {made(Options{Format: FormatText, Terminal: true}), "*report.textReporter"},
		"text in GitHub Actions":   {made(Options{Format: FormatText, Terminal: true, GitHub: true}), "*report.githubReporter"},
		"GitHub Actions":           {made(Options{Format: FormatAuto, GitHub: true}), "*report.githubReporter"},
		"NDJSON in GitHub Actions": {made(Options{Format: FormatNDJSON, GitHub: true}), "*report.ndjsonReporter"},
		"JSON":                     {made(Options{Format: FormatJSON, Terminal: true}), "*report.jsonReporter"},
	}.check(t)
}
