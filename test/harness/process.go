package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
)

// errRace is the error of a process in which the race detector has found a data race.
var errRace = errors.New("the race detector has found a data race")

// Process is a program that runs, and everything that it has written. Its methods may be called from several
// goroutines.
type Process struct {
	Cmd *exec.Cmd

	ended chan struct{}

	mu     sync.Mutex
	output bytes.Buffer
	parsed int    // Bytes of output that are in lines.
	lines  []Line // The complete lines.
	more   chan struct{}
}

// Line is a line of output: a JSON object, as the agent logs it and the trigger writes it with -o ndjson. A line
// that is no JSON object has the message "not JSON", and is the field text.
type Line map[string]any

// Text returns a field that is a string, or "".
func (l Line) Text(key string) string {
	s, _ := l[key].(string)
	return s
}

// Matches reports whether the line has the message and the fields, which are given as pairs.
func (l Line) Matches(message string, fields ...string) bool {
	if l.Text("message") != message {
		return false
	}
	for i := 0; i+1 < len(fields); i += 2 {
		if fmt.Sprint(l[fields[i]]) != fields[i+1] {
			return false
		}
	}
	return true
}

// NewProcess returns a process that Start starts. Standard output and standard error are collected, unless cmd
// has other destinations for them.
func NewProcess(cmd *exec.Cmd) *Process {
	p := &Process{Cmd: cmd, ended: make(chan struct{}), more: make(chan struct{})}
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

// Attend waits for the end of a process that was started in another way, and for drained, which returns when
// its output has been read.
func (p *Process) Attend(drained func()) {
	go func() {
		_ = p.Cmd.Wait()
		drained()
		close(p.ended)
	}()
}

// Write collects output.
func (p *Process) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.output.Write(text)
	p.parse()
	close(p.more)
	p.more = make(chan struct{})
	return len(text), nil
}

// parse reads the lines that are complete. It needs mu.
func (p *Process) parse() {
	for {
		rest := p.output.Bytes()[p.parsed:]
		end := bytes.IndexByte(rest, '\n')
		if end < 0 {
			return
		}
		var l Line
		if json.Unmarshal(rest[:end], &l) != nil || l == nil {
			l = Line{"message": "not JSON", "text": string(rest[:end])}
		}
		p.lines, p.parsed = append(p.lines, l), p.parsed+end+1
	}
}

// Output returns everything that the process has written so far.
func (p *Process) Output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.output.String()
}

// Lines returns the complete lines that the process has written so far.
func (p *Process) Lines() []Line {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clip(p.lines)
}

// Count returns how many lines match.
func (p *Process) Count(message string, fields ...string) (n int) {
	for _, l := range p.Lines() {
		if l.Matches(message, fields...) {
			n++
		}
	}
	return n
}

// WaitLine waits for the n-th line that matches, and returns it.
func (p *Process) WaitLine(
	ctx context.Context, n int, message string, fields ...string,
) (found Line, err error) {
	seen, count := 0, 0
	err = p.wait(ctx, func() bool {
		for _, l := range p.lines[seen:] {
			if seen++; l.Matches(message, fields...) {
				if count++; count == n {
					found = l
					return true
				}
			}
		}
		return false
	})
	if err != nil {
		return nil, fmt.Errorf("wait for the log line %q %q: it was written %d times, not %d: %w",
			message, fields, count, n, err)
	}
	return found, nil
}

// WaitOutput waits until what the process has written matches.
func (p *Process) WaitOutput(ctx context.Context, wanted *regexp.Regexp) error {
	err := p.wait(ctx, func() bool { return wanted.Match(p.output.Bytes()) })
	if err != nil {
		return fmt.Errorf("wait for the output %s: %w", wanted, err)
	}
	return nil
}

// wait calls done, with mu held, at once and after each write until it returns true.
func (p *Process) wait(ctx context.Context, done func() bool) error {
	for ended := false; ; {
		p.mu.Lock()
		ok, more := done(), p.more
		p.mu.Unlock()
		switch {
		case ok:
			return nil
		case ended:
			return fmt.Errorf("the process has exited: %v", p.Cmd.ProcessState)
		}
		select {
		case <-more:
		case <-p.ended: // Everything has been read by then, and is checked once more.
			ended = true
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
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

// Race returns an error if the process was built with the race detector, which has found a data race in it.
func (p *Process) Race() error {
	if _, report, found := strings.Cut(p.Output(), "DATA RACE"); found {
		return fmt.Errorf("%w: %s", errRace, report)
	}
	return nil
}
