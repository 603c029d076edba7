// Command trigger has outdated instances of EC2 Auto Scaling groups replaced, and follows that to its end.
package main

import (
	"context"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/klog/v2"

	"github.com/node-drainer/node-drainer/internal/report"
)

//go:generate go run . help-markdown ../../docs/trigger-flags.md

// version is stamped by the build.
var version = "dev"

func main() {
	outliveReaders()
	klog.SetSlogLogger(slog.New(slog.DiscardHandler)) // client-go's own words would break into the view
	ctx, cancel := context.WithCancel(context.Background())
	go twice(interruptions(), cancel, func() {
		giveBack(os.Stdout)
		os.Exit(report.Interrupted.ExitCode())
	})
	code := run(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr)
	cancel()
	os.Exit(code)
}

// interruptions are the signals that ask to stop. A hangup is none for a program that was told to outlive
// it.
func interruptions() <-chan os.Signal {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(signals, syscall.SIGHUP)
	}
	return signals
}

// twice has the first signal ask, and the second one not ask.
func twice(signals <-chan os.Signal, ask, exit func()) {
	<-signals
	ask()
	<-signals
	exit()
}

// run is the program: it returns the exit code, as report.ExitCodes lists them.
func run(ctx context.Context, args, environ []string, stdout, stderr io.Writer) int {
	p := newProgram(environ, stdout, stderr)
	return p.run(ctx, args)
}
