// Command agent drains Kubernetes nodes before EC2 Auto Scaling terminates their instances.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/node-drainer/node-drainer/internal/config"
)

// version is stamped by the build.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the program: it returns the exit code. 0: stopped as asked; 1: it could not go on; 2: wrong usage or
// configuration.
func run(ctx context.Context, args, environ []string, stdout, stderr io.Writer) int {
	if len(args) > 0 {
		return answer(args, stdout, stderr)
	}
	cfg, err := config.ReadAgent(environ)
	if err != nil {
		_, _ = fmt.Fprintln(stderr, err)
		return 2
	}
	if err := serve(ctx, cfg, stdout); err != nil {
		_, _ = fmt.Fprintln(stderr, err)
		return 1
	}
	return 0
}
