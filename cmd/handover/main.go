// Command handover has Redis and Valkey pods of one namespace hand over their leadership when the agent asks it to.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/node-drainer/node-drainer/internal/handover/program"
)

// version is set by the linker.
var version = "dev"

func main() { os.Exit(run(os.Args[1:], os.Environ(), os.Stdout, os.Stderr)) }

// run returns the exit code: 0 after SIGINT or SIGTERM, 1 after a failure, 2 for wrong usage or configuration.
func run(args, environ []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(args) > 0 {
		return program.Answer(args, version, stdout, stderr)
	}
	cfg, err := program.Read(environ)
	if err != nil {
		_, _ = fmt.Fprintln(stderr, err)
		return 2
	}
	if err := program.Run(ctx, cfg, version, stdout); err != nil {
		_, _ = fmt.Fprintln(stderr, err)
		return 1
	}
	return 0
}
