package cli

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/node-drainer/node-drainer/internal/report"
)

// reporter returns the reporter for stdout, in the format that the settings, stdout and the environment ask
// for.
func (e *executor) reporter() report.Reporter {
	file, isFile := e.stdout.(*os.File)
	live := isFile && term.IsTerminal(int(file.Fd())) && e.environ["TERM"] != "dumb" && !isTrue(e.environ["CI"])
	return report.New(report.Options{
		Format:   e.settings.output,
		Out:      e.stdout,
		Terminal: live,
		Size: func() (cols, rows int) {
			cols, rows, _ = term.GetSize(int(file.Fd())) // 0 if it is not known
			return cols, rows
		},
		Color:  live && e.environ["NO_COLOR"] == "", // Source: no-color.org.
		GitHub: isTrue(e.environ["GITHUB_ACTIONS"]),
	})
}

// surviveClosedPipes makes a write to a closed pipe fail, instead of ending the program during a rollout.
// The signal is caught, not ignored: programs that are started for credentials would inherit that.
func surviveClosedPipes() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

// restoreTerminal undoes what a live view that is cut off has changed in a terminal. It gives up on a
// terminal that accepts no output, as one does that was halted by Ctrl-S.
func restoreTerminal(f *os.File) {
	const timeout = 200 * time.Millisecond
	if !term.IsTerminal(int(f.Fd())) {
		return
	}
	written := make(chan struct{})
	go func() {
		defer close(written)
		_, _ = f.WriteString(report.Restore + "\n")
	}()
	select {
	case <-written:
	case <-time.After(timeout):
	}
}

func isTrue(text string) bool {
	b, err := strconv.ParseBool(text)
	return b || err != nil && text != ""
}

// stepSummary names the file that GitHub Actions shows as the summary of a step. Source: "Workflow
// commands" in its documentation.
const stepSummary = "GITHUB_STEP_SUMMARY"

// checkSummary fails at the start if the summary cannot be written, and not after hours.
func (e *executor) checkSummary() error {
	if e.settings.summaryFile == "" {
		return nil
	}
	if err := write(e.settings.summaryFile, os.O_TRUNC, ""); err != nil {
		return fmt.Errorf("%s: %w", e.settings.options.source("summary-file"), err)
	}
	return nil
}

// summarize writes the summary of a rollout, a status or a plan to --summary-file, and appends it to the
// file of GitHub Actions.
func (e *executor) summarize(summary string) error {
	var errs []error
	if name := e.settings.summaryFile; name != "" {
		errs = append(errs, write(name, os.O_TRUNC, summary))
	}
	if name := e.environ[stepSummary]; name != "" {
		errs = append(errs, write(name, os.O_APPEND, summary))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("write the summary: %w", err)
	}
	return nil
}

func write(name string, how int, text string) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|how, 0o644) //nolint:gosec // the user names it, all may read it
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}
