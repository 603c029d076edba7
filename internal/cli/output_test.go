package cli

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/node-drainer/node-drainer/internal/report"
)

// TestSummaries: --summary-file is overwritten, and the file of GitHub Actions is appended to, also if the trigger fails
// before the groups are known.
func TestSummaries(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	own, step := filepath.Join(dir, "own.md"), filepath.Join(dir, "step.md")
	for _, name := range []string{own, step} {
		if err := os.WriteFile(name, []byte("before\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	e := newProgram([]string{"GITHUB_STEP_SUMMARY=" + step}, nil, nil).executor
	e.settings.summaryFile = own
	if err := e.checkSummary(); err != nil {
		t.Fatal(err)
	}
	denied := errors.New("AccessDenied: <no> *access*\nfor you")
	_, err := e.change(fakeReporter{}, func() (report.Rollout, error) { return report.Rollout{}, denied })
	if !errors.Is(err, denied) {
		t.Errorf("the error is %v", err)
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
type fakeReporter struct {
	report.Reporter
	err error
}

func (t fakeReporter) Err() error { return t.err }

// TestLostOutput: a rollout whose output could not be written ends with an error.
func TestLostOutput(t *testing.T) {
	t.Parallel()
	e := newProgram(nil, nil, nil).executor
	_, err := e.change(fakeReporter{err: os.ErrClosed}, func() (report.Rollout, error) { return report.Rollout{}, nil })
	if !errors.Is(err, os.ErrClosed) {
		t.Errorf("the error is %v", err)
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
