// Command bench measures how nodes are drained: by kubectl drain, by the agent, and by a greedy evictor that
// shows what is possible at all, on the same real control plane. docs/performance.md explains the figures.
// It leaves nothing behind. A figure that misses its target is reported, and is no failure.
package main

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/node-drainer/node-drainer/test/harness"
)

func main() {
	os.Exit(harness.Main(func(ctx context.Context) int {
		if job := os.Getenv(greedyVariable); job != "" {
			return greedyMain(ctx, job)
		}
		return run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	}))
}

// run is the benchmark; it returns the exit code. Everything that it has started has ended by then.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args, stdout)
	if err != nil {
		return harness.ExitCode(ctx, stderr, err)
	}
	b := &bench{options: o, log: stderr}
	err = b.run(ctx)
	// What was measured before a failure is reported too.
	return harness.ExitCode(ctx, stderr, errors.Join(err, b.report(stdout)))
}
