package report

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestFit(t *testing.T) {
	t.Parallel()
	fit := func(cells int, l ...span) string { return line(l).fit(cells).render(false) }
	texts{
		"text that fits":                     {fit(3, span{plain, "abc"}), "abc"},
		"text that is too long":              {fit(3, span{plain, "abcd"}), "ab…"},
		"truncated in the first span":        {fit(3, span{plain, "abc"}, span{red, "d"}), "ab…"},
		"truncated in the second span":       {fit(4, span{plain, "ab"}, span{red, "cde"}), "abc…"},
		"wide characters":                    {fit(5, span{plain, "日本語"}), "日本…"},
		"a wide character that does not fit": {fit(4, span{plain, "日本語"}), "日…"},
		"combining marks":                    {fit(2, span{plain, "e\u0301e\u0301"}), "e\u0301e\u0301"},
		"one cell":                           {fit(1, span{plain, "abc"}), "…"},
		"trailing spaces":                    {fit(9, span{plain, "ab   "}), "ab"},
	}.check(t)
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
	command := func(title, message string) string {
		var out strings.Builder
		(&githubReporter{textReporter{writer: &writer{out: &out}}}).command("warning", title, message)
		return out.String()
	}
	texts{
		"no title":              {command("", "all is well"), "::warning::all is well\n"},
		"colons and commas":     {command("a: b, c", "d: e, f"), "::warning title=a%3A b%2C c::d: e, f\n"},
		"percent signs":         {command("50%", "100%25"), "::warning title=50%25::100%2525\n"},
		"line breaks":           {command("a\r\nb", "c\r\nd"), "::warning title=a%0D%0Ab::c%0D%0Ad\n"},
		"no control characters": {command("a\x1b[1m", "b\u009bc"), "::warning title=a[1m::bc\n"},
	}.check(t)
}

// TestEscapeCommand: text of others cannot be a workflow command.
func TestEscapeCommand(t *testing.T) {
	t.Parallel()
	written := func(text string) string {
		var out strings.Builder
		(&writer{out: &out, escape: escapeCommand}).lines(plainLine(text))
		return out.String()
	}
	var status strings.Builder
	New(Options{Out: &status, GitHub: true}).Status(Rollout{Groups: []Group{{Name: "a", Reason: "::error::x"}}})
	texts{
		"a reason in a status":       {status.String(), "a: no instance refresh is known\n  : :error::x\n  0 instances: no instances\n"},
		"a command":                  {written("::error::x"), ": :error::x\n"},
		"after an indent":            {written("   ::error::x"), "   : :error::x\n"},
		"colons within the text":     {written("a ::error::x"), "a ::error::x\n"},
		"the old form, anywhere":     {written("a ##[add-mask]x"), "a ## [add-mask]x\n"},
		"after a non-breaking space": {written("\u00a0::error::x"), " : :error::x\n"},
	}.check(t)
}

func TestMarkdownIsEscaped(t *testing.T) {
	t.Parallel()
	texts{
		"plain":           {escape("workers-1 (lt-1): 3."), "workers-1 (lt-1): 3."},
		"a cell's end":    {escape("a|b"), `a\|b`},
		"HTML":            {escape("<img src=x>"), `\<img src=x\>`},
		"a link":          {escape("[a](b)"), `\[a\](b)`},
		"emphasis, code":  {escape("*a* _b_ `c` ~~d~~"), "\\*a\\* \\_b\\_ \\`c\\` \\~\\~d\\~\\~"},
		"a formula":       {escape("$Latest and $Default"), `\$Latest and \$Default`},
		"a mention":       {escape("@team"), `\@team`},
		"an address":      {escape("https://a.b/c ftp://d"), `https\://a.b/c ftp\://d`},
		"a host":          {escape("www.a.b Www.c www"), `www\.a.b Www\.c www`},
		"lines, entities": {escape("a\n# b &lt;"), `a \# b \&lt;`},
	}.check(t)
}

func TestHeadline(t *testing.T) {
	t.Parallel()
	first := func(groups ...Group) string {
		line, _, _ := strings.Cut(Summary(Rollout{At: at(252), Started: started, Groups: groups}), "\n")
		return line
	}
	done := Group{Name: "a", Outcome: Done, Total: 1, Gone: 1}
	texts{
		"one group":             {first(Group{Name: "a_b", Outcome: Done, Total: 6, Gone: 6}), `**done**: 6 of 6 outdated instances replaced in a\_b, 4m12s`},
		"nothing to do":         {first(Group{Name: "a", Outcome: Nothing}), "**nothing**: no instance replaced in a, 4m12s"},
		"the worst of several":  {first(done, Group{Name: "b", Outcome: Failed, Total: 4, Gone: 1}), "**failed**: 2 of 5 outdated instances replaced in 2 groups (a: done, b: failed), 4m12s"},
		"many groups":           {first(done, done, done, done, done, done, done), "**done**: 7 of 7 outdated instances replaced in 7 groups (a: done, a: done, a: done, a: done, a: done and 2 more), 4m12s"},
		"no group was selected": {first(), "**nothing**: no instance replaced, 4m12s"},
	}.check(t)
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
	texts{
		"a plan":    {PlanSummary(plans), "- work\\_ers: 2 of 3 instances are outdated: 1 will be replaced, 1 kept.\n- batch: 0 of 3 instances are outdated.\n"},
		"a status":  {StatusSummary(status), "- a: instance refresh r-1 InProgress, 40 %; Waiting.; 1 InService\n- b: no instance refresh is known; no instances\n"},
		"a failure": {FailureSummary(errors.New("denied\n::error::<b>")), "**trigger failed**: denied ::error::\\<b\\>\n"},
	}.check(t)
}
