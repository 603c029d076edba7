// Command bench measures how nodes are drained: by kubectl drain, by the agent, and by a greedy evictor that
// shows what is possible at all, on the same real control plane. What the figures mean is told in
// docs/performance.md. It leaves nothing behind. A figure that misses its target is told, and is no failure.
package main

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

// Exit codes: 130 is what shells give for Ctrl-C.
const (
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second Ctrl-C ends even a cleanup that hangs; what is left then, the control plane's reaper ends.
	context.AfterFunc(ctx, stop)
	// The libraries tell there of each watch that ends with its round.
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	var code int
	if job := os.Getenv(greedyVariable); job != "" {
		code = greedyMain(ctx, job)
	} else {
		code = run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	}
	stop()
	os.Exit(code)
}

// run is the benchmark; it returns the exit code. Whatever happens, all that it started has ended by then.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args, stdout)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		_, _ = fmt.Fprintln(stderr, err)
		return exitUsage
	}
	b := &bench{options: o, log: stderr}
	err = b.run(ctx)
	// What was measured before a failure is worth telling, too.
	err = errors.Join(err, b.report(stdout))
	switch {
	case ctx.Err() != nil:
		_, _ = fmt.Fprintln(stderr, "interrupted: everything has been stopped")
		return exitInterrupted
	case err != nil:
		_, _ = fmt.Fprintln(stderr, "FAILED:", err)
		return exitFailed
	}
	return 0
}
