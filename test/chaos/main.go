// Command chaos has hundreds of instances terminated in every way there is, while the agents are killed, the
// API server is stopped and AWS fails, and then judges what has been done to nodes and pods. Everything is
// decided by a seed. What is held against the run is told in docs/chaos.md. It leaves nothing behind, unless
// a promise was broken: then it says where the logs are.
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
	// The libraries tell there of each watch that ends with the API server.
	klog.SetLogger(klog.Logger{})
	code := run(ctx, os.Args[1:], os.Stdout)
	stop()
	os.Exit(code)
}

// run is the whole of the program; it returns the exit code.
func run(ctx context.Context, args []string, out io.Writer) int {
	o, err := parse(args, out)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		_, _ = fmt.Fprintln(out, err)
		return exitUsage
	}
	err = chaos(ctx, o, out)
	switch {
	case ctx.Err() != nil:
		_, _ = fmt.Fprintln(out, "interrupted: everything has been stopped")
		return exitInterrupted
	case err != nil:
		_, _ = fmt.Fprintln(out, "FAILED:", err)
		return exitFailed
	}
	return 0
}
