package report

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/node-drainer/node-drainer/internal/text"
)

func TestClean(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ text, want string }{
		"plain text":           {"workers-1 (lt-0a)", "workers-1 (lt-0a)"},
		"other scripts":        {"日本 é ü 🚀", "日本 é ü 🚀"},
		"an escape sequence":   {"\x1b[31mred\x1b[0m", "[31mred[0m"},
		"C1, as a character":   {"a\u009b31mb", "a31mb"},
		"C1, as a byte":        {"a\x9bb", "a\ufffdb"},
		"DEL and BEL":          {"a\x7f\x07b", "ab"},
		"white space":          {"a\r\n\tb\u2028c\u0085d", "a   b c d"},
		"direction of writing": {"a\u202eb\u2066c", "abc"},
		"variation selector":   {"a\ufe0fb\u200dc", "abc"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := clean(row.text); got != row.want {
				t.Errorf("%q, want %q", got, row.want)
			}
		})
	}
}

func TestFit(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		line  line
		cells int
		want  string
	}{
		"text that fits":                     {plainLine("abc"), 3, "abc"},
		"text that is too long":              {plainLine("abcd"), 3, "ab…"},
		"truncated in the first span":        {line{{plain, "abc"}, {red, "d"}}, 3, "ab…"},
		"truncated in the second span":       {line{{plain, "ab"}, {red, "cde"}}, 4, "abc…"},
		"wide characters":                    {plainLine("日本語"), 5, "日本…"},
		"a wide character that does not fit": {plainLine("日本語"), 4, "日…"},
		"combining marks":                    {plainLine("e\u0301e\u0301"), 2, "e\u0301e\u0301"},
		"one cell":                           {plainLine("abc"), 1, "…"},
		"trailing spaces":                    {plainLine("ab   "), 9, "ab"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := row.line.fit(row.cells).render(false); got != row.want {
				t.Errorf("%q, want %q", got, row.want)
			}
		})
	}
}

func TestWrap(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		text  string
		cells int
		want  []string
	}{
		"no limit":            {"one two three", 0, []string{"one two three"}},
		"text that fits":      {"one two", 7, []string{"one two"}},
		"between words":       {"one two three", 8, []string{"one two", "three"}},
		"wide characters":     {"日本 日本 日本", 9, []string{"日本 日本", "日本"}},
		"a word is too long":  {"a waytoolongword b", 5, []string{"a", "waytoolongword", "b"}},
		"nothing":             {"", 5, []string{""}},
		"no room is no limit": {"one two", -4, []string{"one two"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(row.want, text.Wrap(row.text, row.cells, width)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestDuration(t *testing.T) {
	t.Parallel()
	for took, want := range map[time.Duration]string{
		-time.Second: "0s", 0: "0s", 1600 * time.Millisecond: "2s", 59 * time.Second: "59s", 60 * time.Second: "1m00s",
		252 * time.Second: "4m12s", 59*time.Minute + 59*time.Second: "59m59s", 65*time.Minute + 5*time.Second: "1h05m", 49 * time.Hour: "49h00m",
	} {
		if got := formatDuration(took); got != want {
			t.Errorf("%v is formatted as %s, want %s", took, got, want)
		}
	}
}

func TestWorkflowCommands(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ title, message, want string }{
		"no title":              {"", "all is well", "::warning::all is well\n"},
		"colons and commas":     {"a: b, c", "d: e, f", "::warning title=a%3A b%2C c::d: e, f\n"},
		"percent signs":         {"50%", "100%25", "::warning title=50%25::100%2525\n"},
		"line breaks":           {"a\r\nb", "c\r\nd", "::warning title=a%0D%0Ab::c%0D%0Ad\n"},
		"no control characters": {"a\x1b[1m", "b\u009bc", "::warning title=a[1m::bc\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			(&githubReporter{raw: &writer{out: &out}}).command("warning", row.title, row.message)
			if out.String() != row.want {
				t.Errorf("%q, want %q", out.String(), row.want)
			}
		})
	}
}

// TestCommandEscaper: text of others cannot be a workflow command.
func TestCommandEscaper(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ text, want string }{
		"a command":                  {"::error::x", ": :error::x\n"},
		"after an indent":            {"   ::error::x", "   : :error::x\n"},
		"colons within the text":     {"a ::error::x", "a ::error::x\n"},
		"the old form, anywhere":     {"a ##[add-mask]x", "a ## [add-mask]x\n"},
		"after a non-breaking space": {"\u00a0::error::x", " : :error::x\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			(&writer{out: commandEscaper{&writer{out: &out}}}).lines([]line{plainLine(row.text)}, false)
			if out.String() != row.want {
				t.Errorf("%q, want %q", out.String(), row.want)
			}
		})
	}
}

func TestMarkdownIsEscaped(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ text, want string }{
		"plain":           {"workers-1 (lt-1): 3.", "workers-1 (lt-1): 3."},
		"a cell's end":    {"a|b", `a\|b`},
		"HTML":            {"<img src=x>", `\<img src=x\>`},
		"a link":          {"[a](b)", `\[a\](b)`},
		"emphasis, code":  {"*a* _b_ `c` ~~d~~", "\\*a\\* \\_b\\_ \\`c\\` \\~\\~d\\~\\~"},
		"a formula":       {"$Latest and $Default", `\$Latest and \$Default`},
		"a mention":       {"@team", `\@team`},
		"lines, entities": {"a\n# b &lt;", `a \# b \&lt;`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := escape(row.text); got != row.want {
				t.Errorf("%s, want %s", got, row.want)
			}
		})
	}
}

func TestHeadline(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		groups []Group
		want   string
	}{
		"one group":             {[]Group{{Name: "a_b", Outcome: Done, Total: 6, Gone: 6}}, `**done**: 6 of 6 outdated instances replaced in a\_b, 4m12s`},
		"nothing to do":         {[]Group{{Name: "a", Outcome: Nothing}}, "**nothing**: no instance replaced in a, 4m12s"},
		"the worst of several":  {[]Group{{Name: "a", Outcome: Done, Total: 2, Gone: 2}, {Name: "b", Outcome: Failed, Total: 4, Gone: 1}}, "**failed**: 3 of 6 outdated instances replaced in 2 groups (a: done, b: failed), 4m12s"},
		"many groups":           {doneGroups(7), "**done**: 7 of 7 outdated instances replaced in 7 groups (a: done, a: done, a: done, a: done, a: done and 2 more), 4m12s"},
		"no group was selected": {nil, "**nothing**: no instance replaced, 4m12s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			if err := Summary(&out, Rollout{At: at(252), Started: started, Groups: row.groups}); err != nil {
				t.Fatal(err)
			}
			if first, _, _ := strings.Cut(out.String(), "\n"); first != row.want {
				t.Errorf("%s, want %s", first, row.want)
			}
		})
	}
}

// TestLineSummaries: the summaries of a plan and of a status have a line for each group, with Markdown escaped.
func TestLineSummaries(t *testing.T) {
	t.Parallel()
	three := make([]Planned, 3)
	plans := []Plan{{Group: "work_ers", Outdated: 1, Kept: 1, Instances: three}, {Group: "batch", Instances: three}}
	status := Rollout{Groups: []Group{
		{Name: "a", Refresh: "r-1", Status: "InProgress", Percent: 40, Reason: "Waiting.", Instances: []Instance{{State: "InService"}}},
		{Name: "b"},
	}}
	for name, row := range map[string]struct {
		write func(io.Writer) error
		want  string
	}{
		"a plan": {
			func(w io.Writer) error { return PlanSummary(w, plans) },
			"- work\\_ers: 2 of 3 instances are outdated: 1 will be replaced, 1 kept.\n- batch: 0 of 3 instances are outdated.\n",
		},
		"a status": {
			func(w io.Writer) error { return StatusSummary(w, status) },
			"- a: instance refresh r-1 InProgress, 40 %; Waiting.; 1 InService\n- b: no instance refresh is known; no instances\n",
		},
		"a failure": {
			func(w io.Writer) error { return FailureSummary(w, errors.New("denied\n::error::<b>")) },
			"**trigger failed**: denied ::error::\\<b\\>\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			if err := row.write(&out); err != nil || out.String() != row.want {
				t.Errorf("got %q, %v, want %q", out.String(), err, row.want)
			}
		})
	}
}

func doneGroups(n int) []Group {
	var all []Group
	for range n {
		all = append(all, Group{Name: "a", Outcome: Done, Total: 1, Gone: 1})
	}
	return all
}
