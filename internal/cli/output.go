package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/node-drainer/node-drainer/internal/report"
)

// reporter returns the reporter for stdout, in the format that the settings, stdout and the environment ask
// for.
func (p *program) reporter() (report.Reporter, error) {
	size, terminal := terminalOf(p.stdout)
	live := terminal && p.environ["TERM"] != "dumb" && !isTrue(p.environ["CI"])
	return report.New(report.Options{
		Format:   p.settings.output,
		Out:      p.stdout,
		Terminal: live,
		Size:     size,
		Color:    live && p.environ["NO_COLOR"] == "", // Source: no-color.org.
		GitHub:   isTrue(p.environ["GITHUB_ACTIONS"]),
	})
}

// terminalOf reports whether w is a terminal, and returns a function for its current size: 0 if that is
// unknown. The function is nil if w is not a file.
func terminalOf(w io.Writer) (size func() (cols, rows int), terminal bool) {
	f, isFile := w.(*os.File)
	if !isFile {
		return nil, false
	}
	fd := int(f.Fd())
	return func() (cols, rows int) {
		cols, rows, err := term.GetSize(fd)
		if err != nil {
			return 0, 0
		}
		return cols, rows
	}, term.IsTerminal(fd)
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
func (p *program) checkSummary() error {
	if p.settings.summaryFile == "" {
		return nil
	}
	if err := write(p.settings.summaryFile, os.O_TRUNC, ""); err != nil {
		return fmt.Errorf("%s: %w", p.settings.flagName("summary-file"), err)
	}
	return nil
}

// summarize writes the summary of a rollout, a status or a plan to --summary-file, and appends it to the
// file of GitHub Actions.
func (p *program) summarize(summary func(io.Writer) error) error {
	var b strings.Builder
	errs := []error{summary(&b)}
	if name := p.settings.summaryFile; name != "" {
		errs = append(errs, write(name, os.O_TRUNC, b.String()))
	}
	if name := p.environ[stepSummary]; name != "" {
		errs = append(errs, write(name, os.O_APPEND, b.String()))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("write the summary: %w", err)
	}
	return nil
}

func write(name string, how int, text string) error {
	const all = 0o644                                             // may read it
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|how, all) //nolint:gosec // the user names the file
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}
