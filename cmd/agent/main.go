// Command agent drains Kubernetes nodes before EC2 Auto Scaling terminates their instances.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/node-drainer/node-drainer/internal/app"
	"github.com/node-drainer/node-drainer/internal/config"
)

// version is set by the linker.
var version = "dev"

func main() { os.Exit(run(os.Args[1:], os.Environ(), os.Stdout, os.Stderr)) }

// run returns the exit code: 0 after SIGINT or SIGTERM, 1 after a failure, also of a check, 2 for wrong usage or
// configuration.
func run(args, environ []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	switch {
	case len(args) > 0 && args[0] == "check":
		return app.Check(ctx, args[1:], environ, version, stdout, stderr)
	case len(args) > 0:
		return app.Answer(args, version, stdout, stderr)
	}
	cfg, err := config.ReadAgent(environ)
	if err != nil {
		_, _ = fmt.Fprintln(stderr, err)
		return 2
	}
	if err := app.Run(ctx, cfg, version, app.NewLogger(cfg, stdout)); err != nil {
		_, _ = fmt.Fprintln(stderr, err)
		return 1
	}
	return 0
}
