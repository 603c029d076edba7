package cli

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/node-drainer/node-drainer/internal/report"
)

// TestSummaries: --summary-file is overwritten, and the file of GitHub Actions is appended to.
func TestSummaries(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	own, step := filepath.Join(dir, "own.md"), filepath.Join(dir, "step.md")
	for _, name := range []string{own, step} {
		if err := os.WriteFile(name, []byte("before\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := newProgram([]string{"GITHUB_STEP_SUMMARY=" + step}, nil, nil)
	p.settings.summaryFile = own
	if err := p.checkSummary(); err != nil {
		t.Fatal(err)
	}
	failed := errors.New("AccessDenied: <no> *access*\nfor you")
	if err := p.summarize(func(w io.Writer) error { return report.FailureSummary(w, failed) }); err != nil {
		t.Fatal(err)
	}
	const text = "**trigger failed**: AccessDenied: \\<no\\> \\*access\\* for you\n"
	for name, want := range map[string]string{own: text, step: "before\n" + text} {
		if got, err := os.ReadFile(name); err != nil || string(got) != want {
			t.Errorf("%s is %q, %v, want %q", filepath.Base(name), got, err, want)
		}
	}
}

// TestUnwritableSummary: the trigger fails at the start, before anything is changed.
func TestUnwritableSummary(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	file := filepath.Join(t.TempDir(), "missing", "summary.md")
	code := run(t.Context(), []string{"--asg", "workers"}, []string{"TRIGGER_SUMMARY_FILE=" + file}, &stdout, &stderr)
	if code != 1 || !strings.HasPrefix(stderr.String(), "trigger: TRIGGER_SUMMARY_FILE: open "+file) {
		t.Errorf("exit code %d: %s", code, stderr.String())
	}
}

// fakeReporter is a Reporter that may have failed to write.
type fakeReporter struct{ err error }

func (fakeReporter) Plan([]report.Plan) error { return nil }
func (fakeReporter) Show(report.Rollout)      {}
func (fakeReporter) End(report.Rollout)       {}
func (t fakeReporter) Err() error             { return t.err }

// TestLostOutput: a rollout whose output could not be written ends with an error.
func TestLostOutput(t *testing.T) {
	t.Parallel()
	p := newProgram(nil, nil, nil)
	_, err := p.reportTo(fakeReporter{os.ErrClosed}, func(report.Reporter) (report.Outcome, error) { return report.Done, nil })
	if !errors.Is(err, os.ErrClosed) {
		t.Errorf("the error is %v", err)
	}
}

// TestFailureSummary: the summary has an error that happened before the groups were known.
func TestFailureSummary(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "summary.md")
	p := newProgram(nil, nil, nil)
	p.settings.summaryFile = file
	denied := errors.New("AccessDenied")
	_, err := p.reportTo(fakeReporter{}, func(report.Reporter) (report.Outcome, error) { return report.Error, denied })
	if !errors.Is(err, denied) {
		t.Errorf("the error is %v", err)
	}
	if got, _ := os.ReadFile(file); string(got) != "**trigger failed**: AccessDenied\n" {
		t.Errorf("the summary is %q", got)
	}
}

// TestNoTerminal: a file is not a terminal, and a buffer has no size.
func TestNoTerminal(t *testing.T) {
	t.Parallel()
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	size, terminal := terminalOf(file)
	if cols, rows := size(); terminal || cols != 0 || rows != 0 {
		t.Errorf("a file is a terminal: %v, of %d columns and %d rows", terminal, cols, rows)
	}
	if size, terminal := terminalOf(new(bytes.Buffer)); terminal || size != nil {
		t.Error("a buffer is a terminal")
	}
}

func TestIsTrue(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"": false, "false": false, "0": false, "true": true, "1": true, "yes": true, "woodpecker": true,
	} {
		if got := isTrue(text); got != want {
			t.Errorf("CI=%s is %v", text, got)
		}
	}
}
