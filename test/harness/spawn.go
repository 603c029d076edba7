package harness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// StopTimeout is how long a process may take to exit after SIGTERM.
const StopTimeout = 20 * time.Second

// Spawn starts cmd in a process group of its own, so that Ctrl-C in a terminal reaches the caller alone.
// What it writes is in the file log and in the Process; only in the file if cmd.Stdout is io.Discard. The
// file pid holds its process number while it runs: in the folder of a control plane, the reaper there ends
// the process if the caller is killed.
func Spawn(cmd *exec.Cmd, log, pid string) (*Process, error) {
	file, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	fileOnly := cmd.Stdout == io.Discard
	p := NewProcess(cmd)
	if cmd.Stdout = io.MultiWriter(file, p); fileOnly {
		cmd.Stdout = file
	}
	cmd.Stderr = cmd.Stdout
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.Start(); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	err = os.WriteFile(pid, fmt.Append(nil, cmd.Process.Pid), 0o600)
	go func() {
		<-p.Ended()
		_ = file.Close()
		_ = os.Remove(pid)
	}()
	if err != nil {
		return nil, errors.Join(err, p.Terminate())
	}
	return p, nil
}

// Terminate ends the process with SIGTERM, and with SIGKILL if it has not exited after StopTimeout, which is
// an error.
func (p *Process) Terminate() error {
	p.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
		return nil
	case <-time.After(StopTimeout):
	}
	p.Kill()
	return fmt.Errorf("%s had not exited %v after SIGTERM", p.Cmd.Path, StopTimeout)
}

// Failure returns the error of a process that should not have exited: how it did, and its last lines of
// output.
func (p *Process) Failure() error {
	const most = 5
	<-p.Ended()
	lines := strings.Split(strings.TrimSpace(p.Output()), "\n")
	return fmt.Errorf("%s exited (%s); its last lines:\n  %s",
		p.Cmd.Path, p.Cmd.ProcessState, strings.Join(lines[max(0, len(lines)-most):], "\n  "))
}

// WhileRunning returns a context that ends, with Failure as its cause, when the process exits.
func (p *Process) WhileRunning(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-p.Ended():
			cancel(p.Failure())
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}
