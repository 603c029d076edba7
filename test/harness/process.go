package harness

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// Process is a program that runs, with everything that it has written and, if it is an agent, its HTTP pages.
// Its methods may be called from several goroutines.
type Process struct {
	Cmd *exec.Cmd
	Log
	Pages
}

// NewProcess returns a process that Start starts. Standard output and standard error are collected, unless
// cmd has other destinations for them.
func NewProcess(cmd *exec.Cmd) *Process {
	p := &Process{Cmd: cmd, Log: Log{ended: make(chan struct{}), more: make(chan struct{})}}
	p.Pages = Pages{agent: p}
	if cmd.Stdout == nil {
		cmd.Stdout = p
	}
	if cmd.Stderr == nil {
		cmd.Stderr = p
	}
	return p
}

// Start starts the process.
func (p *Process) Start() error {
	if err := p.Cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", p.Cmd.Path, err)
	}
	p.Attend(func() {})
	return nil
}

// Attend handles the exit of a process that was started without Start. drained returns when the output of the
// process has been read.
func (p *Process) Attend(drained func()) {
	go func() {
		_ = p.Cmd.Wait()
		drained()
		p.state = p.Cmd.ProcessState
		close(p.ended)
	}()
}

// Ended is closed when the process has exited and its output has been read.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// WaitEnd waits until the process has exited, and returns its exit code.
func (p *Process) WaitEnd(ctx context.Context) (code int, err error) {
	select {
	case <-p.ended:
		return p.Cmd.ProcessState.ExitCode(), nil
	case <-ctx.Done():
		return 0, fmt.Errorf("wait for the end of %s: %w", p.Cmd.Path, context.Cause(ctx))
	}
}

// Signal sends a signal. A process that has exited ignores it.
func (p *Process) Signal(signal os.Signal) { _ = p.Cmd.Process.Signal(signal) }

// Kill ends the process as kill -9 does, and returns when it has exited.
func (p *Process) Kill() {
	p.Signal(syscall.SIGKILL)
	<-p.ended
}

// Stop ends the process as Kubernetes does, and returns its exit code.
func (p *Process) Stop(ctx context.Context) (code int, err error) {
	p.Signal(syscall.SIGTERM)
	return p.WaitEnd(ctx)
}
