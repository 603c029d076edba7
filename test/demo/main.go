// Command demo shows on one screen what the agent does: it starts a real Kubernetes control plane, a
// simulated AWS and the agent, terminates one instance by scaling in, and prints what happens until the
// instance is gone. It leaves nothing behind, and exits with 0 only if every check passed.
//
// DEMO_NODES=real runs kubelets whose containers run, and counts the requests that fail; see package realnodes.
// DEMO_KEEP=1 keeps everything running until Ctrl-C. cluster.Binaries explains KUBE_BINARIES, KUBE_MIRROR and
// DEMO_BUILD.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/node-drainer/node-drainer/test/cluster"
	"github.com/node-drainer/node-drainer/test/harness"
	"github.com/node-drainer/node-drainer/test/realnodes"
)

const preface = `node-drainer: an Auto Scaling group scales in by one instance, and its node is drained first.
  Real:       etcd, kube-apiserver, controllers, scheduler, RBAC, evictions; the agent, as a process
  Simulated:  AWS (SQS, Auto Scaling) by test/awsim; kubelets by kwok, so nothing runs in the pods
`

const realPreface = `node-drainer: an Auto Scaling group scales in by one instance, and its node is drained first.
  Real:       the control plane; kubelets, containers and kube-proxy; the agent, as a process
  Simulated:  AWS (SQS, Auto Scaling) by test/awsim
`

func main() {
	agent := flag.String("agent", "", "agent to run; built from source if empty")
	recording := flag.String("record", "", "folder to write the output to, as it is on a terminal, for demo-replay, "+
		"and the node and the metrics of the drain")
	flag.Parse()
	os.Exit(harness.Main(func(ctx context.Context) int {
		s := newScreen(os.Stdout)
		if os.Getenv(nodesVariable) == "real" {
			return runReal(ctx, s, options{agent: *agent}, os.Stderr)
		}
		if *recording == "" {
			return run(ctx, s, options{agent: *agent}, os.Stderr)
		}
		file, err := os.Create(filepath.Join(*recording, castFile))
		if err != nil {
			return harness.ExitCode(ctx, os.Stderr, err)
		}
		defer file.Close()
		s.record(file)
		return run(ctx, s, options{agent: *agent, recording: *recording}, os.Stderr)
	}))
}

// nodesVariable says what the nodes are: real, or simulated if it is empty.
const nodesVariable = "DEMO_NODES"

// options are those of the command line.
type options struct {
	agent, recording string
	real             bool
}

// runReal is run with real nodes, in namespaces that end with it.
func runReal(ctx context.Context, s *screen, o options, errs io.Writer) int {
	if why := realnodes.Lacking(); why != "" {
		_, _ = fmt.Fprintf(errs, "%s=real: containers cannot run here: %s\n", nodesVariable, why)
		return harness.ExitFailed
	}
	if keep() {
		_, _ = fmt.Fprintln(errs, "DEMO_KEEP=1 keeps simulated nodes only: unset "+nodesVariable)
		return harness.ExitFailed
	}
	inside, code, err := realnodes.Enter(ctx, errs, func(context.Context, string) error { return nil })
	if err != nil {
		return harness.ExitCode(ctx, errs, err)
	}
	if !inside {
		return code
	}
	o.real = true
	return run(ctx, s, o, errs)
}

// keep reports whether everything is to be kept running.
func keep() bool {
	value := os.Getenv("DEMO_KEEP")
	return value != "" && value != "0"
}

// run is the demo; it returns the exit code. Everything that it has started has ended by then.
func run(ctx context.Context, s *screen, o options, errs io.Writer) int {
	if o.real {
		s.line(realPreface)
	} else {
		s.line(preface)
	}
	var cleanup cleanups
	err := demonstrate(ctx, s, o, &cleanup, errs)
	interrupted := ctx.Err() != nil
	s.status("stopping everything ...")
	err = errors.Join(err, cleanup.run())
	s.status("")
	switch {
	case errors.Is(err, errKept):
		return 0
	case interrupted:
		return harness.ExitCode(ctx, errs, err)
	case err != nil:
		_, _ = fmt.Fprintln(errs, s.red("FAILED: ")+err.Error())
		return harness.ExitFailed
	}
	return 0
}

// errKept is the error of an environment that was kept after a successful demo until the user ended it.
var errKept = errors.New("ended by the user")

// demonstrate sets up the environment, drains a node, and prints the summary. cleanup ends what it has
// started.
func demonstrate(ctx context.Context, s *screen, o options, cleanup *cleanups, log io.Writer) error {
	binaries, err := cluster.Binaries(ctx, log) // The first run downloads or builds them, and says so.
	if err != nil {
		return err
	}
	e := &env{screen: s, cleanup: cleanup, binaries: binaries, binary: o.agent, real: o.real}
	if err := e.setUp(ctx); err != nil {
		return err
	}
	drain := e.drainOne
	if o.recording != "" {
		drain = func(ctx context.Context) (result, error) { return e.recordDrain(ctx, o.recording) }
	}
	result, err := drain(ctx)
	if err != nil {
		return err
	}
	s.line("\n%s", result.table(s))
	if err := result.check(); err != nil {
		return err
	}
	if keep() {
		return e.keep(ctx)
	}
	return nil
}

// cleanups are the functions that end what was started.
type cleanups []func() error

func (c *cleanups) add(end func() error) { *c = append(*c, end) }

// run calls each, the latest first, even if one fails.
func (c *cleanups) run() error {
	var errs []error
	for _, end := range slices.Backward(*c) {
		errs = append(errs, end())
	}
	*c = nil
	return errors.Join(errs...)
}

// seconds formats a duration for the output.
func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }
