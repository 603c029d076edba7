// Command demo shows on one screen what the agent does: it starts a real Kubernetes control plane,
// a simulated AWS and the agent, scales one instance in, and tells what happens until the instance
// is gone. It leaves nothing behind, and ends with 0 only if everything was as it should be.
//
// DEMO_KEEP=1 leaves the world up after the story, until Ctrl-C.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/node-drainer/node-drainer/test/cluster"
)

// Exit codes: 1 is any failure, 130 is what shells give for Ctrl-C.
const (
	exitFailed      = 1
	exitInterrupted = 130
)

const preface = `
node-drainer: one instance of an Auto Scaling group is scaled in, and its node is drained first.
  Real:       etcd, kube-apiserver, controllers, scheduler, RBAC, evictions; the agent, as a process
  Simulated:  AWS (SQS, Auto Scaling) by test/awsim; kubelets by kwok, so nothing runs in the pods
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second Ctrl-C ends even a cleanup that hangs; what is left then, the control plane's reaper ends.
	context.AfterFunc(ctx, stop)
	code := run(ctx, newScreen(os.Stdout), os.Stderr)
	stop()
	os.Exit(code)
}

// run is the demo; it returns the exit code. Whatever happens, all that it started has ended by then.
func run(ctx context.Context, s *screen, errs io.Writer) int {
	s.line("%s", strings.TrimPrefix(preface, "\n"))
	var ends cleanups
	err := demonstrate(ctx, s, &ends, errs)
	interrupted := ctx.Err() != nil
	s.status("stopping everything ...")
	err = errors.Join(err, ends.run())
	s.status("")
	switch {
	case errors.Is(err, errKept):
		return 0
	case interrupted:
		_, _ = fmt.Fprintln(errs, "interrupted: everything has been stopped")
		return exitInterrupted
	case err != nil:
		_, _ = fmt.Fprintln(errs, s.red("FAILED: ")+err.Error())
		return exitFailed
	}
	return 0
}

// errKept says that the user has ended a world that was kept after a story that went well.
var errKept = errors.New("ended by the user")

// demonstrate sets the stage, plays, and sums up. What it started is in ends.
func demonstrate(ctx context.Context, s *screen, ends *cleanups, log io.Writer) error {
	binaries, err := cluster.Binaries(ctx, log) // On a first run this takes long, and says so.
	if err != nil {
		return err
	}
	w := &world{screen: s, ends: ends, binaries: binaries}
	if err := w.build(ctx); err != nil {
		return err
	}
	result, err := w.play(ctx)
	if err != nil {
		return err
	}
	s.line("\n%s", result.table(s))
	if err := result.verdict(); err != nil {
		return err
	}
	if keep := os.Getenv("DEMO_KEEP"); keep != "" && keep != "0" {
		return w.keep(ctx)
	}
	return nil
}

// cleanups are the ends of what was started.
type cleanups []func() error

func (c *cleanups) add(end func() error) { *c = append(*c, end) }

// run calls each, the latest first, also when one fails.
func (c *cleanups) run() error {
	var errs []error
	for _, end := range slices.Backward(*c) {
		errs = append(errs, end())
	}
	*c = nil
	return errors.Join(errs...)
}

// seconds is a duration as the story tells it.
func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }
