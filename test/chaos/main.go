// Command chaos terminates hundreds of instances in every possible way while agents are killed, the API
// server is stopped and AWS fails, and then judges what happened to nodes and pods. A seed decides
// everything. docs/testing.md lists what is checked. It leaves nothing behind, unless a promise was broken:
// then it prints where the logs are.
package main

import (
	"context"
	"io"
	"os"

	"github.com/node-drainer/node-drainer/test/harness"
)

func main() {
	os.Exit(harness.Main(func(ctx context.Context) int { return run(ctx, os.Args[1:], os.Stdout) }))
}

// run is the whole program; it returns the exit code.
func run(ctx context.Context, args []string, out io.Writer) int {
	o, err := parse(args, out)
	if err == nil {
		err = chaos(ctx, o, out)
	}
	return harness.ExitCode(ctx, out, err)
}
