package harness

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/klog/v2"
)

// Exit codes of the commands under test/. 130 is what shells report after Ctrl-C.
const (
	ExitFailed      = 1
	ExitUsage       = 2
	ExitInterrupted = 130
)

// UsageError is the error of arguments that a command does not take.
type UsageError struct{ error }

// NewUsageError returns an error that ends a command with ExitUsage.
func NewUsageError(format string, args ...any) error { return UsageError{fmt.Errorf(format, args...)} }

// Main runs a command and returns its exit code. SIGINT and SIGTERM cancel ctx. A second signal ends the
// program even if its cleanup hangs; the control plane's reaper then stops the remaining processes.
func Main(run func(ctx context.Context) int) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	// client-go logs every watch that ends because an API server stops.
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	return run(ctx)
}

// ExitCode returns the exit code of a command that returned err, and reports the error to out.
func ExitCode(ctx context.Context, out io.Writer, err error) int {
	_, usage := errors.AsType[UsageError](err)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case usage:
		_, _ = fmt.Fprintln(out, err)
		return ExitUsage
	case ctx.Err() != nil:
		_, _ = fmt.Fprintln(out, "interrupted: everything has been stopped")
		return ExitInterrupted
	case err != nil:
		_, _ = fmt.Fprintln(out, "FAILED:", err)
		return ExitFailed
	}
	return 0
}
